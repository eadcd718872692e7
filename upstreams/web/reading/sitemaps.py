"""Sitemaps: the pages of a site by its own list, plain, packed or as an index of lists; and the links of a page.

The functions are tasks of the worker processes. They give `[url, title]` of pages that belong to the site, each in one
spelling; where words are searched for, the best first and only those that have some.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
from lxml import etree

from upstreams.content.charset import text_of
from upstreams.content.slips import mended
from upstreams.model.errors import NotFound, PageTooCostly, TargetRefused, UnexpectedBody
from upstreams.web.addresses import one_spelling
from upstreams.web.reading.cleaning import page_tree

ENTRIES_MAX: Final = 50_000
"""Entries of one file, as the protocol has it."""
UNPACKED_MAX: Final = 50 * 1024 * 1024
_PIECE: Final = 256 * 1024
_PACKED: Final = b"\x1f\x8b"
_MEMBERS_MAX: Final = 16
"""Members of a packed file that are read: each costs a copy of the rest."""
_BEFORE_MAX: Final = 4_096
"""Bytes before a file that are overlooked: programs print their warnings there."""
_WORD = re.compile(r"\w+")
_LOCATIONS: Final = frozenset(("loc", "link"))
_ENTRIES: Final = frozenset(("url", "sitemap", "item", "entry"))
_NO_PAGES: Final = (
    "application/json",
    "application/activity",
    "application/atom",
    "application/rss",
    "image/",
    "audio/",
)
"""Beginnings of the types of what is another form of a page."""
_MENDED_TAGS_MAX: Final = 600_000
"""Tags of a file with a slip that are read: more than so many entries have."""
_WIDE_WITHIN: Final = 64
"""Letters of two bytes show here by the zeros in them."""


class Scope(msgspec.Struct, frozen=True):
    """The pages that a map is of."""

    host: str
    """The host of the page that was asked for, with its port."""
    subdomains: bool = True
    drops_queries: bool = True
    search: str = ""
    limit: int = 5_000
    needs_links: bool = False
    """Whether no sitemap has any of its pages."""

    def spelled(self, address: str) -> str | None:
        """The one spelling of an address that belongs to the site; None for any other."""
        try:
            url = one_spelling(address)
        except (TargetRefused, ValueError):
            return None
        place, base = urlsplit(url).netloc, self.host.removeprefix("www.")
        is_inside = place in (base, f"www.{base}") or (self.subdomains and place.endswith(f".{base}"))
        return (url.partition("?")[0] if self.drops_queries else url) if is_inside else None


def read_sitemap(raw: bytes, content_type: str, url: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The pages in a sitemap, and the sitemaps that it leads to; of something else none."""
    told = msgspec.convert(scope, Scope)
    unpacked = _unpacked(raw)
    if b"\0" in unpacked[:_WIDE_WITHIN]:
        unpacked, content_type = text_of(unpacked, content_type).encode("utf-8", "replace"), "; charset=utf-8"
    declared = unpacked.find(b"<?xml ", 0, _BEFORE_MAX)
    unpacked = unpacked[max(0, declared) :] if b"<url" not in unpacked[: max(0, declared)] else unpacked
    if unpacked.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"<":
        lines = text_of(unpacked, content_type).split()
        return {"sitemaps": [], "pages": _chosen(((line, "") for line in lines[:ENTRIES_MAX]), told)}
    pages: list[str] = []
    sitemaps: list[str] = []
    for kind, location in _located(unpacked, content_type):
        (sitemaps if kind == "sitemap" else pages).append(urljoin(url, location))
        if len(pages) + len(sitemaps) >= ENTRIES_MAX:
            break
    return {"sitemaps": sitemaps, "pages": _chosen(((page, "") for page in pages), told)}


