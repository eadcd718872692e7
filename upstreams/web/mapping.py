"""web/map: the pages of a site, from its sitemaps and the links on one page (decisions 21)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, Final
from urllib.parse import urlsplit

from limits.errors import LimitError
from upstreams.model.archetypes import page
from upstreams.model.errors import NotFound, UpstreamError
from upstreams.model.params import Args, Param
from upstreams.model.steps import Answer, Form, Page, Steps, Task, Wanted
from upstreams.web.addresses import URL_MAX, PageParam, led_to, origin_of_page, page_call
from upstreams.web.costly import CostlyPages, RequestedPage
from upstreams.web.robots import RobotsFile, RobotsMemory
from upstreams.web.visiting import visit

LIMIT_MAX: Final = 5_000
SITEMAPS_MAX: Final = 60
"""The maximum number of sitemaps that are read for one map."""
RANKED_MAX: Final = 2 * LIMIT_MAX
"""The maximum number of pages that a search keeps before they are reduced to the best ones."""
_AT_ONCE: Final = 4
_FOUND: Final = {"sitemaps": [], "pages": [["https://example.com/articles/1", ""]]}


def _unparsed(raw: bytes, _content_type: str) -> bytes:
    return raw


_SITEMAP: Final = Form("application/xml, text/xml;q=0.9, application/gzip;q=0.8, */*;q=0.5", _unparsed)
PARAMS: Final = (
    PageParam(
        "url",
        "The URL of a page of the site.",
        "https://example.com/",
        type="url",
        required=True,
        length_max=URL_MAX,
    ),
    Param(
        "search",
        "Search words. Returns pages whose URLs or link texts contain any of them, best first.",
        "articles",
    ),
    Param(
        "limit",
        f"Maximum number of pages, 1 to {LIMIT_MAX}.",
        "100",
        type="integer",
        default=LIMIT_MAX,
        minimum=1,
        maximum=LIMIT_MAX,
    ),
    Param(
        "sitemap",
        "How to use the site's sitemaps: with the page's links, not at all, or exclusively.",
        "include",
        default="include",
        choices=("include", "skip", "only"),
    ),
    Param(
        "include_subdomains",
        "Whether to include pages on subdomains.",
        "true",
        type="boolean",
        default=True,
    ),
    Param(
        "ignore_query_parameters",
        "Whether to merge URLs that differ only in their query, and drop the query.",
        "true",
        type="boolean",
        default=True,
    ),
    Param("fresh", "Whether to read the site again even if a cached response exists.", "false", type="boolean"),
)


def map_site(robots: RobotsMemory, costly: CostlyPages, args: Args) -> Steps:
    """Return the pages of a site."""
    requested = costly.page_of("map", args)
    url, limit, sitemap = args.text("url"), args.number("limit"), args.text("sitemap")
    found: dict[str, str] = {}
    warnings: list[str] = []
    scope = {
        "host": urlsplit(url).netloc,
        "subdomains": bool(args.values["include_subdomains"]),
        "drops_queries": bool(args.values["ignore_query_parameters"]),
        "search": args.text_or_none("search") or "",
        "limit": limit,
    }
    if sitemap != "skip":
        yield from _by_sitemaps(url, args, robots, requested, scope=scope, found=found, warnings=warnings)
    if sitemap != "only" and (len(found) < limit or scope["search"]):
        yield from _by_links(url, args, robots, requested, scope=scope, found=found, warnings=warnings)
    if scope["search"]:
        yield from _keep_best(found, scope)
    records = [page(url=one, title=found[one] or None) for one in list(found)[:limit]]
    return Page(records, warnings=tuple(warnings))


def _by_sitemaps(
    url: str,
    args: Args,
    robots: RobotsMemory,
    requested: RequestedPage,
    *,
    scope: dict[str, Any],
    found: dict[str, str],
    warnings: list[str],
) -> Generator[Wanted, Any, None]:
    """Add to `found` the pages in a site's sitemaps, and in the sitemaps listed there.

    The first sitemaps are those that robots.txt names, or the usual one.
    """
    file = yield from robots.file_of(url, args)
    waiting = deque((yield from _first_sitemaps(url, args, robots, file)))
    seen = set(waiting)
    read = 0
    while waiting and read < SITEMAPS_MAX and (scope["search"] or len(found) < scope["limit"]):
        several = [waiting.popleft() for _ in range(min(_AT_ONCE, len(waiting)))]
        read += len(several)
        calls = tuple(page_call(one, accepts=_SITEMAP, optional=True, spacing_s=file.spacing_s) for one in several)
        answers = yield calls
        for place, answer in zip(several, answers, strict=True):
            if not isinstance(answer, Answer):
                if file.sitemaps and not answer.absent:
                    warnings.append(f"The sitemap {place} could not be read: {answer.problem}")
                continue
            arguments = (answer.body, answer.headers.get("content-type", ""), place, scope)
            requested.check()
            done = yield Task("upstreams.web.reading.sitemaps:read_sitemap", arguments, _FOUND, requested.remember)
            _add(found, done.body["pages"])
            for one in done.body["sitemaps"]:
                further = led_to(place, one)
                if further is not None and further not in seen and len(seen) < 10 * SITEMAPS_MAX:
                    seen.add(further)
                    waiting.append(further)
        if scope["search"] and len(found) > RANKED_MAX:
            yield from _keep_best(found, scope)
    if waiting and read >= SITEMAPS_MAX:
        warnings.append(f"The site has more than {SITEMAPS_MAX} sitemaps; the rest were not read.")


def _first_sitemaps(url: str, args: Args, robots: RobotsMemory, file: RobotsFile) -> Generator[Wanted, Any, list[str]]:
    """Return the sitemaps that robots.txt names, or the usual one. If robots must not read the usual one, return none.

    Raises:
        NotFound: Robots must not read the usual sitemap, and only sitemaps were requested.
    """
    named = [address for one in file.sitemaps if (address := led_to(url, one)) is not None]
    if named:
        return named
    usual = f"{origin_of_page(url)}/sitemap.xml"
    try:
        yield from robots.check(usual, args)
    except NotFound:
        if args.text("sitemap") == "only":
            raise
        return []
    return [usual]


def _by_links(
    url: str,
    args: Args,
    robots: RobotsMemory,
    requested: RequestedPage,
    *,
    scope: dict[str, Any],
    found: dict[str, str],
    warnings: list[str],
) -> Generator[Wanted, Any, None]:
    """Add to `found` the pages that a page links to.

    If the page cannot be read but `found` has pages from sitemaps, only add a warning.
    """
    needed = not found
    try:
        visited = yield from visit(url, args, robots, optional=not needed)
        requested.check()
    except (UpstreamError, LimitError) as exc:
        if needed:
            raise
        warnings.append(f"The page itself could not be read: {exc}")
        return
    arguments = (visited.answer.raw, visited.content_type, visited.url, {**scope, "needs_links": needed})
    done = yield Task("upstreams.web.reading.sitemaps:read_links", arguments, _FOUND, requested.remember)
    _add(found, done.body["pages"])


def _keep_best(found: dict[str, str], scope: dict[str, Any]) -> Generator[Wanted, Any, None]:
    """Reduce the pages to those that match the words best, best first. A worker process compares them."""
    arguments = ([[url, title] for url, title in found.items()], scope)
    done = yield Task("upstreams.web.reading.sitemaps:best_pages", arguments, _FOUND)
    found.clear()
    found.update((url, title) for url, title in done.body["pages"])


def _add(found: dict[str, str], pages: list[list[str]]) -> None:
    for url, title in pages:
        if not found.get(url):
            found[url] = title
