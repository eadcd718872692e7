"""web/search: pages by query, from the first configured engine that answers, with their contents where wanted."""

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
"""Results whose pages are read at most."""
KINDS: Final = ("web", "news", "images")
PARAMS: Final = (
    Param("query", "What to search for.", "example domain", required=True),
    Param(
        "sources",
        "The kinds of results, with commas between them: web, news, images. Each brings as many as limit says.",
        "web,news",
        default="web",
    ),
    limit(LIMIT_MAX, 10),
    Param(
        "country",
        "The country to search in, by its two letters.",
        "de",
        fold=True,
        pattern="[a-z]{2}",
        problem="must be the two letters of a country, such as de",
    ),
    Param("time_range", "How old results may be.", "week", choices=("day", "week", "month", "year")),
    Param(
        "sort_by_date",
        "Whether the newest come first; results without a time come last.",
        "false",
        type="boolean",
        default=False,
    ),
    Param("include_domains", "Hosts with commas between them: results of these alone.", "example.com"),
    Param("exclude_domains", "Hosts with commas between them: no results of these.", "example.org"),
    Param(
        "include_content",
        f"Whether the pages of the first {CONTENTS_MAX} results are read, as web/scrape does.",
        "false",
        type="boolean",
        default=False,
    ),
    Param("categories", "Kinds of sites; needs an engine that knows them.", "github"),
    Param("location", "The place to search from; needs an engine that takes one.", "Berlin"),
)


def _span(values: Mapping[str, Value]) -> tuple[int, int]:
    results = int(values.get("limit", 10)) * len(_kinds(values))
    most = 2 * -(-results // 10) + (min(results, CONTENTS_MAX) if values.get("include_content") else 0)
    return 2, max(2, min(CREDITS_MAX, most))


PRICE: Final = PriceRange(
    2, CREDITS_MAX, "2 for each 10 results that come, at least 2, and 1 for each whose page was read.", _span
)


def _kinds(values: Mapping[str, Value]) -> tuple[str, ...]:
    names = (one.strip().lower() for one in str(values.get("sources", "web")).split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def search(args: Args) -> Steps:
    """Results of each kind, in the order of the kinds."""
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
    """Refuse what no engine can be told."""
    if not kinds:
        raise InvalidArgument("sources", f"must name some of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidArgument("sources", f"must be of {', '.join(KINDS)}; {kind[:40]} is none of them")
    for name in ("categories", "location"):
        if name in values:
            problem = "needs an engine that takes it, which this node does not have"
            raise InvalidArgument(name, problem, reason="capability_missing")
    if "include_domains" in values and "exclude_domains" in values:
        raise InvalidArgument("exclude_domains", "cannot be combined with include_domains")


def _engines(kind: str, args: Args) -> list[SearchEngine]:
    """The engines that are configured and can be told all of it, in their order."""
    told = {name for name in ("time_range", "country") if name in args.values}
    found = [one for one in ENGINES if one.needs in args.credentials] or [BRAVE]  # examples are made without any
    able = [one for one in found if kind in one.kinds and told <= one.takes]
    if not able:
        culprit = next(iter(sorted(told)), "sources")
        raise InvalidArgument(
            culprit, f"can be answered by no search engine of this node for {kind}", reason="capability_missing"
        )
    return able


def _results(kind: str, args: Args) -> Generator[Wanted, Any, list[Json]]:
    """The results of a kind from the first engine that answers.

    Raises:
        UpstreamFailed: none did.
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
            came = _kept(engine.rows(obj(answer.body), kind), args.values)
            before = len(rows)
            rows.update({url: row for url, row in came.items() if url not in rows})
            page_number += 1
            if engine.name not in PAGED or len(rows) == before or page_number > -(-LIMIT_MAX // ROWS_EACH) + 1:
                break
        if rows or failure is None:
            return list(rows.values())[: args.number("limit")]
        problems.append(f"{engine.name}: {failure}")
    raise UpstreamFailed("search", "; ".join(problems), passing=True)


def _query(values: Mapping[str, Value]) -> str:
    """The query with the hosts in it, as all engines understand."""
    query = str(values["query"])
    within = _hosts(values, "include_domains")
    if within:
        query += f" ({' OR '.join(f'site:{host}' for host in within)})" if len(within) > 1 else f" site:{within[0]}"
    return query + "".join(f" -site:{host}" for host in _hosts(values, "exclude_domains"))


def _hosts(values: Mapping[str, Value], name: str) -> list[str]:
    return [host for one in str(values.get(name, "")).split(",") if (host := one.strip().lower().removeprefix("www."))]


def _kept(rows: list[Json], values: Mapping[str, Value]) -> dict[str, Json]:
    """The results by the one spelling of their addresses, but for those at hosts that were not wanted."""
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
    """The records of the pages that could be read, by address."""
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
    """The record of a result: as it was read, with what the engine adds, or as the engine tells it."""
    told = page(
        url=row["url"],
        title=row["title"],
        description=row["description"],
        published_at=row["published_at"],
        image_url=row["image_url"],
    )
    if read is None:
        return told
    metadata = {name: read["metadata"][name] or value for name, value in told["metadata"].items()}
    return {**read, "url": row["url"], "metadata": metadata}
