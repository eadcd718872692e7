"""The elements of feeds: what each is called, whatever its prefix, and the words, markup and times in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from html import escape

from lxml import etree

from upstreams.content.markup import Element
from upstreams.model import values

_ATOM = ("http://www.w3.org/2005/atom", "http://purl.org/atom/ns#")
_PLAIN = (
    *_ATOM,
    "http://purl.org/rss/1.0/",
    "http://backend.userland.com/rss2",
    "http://my.netscape.com/rdf/simple/0.9/",
)
"""The vocabularies of feeds themselves: their elements have no prefix here."""
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
"""One that serializing adds to each piece."""
_IN_BRACKETS = re.compile(r"\s*\S+@\S+\s*\((.+)\)\s*|(.*)", re.DOTALL)

_ZONES = {
    "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "MEZ": 1, "MET": 1, "CEST": 2, "MESZ": 2, "MEST": 2, "EET": 2, "SAST": 2,
    "EEST": 3, "MSK": 3, "AWST": 8, "HKT": 8, "SGT": 8, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12,
    "NZDT": 13, "HST": -10, "AKST": -9, "AKDT": -8,
}  # fmt: skip
"""Names of zones beside those of mail -> their hours; those that several countries use otherwise are left out."""
_ZONE = re.compile(r"(?<=\d) *([A-Za-z]{1,5})$")

Found = Mapping[str, list[Element]]
"""The elements inside of one, by their names."""


def name_of(tag: str, prefix: str | None) -> str:
    """An element's name behind the prefix that its vocabulary is known by; feeds' own have none."""
    if tag[:1] != "{":
        return tag  # with a prefix that the document did not declare, where it has one
    address, _, own = tag[1:].partition("}")
    low = address.lower()
    if low in _PLAIN:
        return own
    known = _PREFIXES.get(low) or _PREFIXES.get(low.rstrip("/")) or prefix
    return f"{known}:{own}" if known else own


def words_of(element: Element) -> str | None:
    """The words in an element, without blanks around them; None where there are none."""
    words: str | None = "".join(element.itertext()) if len(element) else element.text
    return words.strip() or None if words else None


def first_text(found: Found, *names: str) -> str | None:
    """The first words in elements of these names, name by name."""
    return next((words for name in names for element in found.get(name, ()) if (words := words_of(element))), None)


def markup_of(found: Found, *names: str) -> str | None:
    """The first of these that says something, as HTML."""
    elements: Iterable[Element] = (element for name in names for element in found.get(name, ()))
    return next((html for element in elements if (html := _html(element))), None)


def _html(element: Element) -> str | None:
    kind = element.get("type", "")
    if kind == "xhtml" or (len(element) and element.get("mode") != "escaped"):
        inner = _DECLARATION.sub("", "".join(etree.tostring(child, encoding="unicode") for child in element))
        return f"{escape(element.text or '')}{inner}".strip() or None
    words = words_of(element)
    is_text = kind in ("", "text", "text/plain") and element.tag[1:].lower().startswith(_ATOM)
    return escape(words, quote=False) if words and is_text and element.get("mode") != "escaped" else words


def person_of(words: str | None) -> str | None:
    """The name of "mail@example.com (Name)", or the whole."""
    found = _IN_BRACKETS.fullmatch(words or "")
    return (found[1] or found[2]).strip() or None if found else None


def instant_of(words: str | None) -> str | None:
    """A time as ISO 8601, from ISO or as mail writes it (RFC 822); None where its zone has a name that nobody knows."""
    if words is None or (told := values.instant(words)) is not None:
        return None if words is None else told
    try:
        moment = parsedate_to_datetime(_ZONE.sub(_offset, words))
        is_known = moment.tzinfo is not None or _ZONE.search(words) is None
        return values.instant(moment.isoformat()) if is_known else None
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _offset(zone: re.Match[str]) -> str:
    hours = _ZONES.get(zone[1].upper())
    return zone[0] if hours is None else f" {hours * 100:+05}"
