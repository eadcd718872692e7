"""Wikipedia's recordings as cases, with handmade bodies for the views of a site and the most viewed pages.

These recordings belong to no endpoint: `extract__*`, `page_info*`, `mediawiki_*` (other properties of pages, of other
wikis), `opensearch__*` (titles that begin with some letters).
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, ident, rows, table, utc
from upstreams.model.archetypes import analytics, article, place, point, ranked, series
from upstreams.model.errors import NotFound
from upstreams.model.fields import plain

_WIKI = "en.wikipedia.org"
_API = f"{_WIKI}/w/api.php"
_VIEWS = "wikimedia.org/api/rest_v1/metrics/pageviews"
_KEPT = frozenset("/:(),!*;@$~-._" + ascii_letters + digits)


_OF_FOO = f"{_VIEWS}/per-article/en.wikipedia/all-access/user/Foo/daily/2000010100/2000010500"


def address(path: str) -> Any:
    """Return a page's URL: underscores for spaces, and percent-encoded UTF-8 for other characters."""

    def read(row: Json) -> str:
        letters = at(row, path).replace(" ", "_")
        written = (one if one in _KEPT else "".join(f"%{byte:02X}" for byte in one.encode()) for one in letters)
        return f"https://{_WIKI}/wiki/{''.join(written)}"

    return read


def english(_row: Json) -> str:
    """Return the language that the request names."""
    return "en"


PAGE = table(
    article,
    id=ident("pageid"),
    url="content_urls.desktop.page",
    title="title",
    text="extract",
    description="description",
    image_url=lambda row: at(row, "originalimage.source") or at(row, "thumbnail.source"),
    language="lang",
    updated_at=utc("timestamp"),
    ext={"type": "type", "wikibase_item": "wikibase_item", "revision": ident("revision")},
)
LISTED = table(
    article,
    id=lambda row: str(row["pageid"] if "pageid" in row else row["id"]),
    url=address("title"),
    title="title",
    language=english,
    ext={"namespace": "ns", "kind": "type"},
)
LINKED = table(article, url=address("title"), title="title", language=english, ext={"namespace": "ns"})
TRANSLATED = table(article, url="url", title="*", language="lang", ext={"language_name": "langname"})
FOUND = table(
    article,
    id=ident("pageid"),
    url=address("title"),
    title="title",
    description=lambda row: plain(at(row, "snippet")),
    language=english,
    updated_at=utc("timestamp"),
    ext={"namespace": "ns", "kind": lambda _row: None, "size": "size", "wordcount": "wordcount"},
)
PLACE = table(
    place, id=ident("pageid"), url=address("title"), name="title", latitude="lat", longitude="lon", distance_m="dist"
)


def hour(row: Json) -> str:
    """Return the time that is written as ten digits."""
    told = row["timestamp"]
    return f"{told[:4]}-{told[4:6]}-{told[6:8]}T{told[8:]}:00:00Z"


POINT = table(point, t=hour, value="views")
RANKED = table(
    ranked, rank="rank", name=lambda row: row["article"].replace("_", " "), url=address("article"), value="views"
)


def views(subject: str) -> Any:
    """Return the field table for a series."""
    return lambda body: series(subject=subject, unit="views", points=[POINT(row) for row in body["items"]])


def of_page(name: str, read: Any) -> Any:
    """Return the field table for a page's list, which is nested under the page's number."""
    return lambda body: [read(row) for page in body["query"]["pages"].values() for row in page[name]]


def page_with(**lists: list[Json]) -> Json:
    """Return the body of a page that has lists."""
    return {"query": {"pages": {"5134": {"pageid": 5134, "ns": 0, "title": "Chess", **lists}}}}


def listed(resource: str, files: str, path: str, read: Any, **params: str | int) -> list[Case]:
    """Return one case for each recording of a list."""
    return [
        Case(f"{resource}: {file}", resource, params, {_API: f"{file}.json"}, rows(path, read))
        for file in files.split()
    ]


SUMMARY: Json = {
    "type": "disambiguation",
    "title": "Ada (name)",
    "pageid": 4711,
    "wikibase_item": "Q4711",
    "revision": "100",
    "lang": "en",
    "timestamp": "2025-01-31T12:00:00Z",
    "description": "Topics by one name",
    "extract": "Ada may be many.",
    "thumbnail": {"source": "https://upload.example.org/ada.png"},
    "content_urls": {"desktop": {"page": "https://en.wikipedia.org/wiki/Ada_(name)"}},
}
GERMAN: Json = {"lang": "de", "langname": "German", "url": "https://de.wikipedia.org/wiki/Schach", "*": "Schach"}
DAYS: Json = {"items": [{"timestamp": "2025010100", "views": 12}, {"timestamp": "2025010300", "views": 0}]}
TOP: Json = {
    "items": [
        {
            "articles": [
                {"article": "Main_Page", "views": 900, "rank": 1},
                {"article": "Caf\u00e9", "views": 9, "rank": 2},
            ]
        }
    ]
}
"""The bodies above are handmade, because no recording contains them."""

