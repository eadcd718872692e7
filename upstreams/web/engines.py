"""The search engines of web/search, each with its calls and the parsing of its answers.

The operator configures SearXNG, Brave, Marginalia and Tavily in [web.search].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from upstreams.model import fields
from upstreams.model.fields import Json, values
from upstreams.model.fields.values import instant
from upstreams.model.steps import Call

ROWS_EACH: Final = 20
"""The number of results per page of an engine."""
_SPANS: Final[Mapping[str, str]] = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
"""Time periods in Brave's notation."""


@dataclass(frozen=True, slots=True)
class SearchWanted:
    """One search, in terms that do not depend on the engine."""

    query: str
    kind: str = "web"
    country: str = ""
    time_range: str = ""


class SearchEngine(NamedTuple):
    """A search engine."""

    name: str
    needs: str
    """The credential that the engine requires."""
    kinds: tuple[str, ...]
    takes: frozenset[str]
    """The parameters that the engine supports in addition to the query."""
    call: Callable[[SearchWanted, int, str], Call]
    """Creates the call for a page of results, using the credential. Pages are counted from 1."""
    rows: Callable[[Json, str], list[Json]]
    """Reads `{url, title, description, published_at, image_url}` from each result of a kind."""


def _row(found: Json, *, url: str = "url", title: str = "title", text: str, at: str = "", image: str = "") -> Json:
    return {
        "url": fields.text(found, url),
        "title": fields.plain(fields.text(found, title)),
        "description": fields.plain(fields.text(found, text)),
        "published_at": instant(found.get(at)) if at else None,
        "image_url": fields.text(found, image) if image else None,
    }


def _searxng_call(wanted: SearchWanted, page: int, _credential: str) -> Call:
    categories = {"web": "general", "news": "news", "images": "images"}[wanted.kind]
    query: dict[str, Any] = {"q": wanted.query, "format": "json", "pageno": page, "categories": categories}
    if wanted.time_range:
        query["time_range"] = wanted.time_range
    return Call("/search", query, source="searxng", optional=True)


def _searxng_rows(body: Json, kind: str) -> list[Json]:
    image = "img_src" if kind == "images" else "thumbnail"
    return [_row(one, text="content", at="publishedDate", image=image) for one in fields.rows(body.get("results"))]


def _brave_call(wanted: SearchWanted, page: int, credential: str) -> Call:
    query: dict[str, Any] = {"q": wanted.query, "count": ROWS_EACH, "offset": page - 1}
    if wanted.country:
        query["country"] = wanted.country.upper()
    if wanted.time_range:
        query["freshness"] = _SPANS[wanted.time_range]
    headers = (("x-subscription-token", credential),)
    path = {"web": "/res/v1/web/search", "news": "/res/v1/news/search", "images": "/res/v1/images/search"}[wanted.kind]
    return Call(path, query, source="brave", headers=headers, optional=True)


def _brave_rows(body: Json, kind: str) -> list[Json]:
    found = fields.part(body, "web").get("results") if kind == "web" else body.get("results")
    rows = []
    for one in fields.rows(found):
        row = _row(one, text="description", at="page_age")
        picture = fields.part(one, "properties").get("url") if kind == "images" else None
        row["image_url"] = values.text(picture) or fields.text(fields.part(one, "thumbnail"), "src")
        rows.append(row)
    return rows


def _marginalia_call(wanted: SearchWanted, page: int, credential: str) -> Call:
    query: dict[str, Any] = {"query": wanted.query, "count": ROWS_EACH, "page": page}
    return Call("/search", query, source="marginalia", headers=(("api-key", credential),), optional=True)


def _marginalia_rows(body: Json, _kind: str) -> list[Json]:
    return [_row(one, text="description") for one in fields.rows(body.get("results"))]


def _tavily_call(wanted: SearchWanted, _page: int, credential: str) -> Call:
    body: dict[str, Any] = {"query": wanted.query, "max_results": ROWS_EACH}
    body["topic"] = "news" if wanted.kind == "news" else "general"
    if wanted.time_range:
        body["time_range"] = wanted.time_range
    headers = (("authorization", f"Bearer {credential}"),)
    return Call("/search", source="tavily", method="POST", json=body, only_reads=True, headers=headers, optional=True)


def _tavily_rows(body: Json, _kind: str) -> list[Json]:
    return [_row(one, text="content", at="published_date") for one in fields.rows(body.get("results"))]


_ALL = ("web", "news", "images")
BRAVE: Final = SearchEngine("brave", "brave_key", _ALL, frozenset({"time_range", "country"}), _brave_call, _brave_rows)
ENGINES: Final = (
    SearchEngine("searxng", "searxng_url", _ALL, frozenset({"time_range"}), _searxng_call, _searxng_rows),
    BRAVE,
    SearchEngine("marginalia", "marginalia_key", ("web",), frozenset(), _marginalia_call, _marginalia_rows),
    SearchEngine("tavily", "tavily_key", ("web", "news"), frozenset({"time_range"}), _tavily_call, _tavily_rows),
)
PAGED: Final = frozenset(("searxng", "brave", "marginalia"))
SOURCES: Final = {
    "searxng": "$searxng_url",
    "brave": "https://api.search.brave.com",
    "marginalia": "https://api2.marginalia-search.com",
    "tavily": "https://api.tavily.com",
}
"""The addresses of the engines. A name with a dollar sign refers to one of the operator's settings."""
