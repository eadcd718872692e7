"""Elements of feeds: their names, independent of the document's prefixes, and their text and markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from lxml import etree

from upstreams.content.markup import Element
from upstreams.model import fields

_ATOM = ("http://www.w3.org/2005/atom", "http://purl.org/atom/ns#")
_PLAIN = (
    *_ATOM,
    "http://purl.org/rss/1.0/",
    "http://backend.userland.com/rss2",
    "http://my.netscape.com/rdf/simple/0.9/",
)
"""The vocabularies of feeds themselves. Their elements have no prefix here."""
_PREFIXES = {
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://search.yahoo.com/mrss": "media",
    "http://purl.org/rss/1.0/modules/content": "content",
    "http://purl.org/rss/1.0/modules/slash": "slash",
    "http://purl.org/dc/elements/1.1": "dc",
    "http://purl.org/dc/terms": "dcterms",
    "http://purl.org/syndication/thread/1.0": "thr",
    "http://www.youtube.com/xml/schemas/2015": "yt",
    "http://itunes.apple.com/rss": "im",
    "http://a9.com/-/spec/opensearch/1.1": "opensearch",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "https://podcastindex.org/namespace/1.0": "podcast",
    "https://github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md": "podcast",
}
_DECLARATION = re.compile(r'(?<=\S) xmlns(?::[\w.-]+)?="[^"]*"')
"""A namespace declaration that serialization adds to each piece."""
_EMPTY = re.compile(r"<(iframe|script|style|textarea|title)((?:\s[^<>]*)?)/>", re.IGNORECASE)
_EMPTY_AS_HTML = r"<\1\2></\1>"
"""The replacement for a match of `_EMPTY`. In HTML, an element such as `<title/>` would contain everything after it."""
_TITLE_TAG = re.compile(
    r"""
      <!--.*?-->
    | <(?P<end>/?)(?P<name>[A-Za-z][^\s/<>]*)(?:[^<>"'] | "[^"]{0,500}" | '[^']{0,500}' | ["']){0,1000}+>
    | <
    """,
    re.DOTALL | re.VERBOSE,
)
"""A tag, a comment, or any other `<`."""
_UNCLOSED = frozenset(("br", "hr", "li", "p", "wbr"))
"""Elements that HTML never closes, or does not require to be closed. A bare `<img>` is treated as text."""
_IN_BRACKETS = re.compile(r"\s*\S+@\S+\s*\((.+)\)\s*|(.*)", re.DOTALL)

Found = Mapping[str, list[Element]]
"""The child elements of an element, by name."""


def name_of(tag: str, prefix: str | None) -> str:
    """Return the name of an element with the usual prefix of its vocabulary. Elements of feeds have no prefix."""
    if tag[:1] != "{":
        return tag  # includes the prefix, because the document did not declare it
    address, _, own = tag[1:].partition("}")
    low = address.lower()
    if low in _PLAIN:
        return own
    known = _PREFIXES.get(low) or _PREFIXES.get(low.rstrip("/")) or prefix
    return f"{known}:{own}" if known else own


def words_of(element: Element) -> str | None:
    """Return the text in an element, without surrounding whitespace; None if it is empty."""
    words: str | None = "".join(element.itertext()) if len(element) else element.text
    return words.strip() or None if words else None


def first_text(found: Found, *names: str) -> str | None:
    """Return the first text in elements with these names, in the order of the names."""
    return next((words for name in names for element in found.get(name, ()) if (words := words_of(element))), None)


def markup_of(found: Found, *names: str) -> str | None:
    """Return the first non-empty content of elements with these names, as HTML."""
    elements: Iterable[Element] = (element for name in names for element in found.get(name, ()))
    return next((html for element in elements if (html := _html(element))), None)


def _html(element: Element) -> str | None:
    kind = element.get("type", "")
    if kind == "xhtml" or (len(element) and element.get("mode") != "escaped"):
        inner = _DECLARATION.sub("", "".join(etree.tostring(child, encoding="unicode") for child in element))
        return f"{escape(element.text or '')}{_EMPTY.sub(_EMPTY_AS_HTML, inner)}".strip() or None
    words = words_of(element)
    is_text = kind in ("", "text", "text/plain") and element.tag[1:].lower().startswith(_ATOM)
    return escape(words, quote=False) if words and is_text and element.get("mode") != "escaped" else words


def title_of(html: str | None) -> str | None:
    """Return a title as plain text.

    A tag is markup only if it is closed, or if HTML does not close it. Any other tag is text in angle brackets, as in
    "Why <K> is hard".
    """
    if html is None or "<" not in html:
        return fields.plain(html)
    tags = list(_TITLE_TAG.finditer(html))
    is_word: set[int] = set()
    begun: dict[str, list[int]] = {}
    for tag in tags:
        name = (tag["name"] or "").lower()
        if tag[0].startswith("<!--") or name in _UNCLOSED or (name in ("img", "input") and "=" in tag[0]):
            continue
        if not name:
            is_word.add(tag.start())
        elif not tag["end"]:
            begun.setdefault(name, []).append(tag.start())
        elif begun.get(name):
            begun[name].pop()
        else:
            is_word.add(tag.start())
    is_word.update(place for places in begun.values() for place in places)
    return fields.plain(_TITLE_TAG.sub(lambda tag: f"&lt;{tag[0][1:]}" if tag.start() in is_word else tag[0], html))


def person_of(words: str | None) -> str | None:
    """Return the name in "mail@example.com (Name)"; the whole text if it has another form."""
    found = _IN_BRACKETS.fullmatch(words or "")
    return (found[1] or found[2]).strip() or None if found else None
