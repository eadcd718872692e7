"""web/parse: a file from the caller, read in the same way as a page (decisions 21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from upstreams.content.charset import is_binary
from upstreams.model.archetypes import page
from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    PageTooCostly,
    TargetRefused,
    UpstreamError,
    UpstreamFailed,
)
from upstreams.model.steps import Task
from upstreams.web.addresses import one_spelling
from upstreams.web.scraping import READ_PAGE, instant_text, read_members, wanted_of

_BY_ENDING: Final[Mapping[str, str]] = {
    "htm": "text/html",
    "html": "text/html",
    "xhtml": "application/xhtml+xml",
    "pdf": "application/pdf",
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "xml": "application/xml",
    "json": "application/json",
    "csv": "text/csv",
    "md": "text/markdown",
    "txt": "text/plain",
}
"""The media types of files by the ending of the file name."""
_TEXTS: Final = ("text/", *(kind for kind in _BY_ENDING.values() if kind != "application/pdf"))
_UNNAMED: Final = ("", "application/octet-stream")
"""Types that do not describe a file, because programs send them with any file."""


def parse_task(content: bytes, filename: str, content_type: str, fields: Mapping[str, str]) -> Task:
    """Return the task that reads a file.

    Raises:
        InvalidArgument: A field is invalid, or the file is not text although its type says so.
    """
    name = fields.get("filename", filename)
    kind = fields.get("mime_type", content_type).strip()
    if kind.partition(";")[0].strip().lower() in _UNNAMED:
        kind = _BY_ENDING.get(name.rpartition(".")[2].lower(), kind)
    is_pdf = content[:1024].lstrip().startswith(b"%PDF-")  # read as a PDF, regardless of its type
    if not is_pdf and kind.lower().startswith(_TEXTS) and is_binary(content, kind):
        raise InvalidArgument("file", f"does not match its type {kind[:60]}: its bytes are not text")
    sent: dict[str, Any] = {"formats": fields.get("formats") or "markdown", "pdf_parse": True}
    wanted = {**wanted_of({**sent, "only_main_content": _flag("only_main_content", fields)}), "is_file": True}
    url = address_of(fields) or ""
    return Task(READ_PAGE, (content, kind, url, url, wanted), None)


def address_of(fields: Mapping[str, str]) -> str | None:
    """Return the canonical address of a file's source, or None if the caller did not send it.

    Raises:
        InvalidArgument: The value is not the address of a page.
    """
    if not fields.get("url"):
        return None
    try:
        return one_spelling(fields["url"])
    except TargetRefused as exc:
        raise InvalidArgument("url", f"is not the URL of a public page: {exc}") from exc


def _flag(name: str, fields: Mapping[str, str]) -> bool:
    sent = fields.get(name, "true").strip().lower()
    if sent not in ("true", "false", "1", "0"):
        raise InvalidArgument(name, "must be true or false")
    return sent in ("true", "1")


def parsed_page(fields: Mapping[str, str], read: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Return the record of a file that was read."""
    return page(url=address_of(fields), fetched_at=instant_text(at), **read_members(read))


def refused_file(exc: UpstreamError) -> UpstreamError:
    """Return the failure to report to the caller. If a retry would not help, the failure becomes an error in `file`."""
    if isinstance(exc, PageTooCostly):
        return exc
    if isinstance(exc, NotFound):
        if exc.reason == "unsupported_content":
            return InvalidArgument(
                "file", "has an unsupported type; send HTML, a PDF, a feed or text", reason=exc.reason
            )
        return InvalidArgument("file", "has no text", reason="empty")
    if isinstance(exc, UpstreamFailed) and not exc.passing:
        return InvalidArgument("file", f"cannot be read: {exc.problem}", reason="unreadable_file")
    return exc
