"""The text of a PDF, page by page, extracted by PDFium."""

from __future__ import annotations

import re
from dataclasses import dataclass
from time import process_time
from typing import Final

from upstreams.model.errors import NotFound, UnexpectedBody

PAGES_MAX: Final = 2_000
LETTERS_MAX: Final = 5_000_000
CPU_S_MAX: Final = 5.0
"""After this many CPU seconds, no further page of a PDF is read."""
_HYPHEN = re.compile(r"(?<=\w)[\x02\ufffe\u00ad]\n?")
"""The character that PDFium inserts for a hyphen that splits a word at the end of a line."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_BLANKS = re.compile(r"[ \t\f\v]+")


@dataclass(frozen=True, slots=True)
class PdfText:
    """The texts of a PDF's pages, and its metadata."""

    pages: list[str]
    page_count: int
    title: str | None
    author: str | None


def read_pdf(raw: bytes) -> PdfText:
    """Return the text of a PDF.

    Raises:
        NotFound: The PDF is protected by a password, or has no text.
        UnexpectedBody: The body is not a PDF.
    """
    import pypdfium2 as pdfium  # noqa: PLC0415 - needed only to read PDFs

    try:
        document = pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as exc:
        if "password" in str(exc).lower():
            raise NotFound("The PDF is protected by a password.", reason="login_required") from exc
        raise UnexpectedBody("expected a PDF, but it cannot be read") from exc
    try:
        ends_at = process_time() + CPU_S_MAX
        count = len(document)
        metadata = document.get_metadata_dict(skip_empty=True)
        pages: list[str] = []
        letters = 0
        for place in range(min(count, PAGES_MAX)):
            pages.append(_page_text(document[place]))
            letters += len(pages[-1])
            if letters > LETTERS_MAX or process_time() > ends_at:
                break
    finally:
        document.close()
    if not letters:
        raise NotFound("The PDF has no text, only images.", reason="empty")
    return PdfText(list(filter(None, pages)), count, metadata.get("Title"), metadata.get("Author"))


def _page_text(page: object) -> str:
    reader = page.get_textpage()  # type: ignore[attr-defined]
    try:
        text = reader.get_text_bounded()
    finally:
        reader.close()
        page.close()  # type: ignore[attr-defined]
    text = _HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in _CONTROLS.sub("", text).split("\n")).strip()
