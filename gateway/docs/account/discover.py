"""Reference texts for discover runs (decisions 19)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc

DiscoverId = Annotated[str, meaning("The run.", "dr_01a1fd7328fd7bba92988ba98f5dc154")]
RowId = Annotated[
    str, meaning("The row's id, the same in every run that finds it.", "row_5b1f8a3e0c7d4f6a9b2e1d0c8a7f6e5d")
]
Version = Annotated[int, meaning("Increases with every change to rows or counts.", 120)]
_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_run"
_OVER: Final = "INVALID_REQUEST/job_over"


class LegCounts(TypedDict):
    """The searches of a run by status. The other fields add up to `planned`."""

    planned: Annotated[int, meaning("All searches: each keyword on each endpoint.", 20)]
    done: Annotated[int, meaning("Searches that returned rows.", 16)]
    empty: Annotated[int, meaning("Searches that returned no rows.", 2)]
    failed: Annotated[int, meaning("Searches whose source failed.", 1)]
    skipped: Annotated[int, meaning("Searches that were not started.", 1)]
    pending: Annotated[int, meaning("Searches waiting or in progress.", 0)]


class DiscoverCountsData(TypedDict):
    """The counts of a run."""

    legs: LegCounts
    rows_kept: Annotated[int, meaning("Rows in the run.", 412)]
    rows_new: Annotated[int | None, meaning("Rows that no earlier run of its schedule found; null without a schedule.")]


class DiscoverMoney(TypedDict):
    """The credits of a run. Once it has ended or is paused, `spent` plus `refunded` equals `reserved`."""

    max: Annotated[int, meaning("The maximum cost.", 100)]
    reserved: Annotated[int, meaning("Credits reserved so far. Resuming a run reserves more.", 100)]
    spent: Annotated[int, meaning("The price of the pages and accounts that were read.", 64)]
    refunded: Annotated[int, meaning("Credits returned.", 36)]


class DiscoverLinks(TypedDict):
    """URLs related to the run."""

    run: Annotated[str, meaning("The URL of the run.", "https://api.example.com/v1/prism/discover/runs/dr_01a1")]
    results: Annotated[
        str, meaning("The URL of its rows.", "https://api.example.com/v1/prism/discover/runs/dr_01a1/results.jsonl")
    ]
    changes: Annotated[
        str,
        meaning(
            "The URL of all changed rows.", "https://api.example.com/v1/prism/discover/runs/dr_01a1?changes_since=0"
        ),
    ]


class FailedLegData(TypedDict):
    """A search that failed."""

    keyword: Annotated[str, meaning("The keyword.", "structured concurrency")]
    endpoint: Annotated[str, meaning("The endpoint.", "hackernews/search")]
    error: Annotated[str, meaning("The error code or the reason.", "UPSTREAM_ERROR")]


class SightingData(TypedDict):
    """A search that found a row."""

    platform: Annotated[str, meaning("The platform.", "hackernews")]
    endpoint: Annotated[str, meaning("The endpoint.", "hackernews/search")]
    keyword: Annotated[str, meaning("The keyword.", "structured concurrency")]
    rank: Annotated[int, meaning("The position in the results, starting at 1.", 3)]


class MatchData(TypedDict):
    """How well an account matches its best keyword (docs/discover)."""

    keyword: Annotated[str, meaning("The keyword.", "octocat")]
    label: Annotated[Literal["same", "possible", "different", "uncertain"], shown("same")]
    score: Annotated[float, meaning("The total weight of the matching signs, at most 1.", 0.85)]
    reasons: Annotated[list[str], meaning("The signs that matched.", ["handle_equals", "name_equals"])]


class DiscoverRowData(TypedDict):
    """A row of a run."""

    row_id: RowId
    version: Version
    kind: Annotated[str, meaning("The name of its record: post, account, app or article.", "post")]
    platform: Annotated[str, meaning("The platform that found it first.", "hackernews")]
    endpoint: Annotated[str, meaning("The endpoint that found it first.", "hackernews/search")]
    keywords: Annotated[list[str], meaning("The keywords that found it.", ["structured concurrency"])]
    found_in: list[SightingData]
    rank: Annotated[int, meaning("The best position in any search.", 3)]
    record: Annotated[dict[str, Any], meaning("The record, as its endpoint returns it.", {"post": {"id": "1"}})]
    match: NotRequired[MatchData]
    is_new: Annotated[bool | None, meaning("Whether no earlier run of the schedule found it; null without a schedule.")]
    first_seen_at: Instant


class DiscoverData(TypedDict):
    """The current state of a run."""

    run_id: DiscoverId
    status: Annotated[
        Literal["queued", "running", "paused", "completed", "partial", "failed", "cancelled"], shown("partial")
    ]
    stopped_because: Annotated[
        str | None,
        meaning("One of max_credits, insufficient_credits, owner, max_rows, upstreams_down; or null.", "max_rows"),
    ]
    view: Literal["posts", "accounts", "items"]
    keywords: Annotated[list[str], meaning("The keywords.", ["structured concurrency"])]
    searches: Annotated[list[str], meaning("The endpoints that it searches.", ["hackernews/search"])]
    unavailable: Annotated[list[str], meaning("Endpoints without credentials on this node.", ["youtube/search"])]
    counts: DiscoverCountsData
    credits: DiscoverMoney
    max_rows: Annotated[int, meaning("The maximum number of rows.", 1000)]
    version: Version
    schedule_id: Annotated[str | None, meaning("The schedule that started the run.")]
    failed_legs: Annotated[list[FailedLegData], meaning("The first 20 searches that failed.")]
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    links: DiscoverLinks
    added: NotRequired[Annotated[list[DiscoverRowData], meaning("With changes_since: the added rows.")]]
    changed: NotRequired[Annotated[list[DiscoverRowData], meaning("With changes_since: the changed rows.")]]
    gone: NotRequired[Annotated[list[RowId], meaning("With changes_since: ids of removed rows.")]]
    has_more: NotRequired[Annotated[bool, meaning("With changes_since: more changes follow after this `version`.")]]


class DiscoverListData(TypedDict):
    """A page of runs, newest first."""

    items: list[DiscoverData]


class DiscoverQuote(TypedDict):
    """The price of a run, without starting it."""

    estimated_credits: Annotated[int, meaning("Credits that the run would reserve.", 100)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]
    legs: Annotated[int, meaning("The number of searches.", 20)]
    searches: Annotated[list[str], meaning("The endpoints that it would search.", ["hackernews/search"])]


class DiscoverPage(TypedDict):
    """The `page` event: a search page or an account was read."""

    run_id: DiscoverId
    version: Version
    step: Annotated[str, meaning("The leg and its page number, or the account.", "12.1")]
    status: Literal["done", "empty", "failed"]
    credits_used: Annotated[int, meaning("The price of the page.", 1)]
    error: Annotated[str | None, meaning("The error code, if it failed.")]
    rows_kept: Annotated[int, meaning("Rows in the run so far.", 120)]


_BEGIN_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/job_limit_reached",
)
_STREAM: Final = (
    "With `Accept: text/event-stream`, each page that was read is sent as a `page` event. The last event is `result`."
)
BEGIN: Final = RouteDoc(
    "begin_discover_run",
    "Search many keywords on every platform and collect the results.",
    DiscoverData,
    status=202,
    platform="prism",
    reasons=_BEGIN_REASONS,
    once=True,
    notes=(
        "Waits up to 55 seconds and returns 200 with the finished run. With `background`, or after 55 seconds, returns "
        "202 with the current state of the run.",
        "The maximum cost is reserved, as far as the balance allows. Each page is billed when it has been read, and "
        "the rest is refunded when the run ends or is paused. After a crash, the run resumes with the first unread "
        "page.",
        _STREAM,
    ),
    price=(1, "1-10000 credits, metered", "The price of each page of a search, and of each account that is read."),
    billing_rules=("A page without rows costs 0 credits.", "Unused reserved credits are refunded automatically."),
    gives={"run_id": "/data/run_id"},
    settles=True,
    dry_run=DiscoverQuote,
    form="application/json text/event-stream",
    streams={"page": DiscoverPage},
)
LIST: Final = RouteDoc(
    "list_discover_runs", "The account's discover runs, newest first.", DiscoverListData, platform="prism"
)
SHOW: Final = RouteDoc(
    "get_discover_run",
    "The current state of a discover run, and its changes since a version.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN,),
    notes=(
        "`changes_since` adds the rows that were added or changed since that version, and the ids of the removed rows. "
        "It returns at most 200; if `has_more` is true, continue from the returned `version`.",
        _STREAM,
    ),
    form="application/json text/event-stream",
    streams={"page": DiscoverPage},
)
CHANGE: Final = RouteDoc(
    "change_discover_run",
    "Pause or resume a discover run, or change its maximum cost.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN, _OVER, "INSUFFICIENT_CREDITS/balance_too_low", "KEY_BUDGET_EXCEEDED/key_budget_reached"),
    notes=(
        "Pausing refunds the reserved credits. Resuming reserves credits again and continues where the run stopped; "
        "pages in progress at the pause are read again. While a run is active, `max_credits` can only be raised.",
    ),
)
CANCEL: Final = RouteDoc(
    "cancel_discover_run",
    "Cancel a discover run. Its rows stay, and unused credits are refunded.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN, _OVER),
)
LINES: Final = RouteDoc(
    "discover_results",
    "The rows of a discover run as JSON lines, in the order found.",
    platform="prism",
    form="application/x-ndjson",
    reasons=(_UNKNOWN,),
    notes=("`after` continues after a row. Rows are deleted 30 days after the run ends.",),
)