_RANDOM = """
    random__10 random_default random_filter_redirect_all random_filter_redirect_nonredirects
    random_filter_redirect_redirects random_limit random_namespace_category random_namespace_main
"""
_SEARCHES = """
    search__chess_set_505 search__chest_set_suggestion search__gobbilygook_empty search_info_suggestion search_interwiki
    search_python_3
"""
_LONDON = {"latitude": "51.5074", "longitude": "-0.1278"}

CASES: tuple[Case, ...] = (
    Case(
        "a page",
        "page",
        {"title": "Wikipedia"},
        {f"{_WIKI}/api/rest_v1/page/summary/Wikipedia": "rest_v1_summary__Wikipedia.json"},
        PAGE,
    ),
    Case(
        "a page that lists what its title may mean",
        "page",
        {"title": "Ada_(name)"},
        {f"{_WIKI}/api/rest_v1/page/summary/Ada_(name)": SUMMARY},
        PAGE,
    ),
    Case(
        "an ordinary page by hand",
        "page",
        {"title": "Ada"},
        {f"{_WIKI}/api/rest_v1/page/summary/Ada": {**SUMMARY, "type": "standard"}},
        PAGE,
    ),
    *listed("search", _SEARCHES, "query.search", FOUND, query="python", limit=10),
    *listed(
        "search/titles", "prefixsearch__ar prefixsearch__ba_30", "query.prefixsearch", LISTED, query="ba", limit=30
    ),
    *listed("search/nearby", "geosearch_coord geosearch_meta", "query.geosearch", PLACE, **_LONDON),
    *listed("search/nearby", "geosearch__new_york", "query.geosearch", PLACE, latitude="40.67", longitude="-73.94"),
    *listed("random", _RANDOM, "query.random", LISTED),
    *listed("category", "categorymembers__chess", "query.categorymembers", LISTED, category="Chess"),
    Case(
        "a category by hand",
        "category",
        {"category": "Category:Ada"},
        {_API: {"query": {"categorymembers": [{"ns": 0, "pageid": 7, "title": "Ada", "type": "page"}]}}},
        rows("query.categorymembers", LISTED),
        has_more=False,
    ),
    *(
        Case(
            f"links: {file}",
            "page/links",
            {"title": "Python"},
            {_API: f"{file}.json"},
            of_page("links", LINKED),
            has_more=more,
        )
        for file, more in (
            ("links_p1", True),
            ("links_p2", False),
            ("links__minor_planets_p1", True),
            ("links__minor_planets_p2", True),
        )
    ),
    Case(
        "the categories of a page by hand",
        "page/categories",
        {"title": "Chess"},
        {_API: page_with(categories=[{"ns": 14, "title": "Category:Board games"}])},
        of_page("categories", LINKED),
    ),
    Case(
        "the files of a page by hand",
        "page/images",
        {"title": "Chess"},
        {_API: page_with(images=[{"ns": 6, "title": "File:A board.jpg"}])},
        of_page("images", LINKED),
    ),
    Case(
        "the languages of a page by hand",
        "page/languages",
        {"title": "Chess"},
        {_API: page_with(langlinks=[GERMAN])},
        of_page("langlinks", TRANSLATED),
    ),
    Case(
        "the views of a page",
        "page/pageviews",
        {"title": "Foo", "from": "2000-01-01", "to": "2000-01-05"},
        {_OF_FOO: "pageviews_daily__stand_in.json"},
        views("Foo"),
    ),
    Case(
        "no views of a page",
        "page/pageviews",
        {"title": "Foo", "from": "2000-01-01", "to": "2000-01-05"},
        {_OF_FOO: "pageviews_404__stand_in.json"},
        refused=NotFound,
    ),
    Case(
        "the views of a language by hand",
        "site/pageviews",
        {"from": "2025-01-01", "to": "2025-01-05"},
        {f"{_VIEWS}/aggregate/en.wikipedia/all-access/user/daily/2025010100/2025010500": DAYS},
        views("en.wikipedia"),
    ),
    Case(
        "the most viewed by hand",
        "top",
        {"date": "2025-01-31"},
        {f"{_VIEWS}/top/en.wikipedia/all-access/2025/01/31": TOP},
        lambda body: analytics(period="2025-01-31", items=[RANKED(row) for row in body["items"][0]["articles"]]),
    ),
)
