"""Cohorts and their queries, for their readers (spec 4.6, decisions 14 and 20)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc

CohortId = Annotated[str, meaning("The cohort.", "coh_01a1fd7328fd7bba92988ba98f5dc154")]
QueryId = Annotated[str, meaning("The query.", "cq_01a1fd7328fd7bba92988ba98f5dc155")]
MemberId = Annotated[str, meaning("The member, by the id that it has here.", "mbr_01a1fd7328fd7bba92988ba98f5dc156")]
Total = Annotated[int, meaning("All of them.", 12)]
Done = Annotated[int, meaning("Those that are done.", 12)]
Some = Annotated[int, meaning("How many.", 0)]


class CohortData(TypedDict):
    """A cohort; its members are never answered."""

    id: CohortId
    name: Annotated[str | None, meaning("Its name.", "Climate researchers")]
    member_count: Annotated[int, meaning("How many members it has.", 2)]
    retention_days: Annotated[int, meaning("Days for which it is kept after its last use.", 30)]
    created_at: Instant
    updated_at: Annotated[str, meaning("The last upload or query.", "2026-01-31T12:00:00.000Z")]
    expires_at: Annotated[str, meaning("It is destroyed then.", "2026-03-02T12:00:00.000Z")]


class MembersData(TypedDict):
    """How many members were added, changed and left alone."""

    inserted: Annotated[int, meaning("New ones.", 2)]
    updated: Annotated[int, meaning("Those that were given an external id.", 0)]
    unchanged: Annotated[int, meaning("Those that were members already.", 0)]
    member_count: Annotated[int, meaning("How many members there are now.", 2)]


class QueryProgress(TypedDict):
    """A query in numbers. A shard is some members, a route the list of one member's posts."""

    shards_total: Total
    shards_completed: Done
    shards_failed: Annotated[int, meaning("Those of which nothing came.", 0)]
    members_total: Total
    members_completed: Done
    routes_planned: Total
    routes_completed: Done
    pages_succeeded: Annotated[int, meaning("Pages that came, each of which is paid.", 12)]
    pages_failed: Annotated[int, meaning("Pages that their source failed to give.", 0)]
    matches: Annotated[int, meaning("Posts that match.", 3)]


