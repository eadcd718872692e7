"""web/search: search results from the first configured engine that answers, with page contents if requested."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from upstreams.model.archetypes import page
from upstreams.model.endpoint import PriceRange
from upstreams.model.errors import InvalidArgument, TargetRefused, UpstreamFailed
from upstreams.model.fields import Json, obj
from upstreams.model.params import Args, Param, Value, limit
from upstreams.model.steps import Fetched, Page, Part, Single, Steps, Wanted
from upstreams.web.addresses import one_spelling
from upstreams.web.engines import BRAVE, ENGINES, PAGED, ROWS_EACH, SearchEngine, SearchWanted

LIMIT_MAX: Final = 100
CREDITS_MAX: Final = 120
CONTENTS_MAX: Final = 20
"""The maximum number of results whose pages are read."""
KINDS: Final = ("web", "news", "images")
PARAMS: Final = (
    Param("query", "Search query.", "example domain", required=True),
    Param(
        "sources",
        "Comma-separated kinds of results: web, news, images. limit applies to each kind.",
        "web,news",
        default="web",
    ),
    limit(LIMIT_MAX, 10),
    Param(
        "country",
        "The country to search in, as a two-letter code.",
        "de",
        fold=True,
        pattern="[a-z]{2}",
        problem="must be a two-letter country code, such as de",
    ),
    Param("time_range", "Maximum age of results.", "week", choices=("day", "week", "month", "year")),
    Param(
        "sort_by_date",
        "Whether to sort newest first. Results without a time come last.",
        "false",
        type="boolean",
        default=False,
    ),
    Param("include_domains", "Comma-separated hosts. Only results from these are returned.", "example.com"),
    Param("exclude_domains", "Comma-separated hosts. Results from these are left out.", "example.org"),
    Param(
        "include_content",
        f"Whether to read the pages of the first {CONTENTS_MAX} results, as web/scrape does.",
        "false",
        type="boolean",
        default=False,
    ),
    Param("categories", "Kinds of sites. Requires an engine that supports them.", "github"),
    Param("location", "The place to search from. Requires an engine that supports it.", "Berlin"),
)


def _span(values: Mapping[str, Value]) -> tuple[int, int]:
    results = int(values.get("limit", 10)) * len(_kinds(values))
    most = 2 * -(-results // 10) + (min(results, CONTENTS_MAX) if values.get("include_content") else 0)
    return 2, max(2, min(CREDITS_MAX, most))


PRICE: Final = PriceRange(2, CREDITS_MAX, "2 per 10 results returned, at least 2, plus 1 per page read.", _span)


def _kinds(values: Mapping[str, Value]) -> tuple[str, ...]:
    names = (one.strip().lower() for one in str(values.get("sources", "web")).split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def search(args: Args) -> Steps:
    """Return the results of each kind, in the order of the kinds."""
    kinds = _kinds(args.values)
    _check(args.values, kinds)
    rows: list[Json] = []
    for kind in kinds:
        rows += yield from _results(kind, args)
    if args.values.get("sort_by_date"):
        rows.sort(key=lambda row: row["published_at"] or "", reverse=True)
    contents: dict[str, Any] = {}
    if args.values.get("include_content"):
        contents = yield from _contents([str(row["url"]) for row in rows[:CONTENTS_MAX]])
    records = [_record(row, contents.get(str(row["url"]))) for row in rows]
    credits_used = 2 * max(1, -(-len(rows) // 10)) + len(contents)
    return Page(records, credits_used=min(CREDITS_MAX, credits_used))


def _check(values: Mapping[str, Value], kinds: tuple[str, ...]) -> None:
    """Reject options that no configured engine supports."""
    if not kinds:
        raise InvalidArgument("sources", f"must contain at least one of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidArgument("sources", f"must be one or more of {', '.join(KINDS)}; {kind[:40]} is unknown")
    for name in ("categories", "location"):
        if name in values:
            problem = "requires an engine that supports it, which this node does not have"
            raise InvalidArgument(name, problem, reason="capability_missing")
    if "include_domains" in values and "exclude_domains" in values:
        raise InvalidArgument("exclude_domains", "cannot be combined with include_domains")


def _engines(kind: str, args: Args) -> list[SearchEngine]:
    """Return the configured engines that support the request, in order of preference."""
    filters = {name for name in ("time_range", "country") if name in args.values}
    found = [one for one in ENGINES if one.needs in args.credentials] or [BRAVE]  # examples run without an engine
    able = [one for one in found if kind in one.kinds and filters <= one.takes]
    if not able:
        culprit = next(iter(sorted(filters)), "sources")
        raise InvalidArgument(
            culprit, f"is not supported by any search engine of this node for {kind}", reason="capability_missing"
        )
    return able


def _results(kind: str, args: Args) -> Generator[Wanted, Any, list[Json]]:
    """Return the results of a kind from the first engine that succeeds.

    Raises:
        UpstreamFailed: All engines failed.
    """
    country, time_range = args.text_or_none("country") or "", args.text_or_none("time_range") or ""
    wanted = SearchWanted(_query(args.values), kind, country, time_range)
    problems = []
    for engine in _engines(kind, args):
        rows: dict[str, Json] = {}
        page_number, failure = 1, None
        while len(rows) < args.number("limit"):
            answer = yield engine.call(wanted, page_number, args.credentials.get(engine.needs, ""))
            if not answer:
                failure = answer.problem
                break
            kept = _kept(engine.rows(obj(answer.body), kind), args.values)
            before = len(rows)
            rows.update({url: row for url, row in kept.items() if url not in rows})
            page_number += 1
            if engine.name not in PAGED or len(rows) == before or page_number > -(-LIMIT_MAX // ROWS_EACH) + 1:
                break
        if rows or failure is None:
            return list(rows.values())[: args.number("limit")]
        problems.append(f"{engine.name}: {failure}")
    raise UpstreamFailed("search", "; ".join(problems), passing=True)


def _query(values: Mapping[str, Value]) -> str:
    """Return the query with its host filters, in the syntax that all engines support."""
    query = str(values["query"])
    within = _hosts(values, "include_domains")
    if within:
        query += f" ({' OR '.join(f'site:{host}' for host in within)})" if len(within) > 1 else f" site:{within[0]}"
    return query + "".join(f" -site:{host}" for host in _hosts(values, "exclude_domains"))


def _hosts(values: Mapping[str, Value], name: str) -> list[str]:
    return [host for one in str(values.get(name, "")).split(",") if (host := one.strip().lower().removeprefix("www."))]


def _kept(rows: list[Json], values: Mapping[str, Value]) -> dict[str, Json]:
    """Return the results by canonical address, without results from excluded hosts."""
    within, without = _hosts(values, "include_domains"), _hosts(values, "exclude_domains")
    kept: dict[str, Json] = {}
    for row in rows:
        try:
            url = one_spelling(row["url"] or "")
        except (TargetRefused, ValueError):
            continue
        host = urlsplit(url).netloc
        if (not within or _is_of(host, within)) and not _is_of(host, without):
            kept.setdefault(url, {**row, "url": url})
    return kept


def _is_of(host: str, hosts: list[str]) -> bool:
    return any(host == one or host.endswith(f".{one}") for one in hosts)


def _contents(urls: list[str]) -> Generator[Wanted, Any, dict[str, Any]]:
    """Return the records of the pages that could be read, by address."""
    if not urls:
        return {}
    parts = tuple(Part("scrape", {"url": url, "formats": "markdown,metadata"}, optional=True) for url in urls)
    answers = yield parts
    return {
        url: answer.result.record
        for url, answer in zip(urls, answers, strict=True)
        if isinstance(answer, Fetched) and isinstance(answer.result, Single)
    }


def _record(row: Json, read: Json | None) -> Json:
    """Return the record of a result: the page that was read plus the engine's fields, or only the engine's fields."""
    plain = page(
        url=row["url"],
        title=row["title"],
        description=row["description"],
        published_at=row["published_at"],
        image_url=row["image_url"],
    )
    if read is None:
        return plain
    metadata = {name: read["metadata"][name] or value for name, value in plain["metadata"].items()}
    return {**read, "url": row["url"], "metadata": metadata}
