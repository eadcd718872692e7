"""Discover runs, for their readers (decisions 19)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc

DiscoverId = Annotated[str, meaning("The run.", "dr_01a1fd7328fd7bba92988ba98f5dc154")]
RowId = Annotated[str, meaning("The row: the same in every run that finds it.", "row_5b1f8a3e0c7d4f6a9b2e1d0c8a7f6e5d")]
Version = Annotated[int, meaning("Grows with every change of rows or counts.", 120)]
_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_run"
_OVER: Final = "INVALID_REQUEST/job_over"


class LegCounts(TypedDict):
    """Where the searches of a run stand; all but `planned` add up to it."""

    planned: Annotated[int, meaning("Each keyword on each search.", 20)]
    done: Annotated[int, meaning("Those that gave rows.", 16)]
    empty: Annotated[int, meaning("Those that gave none.", 2)]
    failed: Annotated[int, meaning("Those whose source failed.", 1)]
    skipped: Annotated[int, meaning("Those that were not made any more.", 1)]
    pending: Annotated[int, meaning("Those to come, or under way.", 0)]


class DiscoverCountsData(TypedDict):
    """The numbers of a run."""

    legs: LegCounts
    rows_kept: Annotated[int, meaning("Rows that it has.", 412)]
    rows_new: Annotated[
        int | None, meaning("Those that no earlier occurrence of its schedule found; null without one.")
    ]


class DiscoverMoney(TypedDict):
    """The money of a run. Once it has ended or is paused, `spent` and `refunded` add up to `reserved`."""

    max: Annotated[int, meaning("The most that it may cost.", 100)]
    reserved: Annotated[
        int, meaning("The credits of all its reservations: each time it goes on it reserves anew.", 100)
    ]
    spent: Annotated[int, meaning("The price of what came.", 64)]
    refunded: Annotated[int, meaning("What it gave back.", 36)]


class DiscoverLinks(TypedDict):
    """Where to read on."""

    run: Annotated[str, meaning("The run.", "https://api.example.com/v1/prism/discover/runs/dr_01a1")]
    results: Annotated[
        str, meaning("Its rows.", "https://api.example.com/v1/prism/discover/runs/dr_01a1/results.jsonl")
    ]
    changes: Annotated[
        str,
        meaning("All rows that changed.", "https://api.example.com/v1/prism/discover/runs/dr_01a1?changes_since=0"),
    ]


class FailedLegData(TypedDict):
    """A search that failed."""

    keyword: Annotated[str, meaning("Its keyword.", "structured concurrency")]
    endpoint: Annotated[str, meaning("Its endpoint.", "hackernews/search")]
    error: Annotated[str, meaning("The code, or the reason.", "UPSTREAM_ERROR")]


class SightingData(TypedDict):
    """A search that found a row."""

    platform: Annotated[str, meaning("Its platform.", "hackernews")]
    endpoint: Annotated[str, meaning("Its endpoint.", "hackernews/search")]
    keyword: Annotated[str, meaning("The keyword.", "structured concurrency")]
    rank: Annotated[int, meaning("The place there, from 1 on.", 3)]


class MatchData(TypedDict):
    """How well an account fits the keyword that it fits best (docs/discover)."""

    keyword: Annotated[str, meaning("The keyword.", "octocat")]
    label: Annotated[Literal["same", "possible", "different", "uncertain"], shown("same")]
    score: Annotated[float, meaning("The sum of its signs' weights, at most 1.", 0.85)]
    reasons: Annotated[list[str], meaning("Its signs.", ["handle_equals", "name_equals"])]


class DiscoverRowData(TypedDict):
    """A row of a run."""

    row_id: RowId
    version: Version
    kind: Annotated[str, meaning("The name of the record in it: post, account, app, article.", "post")]
    platform: Annotated[str, meaning("The platform that found it first.", "hackernews")]
    endpoint: Annotated[str, meaning("The endpoint that found it first.", "hackernews/search")]
    keywords: Annotated[list[str], meaning("The keywords that found it.", ["structured concurrency"])]
    found_in: list[SightingData]
    rank: Annotated[int, meaning("Its best place in any search.", 3)]
    record: Annotated[dict[str, Any], meaning("The record, as its endpoint answers it.", {"post": {"id": "1"}})]
    match: NotRequired[MatchData]
    is_new: Annotated[bool | None, meaning("Whether no earlier occurrence of the schedule found it; null without one.")]
    first_seen_at: Instant


class DiscoverData(TypedDict):
    """A run as it stands."""

    run_id: DiscoverId
    status: Annotated[
        Literal["queued", "running", "paused", "completed", "partial", "failed", "cancelled"], shown("partial")
    ]
    stopped_because: Annotated[
        str | None,
        meaning("max_credits, insufficient_credits, owner, max_rows, upstreams_down, or null.", "max_rows"),
    ]
    view: Literal["posts", "accounts", "items"]
    keywords: Annotated[list[str], meaning("Its keywords.", ["structured concurrency"])]
    searches: Annotated[list[str], meaning("The endpoints that it searches.", ["hackernews/search"])]
    unavailable: Annotated[list[str], meaning("Those that lack a credential of the operator's.", ["youtube/search"])]
    counts: DiscoverCountsData
    credits: DiscoverMoney
    max_rows: Annotated[int, meaning("The most rows.", 1000)]
    version: Version
    schedule_id: Annotated[str | None, meaning("The schedule whose occurrence it is.")]
    failed_legs: Annotated[list[FailedLegData], meaning("The first 20 searches that failed.")]
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    links: DiscoverLinks
    added: NotRequired[Annotated[list[DiscoverRowData], meaning("With changes_since: rows that it did not have then.")]]
    changed: NotRequired[Annotated[list[DiscoverRowData], meaning("With changes_since: rows that it had otherwise.")]]
    gone: NotRequired[Annotated[list[RowId], meaning("With changes_since: rows that it has no more.")]]
    has_more: NotRequired[Annotated[bool, meaning("With changes_since: ask again from this answer's version on.")]]


class DiscoverListData(TypedDict):
    """A page of runs, newest first."""

    items: list[DiscoverData]


class DiscoverQuote(TypedDict):
    """The price of a run, which was not begun."""

    estimated_credits: Annotated[int, meaning("The most that it would hold.", 100)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]
    legs: Annotated[int, meaning("Its searches.", 20)]
    searches: Annotated[list[str], meaning("The endpoints that it would search.", ["hackernews/search"])]


class DiscoverPage(TypedDict):
    """A page of a search, or an account, that was read: the `page` event."""

    run_id: DiscoverId
    version: Version
    step: Annotated[str, meaning("The page: of which leg and the how manieth; or the account.", "12.1")]
    status: Literal["done", "empty", "failed"]
    credits_used: Annotated[int, meaning("Its price.", 1)]
    error: Annotated[str | None, meaning("The code, where it failed.")]
    rows_kept: Annotated[int, meaning("Rows that the run has by now.", 120)]


_BEGIN_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/job_limit_reached",
)
_STREAM: Final = (
    "With `Accept: text/event-stream` each page is a `page` event as soon as it was read, and `result` is the last."
)
BEGIN: Final = RouteDoc(
    "begin_discover_run",
    "Search many keywords on every platform, and keep what they find.",
    DiscoverData,
    status=202,
    platform="prism",
    reasons=_BEGIN_REASONS,
    once=True,
    notes=(
        "Waits up to 55 seconds and answers 200 with the run that has settled; with `background`, or after that, 202 "
        "with the run as it stands.",
        "What it may cost is reserved, as far as the balance goes; a page is paid for when it has come, and the rest "
        "goes back when the run ends or is paused. After a crash it goes on with the first page that it has not read.",
        _STREAM,
    ),
    price=(1, "1-10000 credits, metered", "The price of each page of a search, and of each account that is read."),
    billing_rules=("A page without rows costs 0 credits.", "What was reserved and not used is refunded automatically."),
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
    "One discover run as it stands, and what changed since a version of it.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN,),
    notes=(
        "`changes_since` adds the rows that were added or changed since that version, and the ids of those that are "
        "gone: at most 200, then `has_more`, and `version` is where to go on.",
        _STREAM,
    ),
    form="application/json text/event-stream",
    streams={"page": DiscoverPage},
)
CHANGE: Final = RouteDoc(
    "change_discover_run",
    "Pause a discover run, let it go on, or change what it may cost.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN, _OVER, "INSUFFICIENT_CREDITS/balance_too_low", "KEY_BUDGET_EXCEEDED/key_budget_reached"),
    notes=(
        "One that is paused gives back what it holds; when it goes on it reserves anew, where it stood. What is under "
        "way when it is paused is read again. `max_credits` can only be raised while it goes on.",
    ),
)
CANCEL: Final = RouteDoc(
    "cancel_discover_run",
    "End a discover run: its rows stay, what it holds goes back.",
    DiscoverData,
    platform="prism",
    reasons=(_UNKNOWN, _OVER),
)
LINES: Final = RouteDoc(
    "discover_results",
    "The rows of a discover run, a line of JSON each, in the order in which they came.",
    platform="prism",
    form="application/x-ndjson",
    reasons=(_UNKNOWN,),
    notes=("`after` goes on behind a row. Rows are kept for 30 days after the run has ended.",),
)