def read_links(raw: bytes, content_type: str, url: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The pages that a page links to, with the words of their links.

    Raises:
        NotFound: it is empty, and nothing else is known of its site.
        UnexpectedBody: it cannot be read.
    """
    told = msgspec.convert(scope, Scope)
    try:
        root = page_tree(text_of(raw, content_type))
    except (NotFound, PageTooCostly, UnexpectedBody):
        if told.needs_links:
            raise
        return {"sitemaps": [], "pages": []}
    base = urljoin(url, next(iter(root.xpath("//base/@href")), ""))
    links = (
        (str(one.get("href")).strip(), " ".join("".join(one.itertext()).split())) for one in root.xpath("//a[@href]")
    )
    found = [(urljoin(base, href), words) for href, words in links if not href.startswith("#")]
    return {"sitemaps": [], "pages": _chosen(found[:ENTRIES_MAX], told)}


def best_pages(pages: list[list[str]], scope: dict[str, Any]) -> dict[str, Any]:
    """The pages that fit the words of a search best, the best first, as many as the map may have."""
    told = msgspec.convert(scope, Scope)
    words = told.search.lower().split()
    ranked = sorted(pages, key=lambda one: (-fitness(words, *one), len(one[0])))
    return {"sitemaps": [], "pages": ranked[: told.limit]}


def _unpacked(raw: bytes) -> bytes:
    """The bytes of a file that may be packed, as far as the bound allows; of a damaged one what came before."""
    if raw[:2] != _PACKED:
        return raw
    whole = bytearray()
    with suppress(zlib.error):
        for _ in range(_MEMBERS_MAX):
            raw = _unpack_member(raw, whole)
            if raw[:2] != _PACKED or len(whole) >= UNPACKED_MAX:
                break
    return bytes(whole)


def _unpack_member(raw: bytes, whole: bytearray) -> bytes:
    """Add what the first member of a packed file holds; return what follows it."""
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    for begin in range(0, len(raw), _PIECE):
        whole += stream.decompress(raw[begin : begin + _PIECE], UNPACKED_MAX - len(whole))
        if stream.eof:
            return stream.unused_data + raw[begin + _PIECE :]
        if len(whole) >= UNPACKED_MAX:
            break
    return b""


def _located(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """The locations in a file in their order, each behind the element that it stands in; slips in it are mended."""
    if b"<!ENTITY" not in raw[:_BEFORE_MAX]:
        with suppress(etree.XMLSyntaxError):
            return list(islice(_locations(raw, content_type, recover=False), ENTRIES_MAX))
    pieces = text_of(raw, content_type).lstrip().split("<", _MENDED_TAGS_MAX + 1)
    raw = mended("<".join(pieces[: _MENDED_TAGS_MAX + 1])).encode("utf-8", "replace")
    found: list[tuple[str, str]] = []
    with suppress(etree.XMLSyntaxError):
        found.extend(islice(_locations(raw, "; charset=utf-8", recover=True), ENTRIES_MAX))
    return found


def _locations(raw: bytes, content_type: str, *, recover: bool) -> Iterator[tuple[str, str]]:
    """The locations in a file, read as a stream.

    Raises:
        XMLSyntaxError: it has a slip that the parser does not recover from.
    """
    events = etree.iterparse(
        BytesIO(raw), events=("end",), recover=recover, resolve_entities=False, no_network=True, load_dtd=False,
        remove_comments=True, remove_pis=True, encoding="utf-8" if content_type.endswith("charset=utf-8") else None,
    )  # fmt: skip
    for _, element in events:
        name, above = _name(element), element.getparent()
        if name in _ENTRIES:
            element.clear()
            while above is not None and element.getprevious() is not None:
                del above[0]
        elif name in _LOCATIONS and above is not None and (kind := _name(above)) in _ENTRIES:
            location = _location(element, kind, name)
            if location:
                yield kind, location


def _location(element: Any, kind: str, name: str) -> str:
    """The address of the page that a location is of; empty if it is of something else, such as the replies to it."""
    if kind != "entry" or name != "link":
        return (element.text or "").strip()
    relation, media_type = element.get("rel", "alternate").lower(), element.get("type", "")
    if relation.rpartition("/")[2] != "alternate" or media_type.lower().startswith(_NO_PAGES):
        return ""
    location = (element.get("href") or "").strip()
    return location if "://" in location else urljoin(element.base or "", location)


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _chosen(found: Iterable[tuple[str, str]], scope: Scope) -> list[list[str]]:
    """The pages of a scope, each once: in their order, or by how well they fit the words that are searched for."""
    pages: dict[str, str] = {}
    for address, title in found:
        url = scope.spelled(address)
        if url is not None and not pages.get(url):
            pages[url] = title
    if not scope.search:
        return [[url, title] for url, title in pages.items()][: scope.limit]
    words = [word.lower() for word in _WORD.findall(scope.search)]
    ranked = [(fit, url, title) for url, title in pages.items() if (fit := fitness(words, url, title))]
    ranked.sort(key=lambda one: (-one[0], len(one[1])))
    return [[url, title] for _, url, title in ranked[: scope.limit]]


def fitness(words: Iterable[str], url: str, title: str) -> float:
    """How well a page fits some words: 3 for each that stands in its title or path, 1 for each that is a part there."""
    parts = urlsplit(url)
    path, host = unquote(parts.path + " " + parts.query).lower(), parts.netloc
    there = set(_WORD.findall(f"{path} {title.lower()}".replace("_", " ")))
    text = f"{path} {title.lower()}"
    fits = [3.0 if word in there else 1.0 if word in text else 0.5 if word in host else 0.0 for word in words]
    return sum(fits) * (2.0 if all(fits) else 1.0)
