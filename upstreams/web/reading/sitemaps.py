"""Sitemaps, which list the pages of a site (plain, compressed, or as an index of lists), and the links on a page.

The functions are tasks for worker processes. They return `[url, title]` of pages that belong to the site, in canonical
form. With search words, they return only matching pages, best first.
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
from upstreams.content.slips import repair_xml
from upstreams.model.errors import NotFound, PageTooCostly, TargetRefused, UnexpectedBody
from upstreams.web.addresses import one_spelling
from upstreams.web.reading.cleaning import page_tree

ENTRIES_MAX: Final = 50_000
"""The maximum number of entries in one file according to the protocol."""
UNPACKED_MAX: Final = 50 * 1024 * 1024
_PIECE: Final = 256 * 1024
_PACKED: Final = b"\x1f\x8b"
_MEMBERS_MAX: Final = 16
"""The maximum number of members of a compressed file. Each costs a copy of the remaining bytes."""
_BEFORE_MAX: Final = 4_096
"""The maximum number of bytes before the start of a file that are ignored, because some programs print warnings there.
"""
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
"""Prefixes of the media types of alternate forms of a page."""
_REPAIRED_TAGS_MAX: Final = 600_000
"""The maximum number of tags that are read from a malformed file. Even a file with the maximum number of entries has
fewer."""
_UTF16_WITHIN: Final = 64
"""UTF-16 is recognized by zero bytes among this many first bytes."""


class Scope(msgspec.Struct, frozen=True):
    """The pages that belong to a map."""

    host: str
    """The host of the requested page, with its port."""
    subdomains: bool = True
    drops_queries: bool = True
    search: str = ""
    limit: int = 5_000
    needs_links: bool = False
    """Whether links are required, because no sitemap lists any pages."""

    def spelled(self, address: str) -> str | None:
        """Return the canonical form of an address that belongs to the site, or None for any other address."""
        try:
            url = one_spelling(address)
        except (TargetRefused, ValueError):
            return None
        place, base = urlsplit(url).netloc, self.host.removeprefix("www.")
        is_inside = place in (base, f"www.{base}") or (self.subdomains and place.endswith(f".{base}"))
        return (url.partition("?")[0] if self.drops_queries else url) if is_inside else None


def read_sitemap(raw: bytes, content_type: str, url: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the pages in a sitemap, and the sitemaps that it lists. Both are empty for any other file."""
    parsed_scope = msgspec.convert(scope, Scope)
    unpacked = _unpacked(raw)
    if b"\0" in unpacked[:_UTF16_WITHIN]:
        unpacked, content_type = text_of(unpacked, content_type).encode("utf-8", "replace"), "; charset=utf-8"
    declared = unpacked.find(b"<?xml ", 0, _BEFORE_MAX)
    unpacked = unpacked[max(0, declared) :] if b"<url" not in unpacked[: max(0, declared)] else unpacked
    if unpacked.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"<":
        lines = text_of(unpacked, content_type).split()
        return {"sitemaps": [], "pages": _chosen(((line, "") for line in lines[:ENTRIES_MAX]), parsed_scope)}
    pages: list[str] = []
    sitemaps: list[str] = []
    for kind, location in _located(unpacked, content_type):
        (sitemaps if kind == "sitemap" else pages).append(urljoin(url, location))
        if len(pages) + len(sitemaps) >= ENTRIES_MAX:
            break
    return {"sitemaps": sitemaps, "pages": _chosen(((page, "") for page in pages), parsed_scope)}


def read_links(raw: bytes, content_type: str, url: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the pages that a page links to, with the texts of their links.

    Raises:
        NotFound: The page is empty, and no other page of the site is known.
        UnexpectedBody: The page cannot be read.
    """
    parsed_scope = msgspec.convert(scope, Scope)
    try:
        root = page_tree(text_of(raw, content_type))
    except (NotFound, PageTooCostly, UnexpectedBody):
        if parsed_scope.needs_links:
            raise
        return {"sitemaps": [], "pages": []}
    base = urljoin(url, next(iter(root.xpath("//base/@href")), ""))
    links = (
        (str(one.get("href")).strip(), " ".join("".join(one.itertext()).split())) for one in root.xpath("//a[@href]")
    )
    found = [(urljoin(base, href), words) for href, words in links if not href.startswith("#")]
    return {"sitemaps": [], "pages": _chosen(found[:ENTRIES_MAX], parsed_scope)}


def best_pages(pages: list[list[str]], scope: dict[str, Any]) -> dict[str, Any]:
    """Return the pages that match the search words best, best first. The map's limit applies."""
    parsed_scope = msgspec.convert(scope, Scope)
    words = parsed_scope.search.lower().split()
    ranked = sorted(pages, key=lambda one: (-fitness(words, *one), len(one[0])))
    return {"sitemaps": [], "pages": ranked[: parsed_scope.limit]}


def _unpacked(raw: bytes) -> bytes:
    """Return the decompressed content of a file, up to the size limit.

    If the file is damaged, return the beginning that can be decompressed.
    """
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
    """Add the content of the first member of a compressed file, and return the bytes after that member."""
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    for begin in range(0, len(raw), _PIECE):
        whole += stream.decompress(raw[begin : begin + _PIECE], UNPACKED_MAX - len(whole))
        if stream.eof:
            return stream.unused_data + raw[begin + _PIECE :]
        if len(whole) >= UNPACKED_MAX:
            break
    return b""


def _located(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """Return the locations in a file in order, each with its enclosing element. Malformed files are repaired."""
    if b"<!ENTITY" not in raw[:_BEFORE_MAX]:
        with suppress(etree.XMLSyntaxError):
            return list(islice(_locations(raw, content_type, recover=False), ENTRIES_MAX))
    pieces = text_of(raw, content_type).lstrip().split("<", _REPAIRED_TAGS_MAX + 1)
    raw = repair_xml("<".join(pieces[: _REPAIRED_TAGS_MAX + 1])).encode("utf-8", "replace")
    found: list[tuple[str, str]] = []
    with suppress(etree.XMLSyntaxError):
        found.extend(islice(_locations(raw, "; charset=utf-8", recover=True), ENTRIES_MAX))
    return found


def _locations(raw: bytes, content_type: str, *, recover: bool) -> Iterator[tuple[str, str]]:
    """Yield the locations in a file, read as a stream.

    Raises:
        XMLSyntaxError: The file is malformed, and the parser does not recover.
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
    """Return the address of the page at a location; "" if it is something else, such as a feed of replies."""
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
    """Return the distinct pages in a scope, in their order or by how well they match the search words."""
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
    """Return how well a page matches words, in points.

    A whole word in the title or path counts 3 points, a part of a word 1, and a match in the host 0.5. The sum is
    doubled if every word matches.
    """
    parts = urlsplit(url)
    path, host = unquote(parts.path + " " + parts.query).lower(), parts.netloc
    there = set(_WORD.findall(f"{path} {title.lower()}".replace("_", " ")))
    text = f"{path} {title.lower()}"
    fits = [3.0 if word in there else 1.0 if word in text else 0.5 if word in host else 0.0 for word in words]
    return sum(fits) * (2.0 if all(fits) else 1.0)
