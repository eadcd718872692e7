"""Parses XML and HTML to trees with lxml. Nothing is fetched, entities are not expanded, and tree size is limited.

A document with more elements than any page of a platform is refused before it is parsed, because a tree is freed in one
step, which blocks other tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from lxml import etree

from upstreams.content.charset import text_of
from upstreams.content.nesting import html_tree
from upstreams.content.slips import repair_xml
from upstreams.model.errors import TooLarge, UnexpectedBody

Element = Any
"""An lxml element, which has no type annotations."""

HTML_TYPES: Final = "text/html, application/xhtml+xml;q=0.9, */*;q=0.5"
BYTES_MAX: Final = 6 * 1024 * 1024
TAGS_MAX: Final = 250_000
REFERENCES_MAX: Final = 500_000
DECLARATIONS_MAX: Final = 100
ATTRIBUTES_MAX: Final = 1_000
_BEFORE_MAX = 4_096
"""The number of characters before a document that are skipped, because some programs print warnings there."""
_COUNTED_FROM = 64 * 1024
"""On pages shorter than this, parsing the attributes of an element never takes long."""
UNFINISHED_MAX: Final = 20_000
"""The maximum words in an unfinished element or comment. Each slash counts as a word too."""
_PIECE = 32 * 1024
_ROOT = re.compile(r"<(?:rss|feed|rdf:rdf|channel|opml|urlset|sitemapindex)[\s>]", re.IGNORECASE)
"""The root of a document without a declaration. A `<?xml` after the root is part of the document's text."""
_OF_WINDOWS = re.compile(r"&#(?:0{0,3}(12[89]|1[345]\d)|[xX]0{0,3}([89][0-9A-Fa-f]));", re.ASCII)


def xml_root(raw: bytes, content_type: str = "") -> Element:
    """Return the root of an XML document. Errors in the document are tolerated.

    Raises:
        UnexpectedBody: The body is not XML, or is too large.
    """
    _check(raw)
    words = text_of(raw, content_type).lstrip()
    declared = words.find("<?xml ", 0, _BEFORE_MAX)
    if declared > 0 and _ROOT.search(words, 0, declared) is None:
        words = words[declared:]
    words = _OF_WINDOWS.sub(_meant, words)
    if not words.startswith("<"):
        raise UnexpectedBody("expected XML, but the body does not start with a tag")
    if "<!ENTITY" not in words and words.count("<![CDATA[") <= words.count("]]>"):
        try:
            return _parsed(words, partial(etree.fromstring, parser=_xml_parser(recover=False)), "XML")
        except UnexpectedBody:
            pass  # the document has an error
    return _parsed(repair_xml(words), partial(etree.fromstring, parser=_xml_parser(recover=True)), "XML")


def _meant(found: re.Match[str]) -> str:
    """Return the character that a reference to a control character means.

    Programs write Windows-1252 bytes as numbers.
    """
    code = int(found[1]) if found[1] else int(found[2], 16)
    return bytes((code,)).decode("cp1252", "replace")


def _xml_parser(*, recover: bool) -> Any:
    return etree.XMLParser(
        encoding="utf-8", recover=recover, resolve_entities=False, no_network=True, load_dtd=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip


def html_root(raw: bytes, content_type: str = "") -> Element:
    """Return the root of an HTML page, parsed as in browsers.

    Raises:
        UnexpectedBody: The page is empty or too large.
    """
    _check(raw)
    words = text_of(raw, content_type)
    if len(words) > _COUNTED_FROM:
        _check_attributes(words)
    parser = etree.HTMLParser(encoding="utf-8", recover=True, remove_comments=True)
    return _parsed(words, partial(html_tree, parser=parser), "HTML")


def _check(raw: bytes) -> None:
    if len(raw) > BYTES_MAX:
        raise TooLarge(f"expected a page of at most {BYTES_MAX} bytes, got {len(raw)}")
    if raw.count(b"<") > TAGS_MAX or raw.count(b"&") > REFERENCES_MAX:
        raise TooLarge("the page has too many elements")
    if raw.count(b"<!ENTITY") > DECLARATIONS_MAX:
        raise TooLarge("the page declares too many entities")


def _parsed(words: str, parse: Callable[[bytes], Element], kind: str) -> Element:
    try:
        root = parse(words.encode("utf-8", "replace"))
    except (etree.LxmlError, ValueError) as exc:
        raise UnexpectedBody(f"expected {kind}, but the body cannot be parsed") from exc
    if root is None:
        raise UnexpectedBody(f"expected {kind}, but the body is empty")
    return root


class _Attributes:
    """A parser target that counts the attributes of each element and stores nothing."""

    def __init__(self) -> None:
        self.moved = False
        """Whether the parser has found anything since this flag was last reset."""

    def start(self, tag: str, attributes: Any) -> None:
        self.moved = True
        if len(attributes) > ATTRIBUTES_MAX:
            raise UnexpectedBody(f"an element <{tag[:40]}> has more than {ATTRIBUTES_MAX} attributes")

    def data(self, words: str) -> None:  # noqa: ARG002 - it only matters that there is data
        self.moved = True

    def close(self) -> None:
        """End the parsing. There is no result."""


def _check_attributes(words: str) -> None:
    """Refuse an element with very many attributes. The time to build a tree grows with the square of their number.

    The attributes are counted in a first pass in a thread, which takes a millisecond for a long page. It uses the same
    parser, so attributes cannot be hidden from it. The page is parsed in pieces, because the parser creates objects for
    all attributes of an element in one step, which blocks other tasks. An element that is still unfinished after too
    many words is therefore refused first.
    """
    target, waiting = _Attributes(), 0
    parser = etree.HTMLParser(target=target, encoding="utf-8", recover=True)
    try:
        for start in range(0, len(words), _PIECE):
            piece = words[start : start + _PIECE]
            parser.feed(piece)
            waiting = 0 if target.moved else waiting + _attributes_at_most(piece)
            if waiting > UNFINISHED_MAX:
                raise UnexpectedBody("an element is too long")
            target.moved = False
        parser.close()
    except etree.LxmlError as exc:
        raise UnexpectedBody("expected HTML, but the body cannot be parsed") from exc


def _attributes_at_most(piece: str) -> int:
    """Return an upper bound of the attributes in a piece of an element.

    Attributes are separated by whitespace, slashes or quotes.
    """
    return len(piece.split()) + piece.count("/") + (piece.count('"') + piece.count("'")) // 2
