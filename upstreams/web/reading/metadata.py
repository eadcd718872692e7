"""Metadata that a page declares: title, description, language, author and publication date."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lxml import etree

from upstreams.content.amounts import json_text
from upstreams.content.markup import Element
from upstreams.model import fields
from upstreams.model.fields import values

_META: Final = etree.XPath("//meta[@content and (@name or @property or @itemprop)]")
_GRAPH: Final = etree.XPath("//script[@type='application/ld+json']")
_TITLE: Final = etree.XPath("//title")
_HEADING: Final = etree.XPath("//h1")
_CANONICAL: Final = etree.XPath("//link[@rel='canonical']/@href")
_TIME: Final = etree.XPath("//time[@datetime and (@pubdate or @itemprop='datePublished')]/@datetime")
_NODES_MAX: Final = 200
_PUBLISHED: Final = (
    "article:published_time", "og:article:published_time", "datepublished", "date", "dc.date", "dc.date.issued",
    "dcterms.created", "dcterms.date", "parsely-pub-date", "sailthru.date", "publishdate", "publish-date", "pubdate",
    "article.published", "citation_publication_date", "citation_date", "og:published_time",
)  # fmt: skip


def metadata_of(root: Element) -> dict[str, str | None]:
    """Return the metadata of a page, with None for values that it does not declare."""
    declared = _declared(root)
    graph = list(_graph(root))
    return {
        "title": _first(declared, "og:title", "twitter:title", "dc.title")
        or _words(_TITLE(root))
        or _words(_HEADING(root)),
        "description": _first(declared, "description", "og:description", "twitter:description", "dc.description"),
        "language": _language(root, declared),
        "author": _first(declared, "author", "article:author_name", "parsely-author", "dc.creator", "citation_author")
        or _author(graph),
        "site_name": _first(declared, "og:site_name", "application-name"),
        "image_url": _first(declared, "og:image", "og:image:url", "twitter:image"),
        "canonical_url": next((str(one).strip() for one in _CANONICAL(root)), None) or _first(declared, "og:url"),
        "published_at": _published(root, declared, graph),
    }


def _declared(root: Element) -> dict[str, str]:
    declared: dict[str, str] = {}
    for meta in _META(root):
        name = (meta.get("property") or meta.get("name") or meta.get("itemprop")).strip().lower()
        words = " ".join(meta.get("content").split())
        if words:
            declared.setdefault(name, words)
    return declared


def _first(declared: dict[str, str], *names: str) -> str | None:
    return next((declared[name] for name in names if name in declared), None)


def _words(elements: list[Element]) -> str | None:
    return next((words for one in elements if (words := " ".join("".join(one.itertext()).split()))), None)


def _language(root: Element, declared: dict[str, str]) -> str | None:
    html = root if root.tag == "html" else root.find(".//html")
    written = (
        (html.get("lang") or html.get("{http://www.w3.org/XML/1998/namespace}lang") or "") if html is not None else ""
    )
    written = written.strip() or _first(declared, "content-language", "language", "dc.language", "og:locale") or ""
    return written.replace("_", "-") or None


def _graph(root: Element) -> Iterator[fields.Json]:
    """Yield the objects of the page's linked data."""
    left: list[Any] = [json_text("".join(one.itertext()).strip()) for one in _GRAPH(root)]
    for _ in range(_NODES_MAX):
        if not left:
            break
        found = left.pop(0)
        if isinstance(found, list):
            left += found
        elif isinstance(found, dict):
            yield found
            left.append(found.get("@graph"))


def _author(graph: list[fields.Json]) -> str | None:
    for node in graph:
        found = node.get("author")
        one = found[0] if isinstance(found, list) and found else found
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str) and name.strip():
            return name.strip()
    return None


def _published(root: Element, declared: dict[str, str], graph: list[fields.Json]) -> str | None:
    written = [declared[name] for name in _PUBLISHED if name in declared]
    written += [found for node in graph if isinstance(found := node.get("datePublished"), str)]
    written += [str(one).strip() for one in _TIME(root)]
    return next((moment for text in written if (moment := values.instant(text)) is not None), None)
