"""Trees of XML and HTML, by lxml: nothing is fetched, no entity is expanded, and what a tree may have is bounded.

A document with more elements than any page of a platform has is refused before it is read: a tree is thrown away in one
step, during which nobody else runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from lxml import etree

from upstreams.content.charset import text_of
from upstreams.content.nesting import html_tree
from upstreams.content.slips import mended
from upstreams.model.errors import TooLarge, UnexpectedBody

Element = Any
"""An element of lxml, which is not typed."""

HTML_TYPES: Final = "text/html, application/xhtml+xml;q=0.9, */*;q=0.5"
BYTES_MAX: Final = 6 * 1024 * 1024
TAGS_MAX: Final = 250_000
REFERENCES_MAX: Final = 500_000
DECLARATIONS_MAX: Final = 100
ATTRIBUTES_MAX: Final = 1_000
_BEFORE_MAX = 4_096
"""Characters before a document that are overlooked: programs print their warnings there."""
_COUNTED_FROM = 64 * 1024
"""A shorter page cannot have so many attributes on one element that reading them takes long."""
UNFINISHED_MAX: Final = 20_000
"""Words of an element, or of a comment, that is not finished yet; a picture in an address is one word."""
_PIECE = 32 * 1024
_ROOT = re.compile(r"<(?:rss|feed|rdf:rdf|channel|opml|urlset|sitemapindex)[\s>]", re.IGNORECASE)
"""The root of a document that begins without a declaration; one further on is a part of its text."""
_OF_WINDOWS = re.compile(r"&#(?:0{0,3}(12[89]|1[345]\d)|[xX]0{0,3}([89][0-9A-Fa-f]));", re.ASCII)


def xml_root(raw: bytes, content_type: str = "") -> Element:
    """The root of an XML document, slips in it overlooked.

    Raises:
        UnexpectedBody: it is none, or too much.
    """
    _check(raw)
    words = text_of(raw, content_type).lstrip()
    declared = words.find("<?xml ", 0, _BEFORE_MAX)
    if declared > 0 and _ROOT.search(words, 0, declared) is None:
        words = words[declared:]
    words = _OF_WINDOWS.sub(_meant, words)
    if not words.startswith("<"):
        raise UnexpectedBody("XML was due, and it does not begin with a tag")
    if "<!ENTITY" not in words and words.count("<![CDATA[") <= words.count("]]>"):
        try:
            return _parsed(words, partial(etree.fromstring, parser=_xml_parser(recover=False)), "XML")
        except UnexpectedBody:
            pass  # it has a slip
    return _parsed(mended(words), partial(etree.fromstring, parser=_xml_parser(recover=True)), "XML")


def _meant(found: re.Match[str]) -> str:
    """The character that a reference to a control character means: programs write bytes of Windows as numbers."""
    code = int(found[1]) if found[1] else int(found[2], 16)
    return bytes((code,)).decode("cp1252", "replace")


def _xml_parser(*, recover: bool) -> Any:
    return etree.XMLParser(
        encoding="utf-8", recover=recover, resolve_entities=False, no_network=True, load_dtd=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip


def html_root(raw: bytes, content_type: str = "") -> Element:
    """The root of an HTML page, as browsers read it.

    Raises:
        UnexpectedBody: it is empty, or too much.
    """
    _check(raw)
    words = text_of(raw, content_type)
    if len(words) > _COUNTED_FROM:
        _check_attributes(words)
    parser = etree.HTMLParser(encoding="utf-8", recover=True, remove_comments=True)
    return _parsed(words, partial(html_tree, parser=parser), "HTML")


def _check(raw: bytes) -> None:
    if len(raw) > BYTES_MAX:
        raise TooLarge(f"a page of at most {BYTES_MAX} bytes was due, {len(raw)} came")
    if raw.count(b"<") > TAGS_MAX or raw.count(b"&") > REFERENCES_MAX:
        raise TooLarge("a page has more elements than any page of a platform")
    if raw.count(b"<!ENTITY") > DECLARATIONS_MAX:
        raise TooLarge("a page declares more entities than any page of a platform")


def _parsed(words: str, parse: Callable[[bytes], Element], kind: str) -> Element:
    try:
        root = parse(words.encode("utf-8", "replace"))
    except (etree.LxmlError, ValueError) as exc:
        raise UnexpectedBody(f"{kind} was due, and it cannot be read") from exc
    if root is None:
        raise UnexpectedBody(f"{kind} was due, and it is empty")
    return root


class _Attributes:
    """A parser's target that counts the attributes of each element, and keeps nothing."""

    def __init__(self) -> None:
        self.moved = False
        """Whether the parser has come upon anything since this was set."""

    def start(self, tag: str, attributes: Any) -> None:
        self.moved = True
        if len(attributes) > ATTRIBUTES_MAX:
            raise UnexpectedBody(f"an element <{tag[:40]}> has more than {ATTRIBUTES_MAX} attributes")

    def data(self, words: str) -> None:  # noqa: ARG002 - that there are some is enough
        self.moved = True

    def close(self) -> None:
        """End without a result."""


def _check_attributes(words: str) -> None:
    """Refuse an element with very many attributes: a tree takes time by the square of their number.

    They are counted by a first reading, which takes a long page another millisecond in a thread: however they are
    hidden, it is the same parser. It gets the page in pieces, since it would make objects of all attributes of an
    element in one step, during which nobody else runs: one that is not finished after so many is refused before.
    """
    target, waiting = _Attributes(), 0
    parser = etree.HTMLParser(target=target, encoding="utf-8", recover=True)
    try:
        for start in range(0, len(words), _PIECE):
            piece = words[start : start + _PIECE]
            parser.feed(piece)
            waiting = 0 if target.moved else waiting + _attributes_at_most(piece)
            if waiting > UNFINISHED_MAX:
                raise UnexpectedBody("an element is longer than any of a platform")
            target.moved = False
        parser.close()
    except etree.LxmlError as exc:
        raise UnexpectedBody("HTML was due, and it cannot be read") from exc


def _attributes_at_most(piece: str) -> int:
    """No fewer attributes than a piece of an element has: a blank, a slash or a closing quote is between any two."""
    return len(piece.split()) + piece.count("/") + (piece.count('"') + piece.count("'")) // 2
