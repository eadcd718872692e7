"""Feeds as JSON-like values. RSS of every version, Atom and JSON Feed have the same members.

    {"title", "url", "feed_url", "next_url", "description", "language", "author", "image_url", "copyright",
    "published_at", "updated_at", "categories": [...], "total", "extra": {...}, "items": [
        {"id", "url", "title", "summary", "html", "author", "author_url", "authors": [{"name", "url"}],
        "published_at", "updated_at", "image_url", "categories": [...], "comments", "comments_url",
        "duration_seconds", "enclosures": [{"url", "type", "bytes", "duration_seconds"}], "extra": {...}}]}

Times are ISO 8601 in UTC, titles are plain text, `summary` and `html` are markup. A member that the feed does not have
is None or an empty list.

`extra` contains elements of other vocabularies under their usual prefixes. Only the first element of each name is kept:
`extra.itunes.season`, `extra.media.group.community.statistics.views`. An element with attributes or child elements
becomes an object, with its own text under `text`; any other element becomes its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urljoin

from upstreams.content.amounts import duration
from upstreams.content.charset import text_of
from upstreams.content.dates import instant_of
from upstreams.content.feed_elements import Found, first_text, markup_of, name_of, person_of, title_of, words_of
from upstreams.content.json_feeds import ITEMS_MAX, read_json_feed
from upstreams.content.markup import Element, xml_root
from upstreams.model import fields
from upstreams.model.errors import TooLarge, UnexpectedBody
from upstreams.model.fields import values

_DEPTH_MAX: Final = 5
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_MEMBERS: Final = frozenset(("title", "link", "guid", "id", "description", "summary", "content", "enclosure"))
_RANKS: Final = {"text/html": 0, "application/xhtml+xml": 0, "": 1}
"""The types of a web page, most preferred first. All other types rank after them."""


def read_feed(raw: bytes, content_type: str = "") -> fields.Json:
    """Return the values of a feed.

    Raises:
        UnexpectedBody: The body is not a feed, or is too large.
    """
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return read_json_feed(text_of(raw, content_type))
    return _FeedReader(xml_root(raw, content_type)).feed()


class _FeedReader:
    """Reads one document; `_names` caches the name of each tag."""

    def __init__(self, root: Element) -> None:
        self._names: dict[str, str] = {}
        self._root = root
        self._base = ""

    def feed(self) -> fields.Json:
        kind = self._name(self._root).rpartition(":")[2].lower()
        if kind not in ("rss", "rdf", "feed", "channel"):
            raise UnexpectedBody("expected a feed, got other markup")
        top = self._children(self._root)
        head = self._children(top["channel"][0]) if "channel" in top else top
        entries = self._entries()
        if len(entries) > ITEMS_MAX:
            raise TooLarge(f"expected a feed of at most {ITEMS_MAX} items, got {len(entries)}")
        for element in (self._root, *top.get("channel", ())[:1]):
            self._base = self._base_of(element)
        if "://" not in self._base:
            places = (self._link(head, "alternate"), self._link(head, "self"))
            self._base = _joined(next((one for one in places if one and "://" in one), ""), self._base)
        return {
            "title": self._title(head),
            "url": self._link(head, "alternate"),
            "feed_url": self._link(head, "self"),
            "next_url": self._link(head, "next"),
            "description": first_text(head, "description", "subtitle", "tagline", "itunes:summary"),
            "language": first_text(head, "language", "dc:language"),
            "author": next((one["name"] for one in self._authors(head)), None),
            "image_url": self._image(head),
            "copyright": first_text(head, "copyright", "rights", "dc:rights"),
            "published_at": instant_of(first_text(head, "pubDate", "published", "dc:date")),
            "updated_at": instant_of(first_text(head, "updated", "lastBuildDate", "modified")),
            "categories": self._categories(head),
            "total": values.count(first_text(head, "opensearch:totalResults")),
            "extra": self._extra(head),
            "items": [self._item(entry) for entry in entries],
        }

    def _entries(self) -> list[Element]:
        """Return the items in order, at any depth. A nested item counts only if it has the members of an item."""
        named = [(self._name(one), one) for one in self._root.iter("{*}item", "{*}entry")]
        own = next((name for name, _ in named if name in ("item", "entry")), "")
        found = [one for name, one in named if name == own]
        places = (self._root, *self._root.iterchildren("{*}channel"))
        entries = [one for one in found if one.getparent() in places]
        if len(found) == len(entries) or len(found) > 2 * ITEMS_MAX:
            return entries or found
        tag, needs_members = found[0].tag, bool(entries)
        misplaced = [one for one in found if one.getparent() not in places]
        inner = {one for one in misplaced if next(one.iterancestors(tag), None) is not None}
        left_out = {one for one in inner if _MEMBERS.isdisjoint(self._children(one))}
        if needs_members:
            left_out.update(one for one in misplaced if one not in inner and _MEMBERS.isdisjoint(self._children(one)))
        for one in inner - left_out:
            one.getparent().remove(one)
        return [one for one in found if one not in left_out]

    def _item(self, entry: Element) -> fields.Json:
        outer, self._base = self._base, self._base_of(entry)
        try:
            return self._members(entry)
        finally:
            self._base = outer

    def _members(self, entry: Element) -> fields.Json:
        found = self._children(entry)
        authors = self._authors(found)
        first = authors[0] if authors else {}
        html = markup_of(found, "content:encoded", "content")
        enclosures = list(self._enclosures(found))
        durations = (first_text(found, "itunes:duration"), *(one["duration_seconds"] for one in enclosures))
        return {
            "id": first_text(found, "id", "guid", "dc:identifier") or entry.get(_ABOUT),
            "url": self._item_url(found),
            "title": self._title(found),
            "summary": markup_of(found, "summary", "description", "itunes:summary"),
            "html": html,
            "author": first.get("name"),
            "author_url": first.get("url"),
            "authors": authors,
            "published_at": instant_of(
                first_text(found, "published", "pubDate", "issued", "dc:date", "dcterms:created")
            ),
            "updated_at": instant_of(first_text(found, "updated", "modified", "dcterms:modified")),
            "image_url": self._image(found),
            "categories": self._categories(found),
            "comments": values.count(first_text(found, "slash:comments", "thr:total")),
            "comments_url": self._absolute(first_text(found, "comments")),
            "duration_seconds": next((seconds for one in durations if (seconds := duration(one)) is not None), None),
            "enclosures": enclosures,
            "extra": self._extra(found),
        }

    def _name(self, element: Element) -> str:
        tag: str = element.tag
        if (known := self._names.get(tag)) is None:
            known = self._names[tag] = name_of(tag, element.prefix)
        return known

    def _children(self, element: Element) -> dict[str, list[Element]]:
        found: dict[str, list[Element]] = {}
        for child in element:
            if isinstance(child.tag, str):
                found.setdefault(self._name(child), []).append(child)
        return found

    def _title(self, found: Found) -> str | None:
        return title_of(markup_of(found, "title", "media:title", "itunes:title", "dc:title"))

    def _link(self, found: Found, rel: str) -> str | None:
        """Return the URL of a link with this relation. If the page exists in several types, the web page is preferred.

        In RSS, the text of the link element is the URL of the page.
        """
        links: list[tuple[int, str | None]] = []
        for link in found.get("link", ()):
            href = link.get("href")
            if href is None and rel == "alternate" and (words := words_of(link)):
                links.append((0, self._absolute(words, link)))
            elif href and (link.get("rel") or "alternate").strip().lower().rpartition("/")[2] == rel:
                kind = link.get("type", "").partition(";")[0].strip().lower()
                links.append((_RANKS.get(kind, len(_RANKS)) if rel == "alternate" else 0, self._absolute(href, link)))
        return min(links, key=itemgetter(0), default=(0, None))[1]

    def _item_url(self, found: Found) -> str | None:
        address = first_text(found, "feedburner:origLink") or self._link(found, "alternate")
        if address is None and "guid" in found and found["guid"][0].get("isPermaLink", "true").lower() != "false":
            guid = words_of(found["guid"][0]) or ""
            return guid if guid.startswith(("http://", "https://")) else None
        return address

    def _absolute(self, address: str | None, element: Element | None = None) -> str | None:
        """Return an absolute URL, resolved against the base of its element."""
        if not address or "://" in address[:12]:
            return address
        return _joined(self._base if element is None else self._base_of(element), address)

    def _base_of(self, element: Element) -> str:
        """Return the base for relative URLs in an element."""
        own = element.get(_BASE)
        return _joined(self._base, own.strip()) if own else self._base

    def _authors(self, found: Found) -> list[fields.Json]:
        authors: dict[str, fields.Json] = {}
        for element in (*found.get("author", ()), *found.get("dc:creator", ()), *found.get("itunes:author", ())):
            inner = self._children(element)
            name = first_text(inner, "name") if inner else person_of(words_of(element))
            if name and name not in authors:
                authors[name] = {"name": name, "url": self._absolute(first_text(inner, "uri", "url"))}
        return list(authors.values())

    def _categories(self, found: Found) -> list[str]:
        terms: Iterator[str | None] = (
            element.get("term") or element.get("label") or element.get("text") or words_of(element)
            for name in ("category", "dc:subject", "itunes:category")
            for element in found.get(name, ())
        )
        return list(dict.fromkeys(one for one in terms if one))

    def _image(self, found: Found) -> str | None:
        """Return the URL of the image of a feed or an item."""
        for element in (*found.get("itunes:image", ()), *self._media(found, "media:thumbnail")):
            if address := element.get("href") or element.get("url"):
                return self._absolute(address, element)
        for element in (*found.get("media:content", ()), *found.get("enclosure", ())):
            if "image" in (element.get("medium"), element.get("type", "").partition("/")[0]):
                return self._absolute(element.get("url"), element)
        inner = self._children(found["image"][0]) if "image" in found else {}
        return self._absolute(first_text(inner, "url") or first_text(found, "logo", "icon"))

    def _media(self, found: Found, name: str) -> list[Element]:
        groups = [self._children(group) for group in found.get("media:group", ())]
        return [element for one in (found, *groups) for element in one.get(name, ())]

    def _enclosures(self, found: Found) -> Iterator[fields.Json]:
        links = [link for link in found.get("link", ()) if link.get("rel") == "enclosure"]
        seen = set()
        for element in (*found.get("enclosure", ()), *links, *self._media(found, "media:content")):
            address = self._absolute(element.get("url") or element.get("href"), element)
            if address and address not in seen:
                seen.add(address)
                yield {
                    "url": address,
                    "type": element.get("type"),
                    "bytes": values.count(element.get("length") or element.get("fileSize")) or None,
                    "duration_seconds": duration(element.get("duration")),
                }

    def _extra(self, found: Found) -> fields.Json:
        extra: fields.Json = {}
        for name, elements in found.items():
            prefix, _, own = name.rpartition(":")
            if prefix:
                extra.setdefault(prefix, {})[own] = self._value(elements[0], _DEPTH_MAX)
        return extra

    def _value(self, element: Element, depth: int) -> Any:
        """Return an element of another vocabulary: its text, or an object."""
        if not len(element) and not element.attrib:
            return words_of(element)
        value = {name.rpartition("}")[2]: written for name, written in element.attrib.items()}
        if depth:
            for name, inner in self._children(element).items():
                value.setdefault(name.rpartition(":")[2], self._value(inner[0], depth - 1))
        if element.text and (words := element.text.strip()):
            value.setdefault("text", words)
        return value


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address
