"""The endpoints of the platform of web pages."""

from __future__ import annotations

from functools import partial

from upstreams.model.archetypes import WEB_PAGE, WEB_PAGE_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.web import SLUG, engines, extracting, mapping, searching
from upstreams.web.costly import CostlyPages
from upstreams.web.extracting import extract
from upstreams.web.mapping import map_site
from upstreams.web.robots import RobotsMemory
from upstreams.web.scraping import METADATA, PARAMS, PRICE, scrape
from upstreams.web.searching import search
from upstreams.web.visiting import judge_page

CACHED_S = 1_800
_SCRAPE = (
    "A page as Markdown, HTML or text, with its links and metadata. Menus, banners, comments and footers are left out. "
    "robots.txt is respected. Redirects are followed, but only to public addresses. A sign-in page or a bot check is "
    "reported as an error (reason login_required or challenge), never returned as content. Feeds and plain text are "
    "supported, and PDFs with pdf_parse=true. wait_for, mobile and formats=screenshot run the page's scripts in the "
    "node's browser, if there is one."
)

_MAP = (
    "The URLs of a site's pages, from the sitemaps that its robots.txt names (including compressed ones and "
    "indexes), then from the page's links. With search words, the best matches come first. The pages are not read."
)
_EXTRACT = (
    "Each member of the schema is a CSS selector and returns the text of the first match. A suffix of @ and a name "
    "returns that attribute; a list with one selector returns all matches; {selector, fields} reads fields inside each "
    "match. robots.txt, redirects and walls are handled as in web/scrape."
)
_OF_TEXTS = (
    "page_count", "links", "media.screenshot_url",
    *(f"content.{name}" for name in ("text", "markdown", "html", "raw_html", "summary")),
)  # fmt: skip
_OF_PAGES_THAT_ARE_READ = (
    "final_url", "status_code", "fetched_at", "source_type", "extraction", *_OF_TEXTS,
    *(f"metadata.{name}" for name in METADATA if name != "title"),
)  # fmt: skip

_SEARCH = (
    "Results from the first search engine that answers, among those that the operator has configured: SearXNG, Brave, "
    "Marginalia, Tavily. With include_content=true, the pages are read as in web/scrape. A page that cannot be read "
    "keeps only the engine's text."
)


def make_web() -> Platform:
    """Return the platform of web pages.

    The platform's endpoints share a cache of robots.txt files and a list of costly pages.
    """
    robots, costly = RobotsMemory(), CostlyPages()
    return Platform(
        slug=SLUG,
        title="Web",
        category="web",
        docs_url="https://www.rfc-editor.org/rfc/rfc9309",
        checked_on="2026-11-25",
        source_needs={one.name: one.needs for one in engines.ENGINES},
        sources={"page": "https://{host}", "plain": "http://{host}", "browser": "$browser_url", **engines.SOURCES},
        refusals=judge_page,
        open_web=True,
        endpoints=(*_of_pages(robots, costly), *_of_sites(robots, costly)),
    )


def _of_pages(robots: RobotsMemory, costly: CostlyPages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            resource="scrape",
            summary="One page of any host, as Markdown, HTML or text.",
            archetype=WEB_PAGE,
            read=partial(scrape, robots, costly),
            params=PARAMS,
            description=_SCRAPE,
            price=PRICE,
            cache_ttl_s=CACHED_S,
            by_workers=True,
            never=("content.summary", "extraction"),
        ),
        Endpoint(
            resource="extract",
            summary="Values from one page, by a schema of CSS selectors.",
            archetype=WEB_PAGE,
            read=partial(extract, robots, costly),
            params=extracting.PARAMS,
            one_of=(("schema", "prompt"),),
            price=extracting.PRICE,
            description=_EXTRACT,
            cache_ttl_s=CACHED_S,
            by_workers=True,
            never=_OF_TEXTS,
        ),
    )


def _of_sites(robots: RobotsMemory, costly: CostlyPages) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            resource="map",
            summary="Pages of a site, from its sitemaps and the links on one page.",
            archetype=WEB_PAGE_LIST,
            read=partial(map_site, robots, costly),
            params=mapping.PARAMS,
            description=_MAP,
            cache_ttl_s=CACHED_S,
            by_workers=True,
            never=("total", *_OF_PAGES_THAT_ARE_READ),
        ),
        Endpoint(
            resource="search",
            summary="Search the web.",
            archetype=WEB_PAGE_LIST,
            read=search,
            params=searching.PARAMS,
            price=searching.PRICE,
            description=_SEARCH,
            needs=("brave_key|searxng_url|marginalia_key|tavily_key",),
            never=("total", "links", "media.screenshot_url", "content.summary", "extraction"),
        ),
    )