class QueryData(TypedDict):
    """A query as it stands."""

    id: QueryId
    query_id: Annotated[str, meaning("The same id.", "cq_01a1fd7328fd7bba92988ba98f5dc155")]
    cohort_id: CohortId
    status: Annotated[Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"], shown("succeeded")]
    stopped_because: Annotated[str | None, meaning("The code of why it ended, where its shards do not say.", "owner")]
    member_count: Total
    shard_count: Total
    completed_shard_count: Done
    failed_shard_count: Some
    result_count: Annotated[int, meaning("Posts that match.", 3)]
    max_credits: Annotated[int, meaning("The bound that was sent.", 100)]
    estimated_credits: Annotated[int, meaning("The most that it may cost.", 24)]
    reserved_credits: Annotated[int, meaning("The same, held until it ends.", 24)]
    actual_credits: Annotated[int, meaning("The price of the pages that came.", 12)]
    refunded_credits: Annotated[int, meaning("The rest, given back at the end.", 12)]
    progress: QueryProgress
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    status_url: Annotated[str, meaning("The query.", "https://api.example.com/v1/cohort-queries/cq_01a1")]
    result_url: Annotated[str, meaning("Its results.", "https://api.example.com/v1/cohort-queries/cq_01a1/results")]


class CohortResult(TypedDict):
    """A post of a member in which a keyword stands."""

    query_id: QueryId
    member_id: MemberId
    external_id: Annotated[str | None, meaning("Your own id of the member.", "p-1")]
    platform: Annotated[str, meaning("The platform's slug.", "bluesky")]
    route: Annotated[str, meaning("The endpoint that gave it.", "bluesky/user/posts")]
    content_id: Annotated[str | None, meaning("The platform's id of the post.", "3k44deefqdk2g")]
    canonical_url: Annotated[str | None, meaning("Its page.", "https://bsky.app/profile/bsky.app/post/3k44deefqdk2g")]
    matched_keywords: Annotated[list[str], meaning("The keywords that stand in it, as they are compared.", ["acme"])]
    published_at: Instant
    retrieved_at: Instant
    text_excerpt: Annotated[str, meaning("Up to 1,000 characters around the first match.", "Acme is here.")]


class RouteError(TypedDict):
    """A page that did not come."""

    route: Annotated[str, meaning("The endpoint.", "bluesky/user/posts")]
    code: Annotated[str, meaning("The code that the call would have had alone.", "UPSTREAM_ERROR")]


class MemberCoverage(TypedDict):
    """How far the posts of a member were read."""

    query_id: QueryId
    member_id: MemberId
    external_id: Annotated[str | None, meaning("Your own id of the member.", "p-1")]
    platform: Annotated[str, meaning("The platform's slug.", "bluesky")]
    status: Literal["complete", "partial", "not_found", "unsupported", "failed"]
    window_complete: Annotated[bool, meaning("Whether all posts of the window were seen.")]
    oldest_seen: Annotated[
        str | None, meaning("The time of the oldest post that was read.", "2026-01-01T10:00:00.000Z")
    ]
    pages: Annotated[int, meaning("Pages that came.", 1)]
    route_errors: list[RouteError]


class CohortResultsData(TypedDict):
    """A page of results: members in their order, the posts of each, and its coverage behind them."""

    items: list[CohortResult]
    coverage: list[MemberCoverage]
    next_cursor: Annotated[str | None, meaning("As of `pagination`.", "cur_AQAAAAAAAAAB")]


class QueryDryRun(TypedDict):
    """The price of a query, which was not begun."""

    estimated_credits: Annotated[int, meaning("The most that it would cost.", 24)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_cohort"
_UNKNOWN_QUERY: Final = "RESOURCE_NOT_FOUND/unknown_cohort_query"
_UNSUPPORTED: Final = "COHORT_IDENTITY_PLATFORM_UNSUPPORTED/platform_unsupported"
_SEALED: Final = (
    "Names, members, keywords and results are sealed with a key of the cohort, which is destroyed with it. Answers are "
    "`private, no-store`.",
)
CREATE: Final = RouteDoc(
    "create_cohort",
    "Make a private panel of accounts, to search their posts.",
    CohortData,
    status=201,
    reasons=("COHORT_LIMIT_EXCEEDED/cohort_limit_reached",),
    once=True,
    notes=_SEALED,
    gives={"cohort_id": "/data/id"},
)
SHOW: Final = RouteDoc("get_cohort", "One cohort, without its members.", CohortData, reasons=(_UNKNOWN,))
DELETE: Final = RouteDoc(
    "delete_cohort",
    "Destroy a cohort with its key, members, queries and results.",
    status=204,
    reasons=(_UNKNOWN,),
    notes=("Queries that run are cancelled: shards that are done are paid for, and the rest goes back.",),
)
PUT_MEMBERS: Final = RouteDoc(
    "put_cohort_members",
    "Add up to 1,000 members to a cohort, which has at most 10,000.",
    MembersData,
    reasons=(
        _UNKNOWN,
        _UNSUPPORTED,
        "COHORT_MEMBER_LIMIT_EXCEEDED/member_limit_reached",
        "COHORT_IDENTITY_CONFLICT/identity_conflict",
    ),
    once=True,
    notes=("All members are taken, or none. An account counts once, however its handle is written.",),
)
BEGIN_QUERY: Final = RouteDoc(
    "begin_cohort_query",
    "Search the posts of a cohort's members for keywords.",
    QueryData,
    status=202,
    reasons=(
        _UNKNOWN,
        _UNSUPPORTED,
        "INVALID_REQUEST/above_max_credits",
        "INSUFFICIENT_CREDITS/balance_too_low",
        "KEY_BUDGET_EXCEEDED/key_budget_reached",
        "INVALID_REQUEST/job_limit_reached",
    ),
    once=True,
    notes=(
        "The most that it may cost is reserved at once: for each member so many pages as it may read. A page is paid "
        "for when it has come, and the rest goes back at the end. After a crash the query goes on with the first shard "
        "that is not done.",
        *_SEALED,
    ),
    price=(1, "1-200000 credits, metered", "The price of each page that came with posts."),
    billing_rules=(
        "A page without posts costs 0 credits.",
        "What was reserved and not used is refunded automatically.",
    ),
    gives={"query_id": "/data/query_id"},
    dry_run=QueryDryRun,
)
SHOW_QUERY: Final = RouteDoc(
    "get_cohort_query",
    "One query as it stands, or its progress as a stream.",
    QueryData,
    reasons=(_UNKNOWN_QUERY,),
    form="application/json text/event-stream",
    notes=(
        "With `Accept: text/event-stream` each change is a `progress` event, and `result` is the last, with the whole "
        "envelope. A stream ends after 15 minutes: follow the query again then.",
    ),
    streams={"progress": QueryData},
)
CANCEL_QUERY: Final = RouteDoc(
    "cancel_cohort_query",
    "End a query: shards that are done are paid for, the rest goes back.",
    status=204,
    reasons=(_UNKNOWN_QUERY, "COHORT_QUERY_NOT_CANCELLABLE/query_over"),
)
RESULTS: Final = RouteDoc(
    "get_cohort_query_results",
    "The posts that a query has found, and how far it came with each member.",
    CohortResultsData,
    reasons=(
        _UNKNOWN_QUERY,
        "COHORT_QUERY_NOT_READY/query_not_ready",
        "COHORT_RESULT_TOO_LARGE/result_too_large",
    ),
    notes=(
        "`limit` counts the rows of both lists. A page is shorter than 1,000,000 bytes, and may hold coverage alone.",
        *_SEALED,
    ),
)
