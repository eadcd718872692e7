"""A body in the requested formats. How it is read depends on its kind: HTML, PDF, a feed or text.

`read_document` is a task for worker processes: its arguments and its result are plain values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urldefrag, urljoin, urlsplit

import msgspec

from upstreams.content.charset import is_binary, text_of
from upstreams.content.feeds import read_feed
from upstreams.content.markup import Element
from upstreams.model import fields
from upstreams.model.errors import NotFound
from upstreams.web.reading import cleaning
from upstreams.web.reading.main_content import main_text, main_tree
from upstreams.web.reading.metadata import metadata_of
from upstreams.web.reading.pdf import read_pdf
from upstreams.web.reading.selectors import Matching
from upstreams.web.reading.settling import keep_fallbacks, mark_quotes, settle_asides, settle_images
from upstreams.web.reading.walls import wall_of_page

LINKS_MAX: Final = 10_000
_SNIFFED: Final = 4_096
_WALL_LETTERS_MAX: Final = 20_000
"""A page with more characters is not checked for being a wall."""
_FEED_START = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*|<\?.*?\?>\s*)*<(?:rss|feed|rdf:RDF)\b", re.DOTALL)
_HTML_TYPES: Final = ("text/html", "application/xhtml+xml")
_TEXT_TYPES: Final = (
    "text/", "application/json", "application/xml", "application/javascript", "application/x-yaml", "application/yaml",
    "application/toml", "application/ld+json", "application/x-ndjson", "application/sql", "application/rtf",
)  # fmt: skip
_CODE_TAGS: Final = ("<pre", "<code", "<kbd", "<samp", "<tt")
_WORD = re.compile(r"&lt;(?=[A-Za-z/!?<])")
"""A bracket that Markdown would interpret as the start of a tag."""
_CODE_OR_WORD = re.compile(rf"(?P<code></?(?:pre|code|kbd|samp|tt)\b[^>]*>)|{_WORD.pattern}")
_MARKDOWN_TAG = re.compile(r"<(?=[A-Za-z/!?])")


class Wanted(msgspec.Struct, frozen=True):
    """The requested formats and parts of a page."""

    formats: tuple[str, ...] = ("markdown",)
    only_main_content: bool = True
    include_tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    block_ads: bool = True
    remove_base64_images: bool = True
    pdf_parse: bool = False
    is_file: bool = False
    """Whether a caller, and not a host, sent the body. Such a body cannot be a wall."""


@dataclass(slots=True)
class PageReading:
    """A body that was read."""

    source_type: str
    title: str | None = None
    text: str | None = None
    markdown: str | None = None
    html: str | None = None
    raw_html: str | None = None
    links: list[str] | None = None
    page_count: int | None = None
    metadata: dict[str, str | None] = field(default_factory=dict)


def read_document(raw: bytes, content_type: str, url: str, sent_to: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a body in the requested formats; `url` is the requested address, and `sent_to` the final one.

    Raises:
        NotFound: The body is a wall, or has no text.
        UnexpectedBody: The body cannot be read.
    """
    document = _read(raw, content_type, url, sent_to, msgspec.convert(wanted, Wanted))
    return msgspec.to_builtins(document)  # type: ignore[no-any-return]


def _read(raw: bytes, content_type: str, url: str, sent_to: str, wanted: Wanted) -> PageReading:
    media_type = content_type.partition(";")[0].strip().lower()
    if raw[:1024].lstrip()[:5] == b"%PDF-" or media_type == "application/pdf":
        return _pdf(raw, wanted)
    if not _may_be_text(media_type, raw):
        raise NotFound(f"The URL leads to {media_type[:60]}, which has no text.", reason="unsupported_content")
    if is_binary(raw, content_type):
        raise NotFound("The URL leads to content that is not text.", reason="unsupported_content")
    text = text_of(raw, content_type)
    if _FEED_START.match(text[:_SNIFFED]) or media_type == "application/feed+json":
        return _feed(raw, content_type, text, wanted)
    if media_type in _HTML_TYPES or (media_type in ("", "application/octet-stream") and text.lstrip()[:1] == "<"):
        return _html(text, url, sent_to, wanted)
    return _text(text, wanted)


def _may_be_text(media_type: str, raw: bytes) -> bool:
    if media_type in ("", "application/octet-stream"):
        return b"\0" not in raw[:_SNIFFED]
    return media_type.startswith(_TEXT_TYPES) or media_type in _HTML_TYPES or media_type.endswith(("+xml", "+json"))


def _pdf(raw: bytes, wanted: Wanted) -> PageReading:
    if not wanted.pdf_parse:
        raise NotFound("The URL leads to a PDF. Send pdf_parse=true to read its text.", reason="pdf")
    read = read_pdf(raw)
    document = PageReading("pdf", page_count=read.page_count, metadata={"title": read.title, "author": read.author})
    document.text = "\n\n".join(read.pages) if "text" in wanted.formats else None
    markdown = "\n\n---\n\n".join(read.pages)
    document.markdown = _MARKDOWN_TAG.sub("&lt;", markdown) if "markdown" in wanted.formats else None
    return document


def _feed(raw: bytes, content_type: str, text: str, wanted: Wanted) -> PageReading:
    feed = read_feed(raw, content_type)
    document = PageReading("feed", metadata={"title": feed["title"], "language": feed["language"]})
    document.metadata["description"] = fields.plain(feed["description"])
    parts = [f"# {feed['title']}"] if feed["title"] else []
    for item in feed["items"]:
        heading = f"[{item['title'] or item['url']}]({item['url']})" if item["url"] else item["title"]
        summary = fields.plain(item["html"] or item["summary"])
        parts += [f"## {heading}" if heading else "", item["published_at"] or "", summary or ""]
    markdown = "\n\n".join(filter(None, parts))
    document.markdown = _MARKDOWN_TAG.sub("&lt;", markdown) if "markdown" in wanted.formats else None
    document.text = re.sub(r"^#+ ", "", markdown, flags=re.MULTILINE) if "text" in wanted.formats else None
    document.raw_html = text if "raw_html" in wanted.formats else None
    links = dict.fromkeys(item["url"] for item in feed["items"] if item["url"])
    document.links = list(links)[:LINKS_MAX] if "links" in wanted.formats else None
    return document


def _text(text: str, wanted: Wanted) -> PageReading:
    if not text.strip():
        raise NotFound("The page has no text.", reason="empty")
    document = PageReading("text")
    document.text = text.strip() if "text" in wanted.formats else None
    document.markdown = text.strip() if "markdown" in wanted.formats else None
    document.raw_html = text if "raw_html" in wanted.formats else None
    return document


def _html(text: str, url: str, sent_to: str, wanted: Wanted) -> PageReading:
    root = cleaning.page_tree(text)
    base = urljoin(sent_to, next(iter(root.xpath("//base/@href")), ""))
    document = PageReading("html", metadata=metadata_of(root))
    document.raw_html = text if "raw_html" in wanted.formats else None
    linked_data = root.xpath("//script[@type='application/ld+json']")
    keep_fallbacks(root)
    cleaning.drop_unread(root)
    letters = cleaning.letters_in(root.find("body") if root.find("body") is not None else root)
    title = document.metadata["title"] or ""
    may_be_wall = letters < _WALL_LETTERS_MAX and not wanted.is_file
    if may_be_wall and (wall := wall_of_page(text, root, title, url=url, sent_to=sent_to)):
        raise NotFound(f"The page's host answers with a {wall.replace('_', ' ')} page.", reason=wall)
    if not letters:
        raise NotFound("The page has no text without JavaScript.", reason="javascript_required")
    document.links = _links(root, base) if "links" in wanted.formats else None
    settle_images(root)
    if wanted.block_ads:
        cleaning.drop_ads(root)
    if wanted.remove_base64_images:
        cleaning.drop_embedded_images(root)
    _shape(document, root, base, wanted, linked_data)
    return document


def _shape(document: PageReading, root: Element, base: str, wanted: Wanted, linked_data: list[Element]) -> None:
    """Fill the formats that are built from the page's tree."""
    matching = Matching()
    cleaning.drop_selected(root, wanted.exclude_tags, matching)
    cleaning.make_absolute(root, base)
    body = root.find("body") if root.tag != "body" else root
    whole = root if body is None else body
    is_main = wanted.only_main_content and not wanted.include_tags
    if wanted.include_tags:
        whole = cleaning.keep_only(root, wanted.include_tags, matching)
    elif is_main:
        settle_asides(root)
    mark_quotes(whole)
    if "text" in wanted.formats:
        document.text = main_text(root, linked_data) if is_main else cleaning.as_text(whole)
    if "html" in wanted.formats or "markdown" in wanted.formats:
        html = cleaning.as_html(main_tree(root, linked_data) if is_main else whole)
        document.html = html if "html" in wanted.formats else None
        document.markdown = _markdown(html) if "markdown" in wanted.formats else None


def _markdown(html: str) -> str:
    import html_to_markdown as writer  # noqa: PLC0415 - needed only to read pages

    options = writer.ConversionOptions(
        extract_metadata=False,
        bullets="-",
        highlight_style="none",
        infer_dimensions=False,
        preprocessing=writer.PreprocessingOptions(enabled=False),
    )
    result = writer.convert(_with_words_escaped(html) if "&lt;" in html else html, options)
    return (result.content or "").strip()


def _with_words_escaped(html: str) -> str:
    """Escape words in angle brackets, which Markdown would interpret as tags. Code needs no escapes."""
    if not any(tag in html for tag in _CODE_TAGS):
        return _WORD.sub("&amp;lt;", html)
    depth = 0

    def escaped(found: re.Match[str]) -> str:
        nonlocal depth
        if found["code"] is not None:
            depth += -1 if found[0][1] == "/" else 1
            return found[0]
        return found[0] if depth else "&amp;lt;"

    return _CODE_OR_WORD.sub(escaped, html)


def _links(root: Element, base: str) -> list[str]:
    """Return the addresses that a page links to, without duplicates, in document order."""
    found: dict[str, None] = {}
    for href in root.xpath("//*[self::a or self::area]/@href"):
        try:
            address = urldefrag(urljoin(base, str(href).strip())).url
            is_page = urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).netloc)
        except ValueError:
            continue
        if is_page:
            found.setdefault(address)
        if len(found) >= LINKS_MAX:
            break
    return list(found)
