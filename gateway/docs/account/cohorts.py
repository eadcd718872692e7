"""Reference texts for cohorts and their queries (spec 4.6, decisions 14 and 20)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.http.routing import RouteDoc

CohortId = Annotated[str, meaning("The cohort.", "coh_01a1fd7328fd7bba92988ba98f5dc154")]
QueryId = Annotated[str, meaning("The query.", "cq_01a1fd7328fd7bba92988ba98f5dc155")]
MemberId = Annotated[str, meaning("The member's id in Sluice.", "mbr_01a1fd7328fd7bba92988ba98f5dc156")]
Total = Annotated[int, meaning("The total number.", 12)]
Done = Annotated[int, meaning("The number completed.", 12)]
Some = Annotated[int, meaning("The number of failures.", 0)]


class CohortData(TypedDict):
    """A cohort. Its members are never returned."""

    id: CohortId
    name: Annotated[str | None, meaning("The cohort's name.", "Climate researchers")]
    member_count: Annotated[int, meaning("The number of members.", 2)]
    retention_days: Annotated[int, meaning("Days until an unused cohort is deleted.", 30)]
    created_at: Instant
    updated_at: Annotated[str, meaning("The time of the last upload or query.", "2026-01-31T12:00:00.000Z")]
    expires_at: Annotated[str, meaning("When the cohort will be destroyed.", "2026-03-02T12:00:00.000Z")]


class MembersData(TypedDict):
    """How many members an upload added, changed or left unchanged."""

    inserted: Annotated[int, meaning("Members added.", 2)]
    updated: Annotated[int, meaning("Members that received an external id.", 0)]
    unchanged: Annotated[int, meaning("Accounts that were already members.", 0)]
    member_count: Annotated[int, meaning("The number of members after the upload.", 2)]


class QueryProgress(TypedDict):
    """Progress counts. A shard is a group of members; a route is the list of one member's posts."""

    shards_total: Total
    shards_completed: Done
    shards_failed: Annotated[int, meaning("Shards that returned nothing.", 0)]
    members_total: Total
    members_completed: Done
    routes_planned: Total
    routes_completed: Done
    pages_succeeded: Annotated[int, meaning("Pages that were read. Each one is billed.", 12)]
    pages_failed: Annotated[int, meaning("Pages that the source failed to return.", 0)]
    matches: Annotated[int, meaning("Posts that match a keyword.", 3)]


class QueryData(TypedDict):
    """The current state of a query."""

    id: QueryId
    query_id: Annotated[str, meaning("The same value as `id`.", "cq_01a1fd7328fd7bba92988ba98f5dc155")]
    cohort_id: CohortId
    status: Annotated[Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"], shown("succeeded")]
    stopped_because: Annotated[
        str | None, meaning("The reason code, if the query's shards do not show why it ended.", "owner")
    ]
    member_count: Total
    shard_count: Total
    completed_shard_count: Done
    failed_shard_count: Some
    result_count: Annotated[int, meaning("Posts that match a keyword.", 3)]
    max_credits: Annotated[int, meaning("The `max_credits` of the request.", 100)]
    estimated_credits: Annotated[int, meaning("The maximum cost of the query.", 24)]
    reserved_credits: Annotated[int, meaning("Reserved until the query ends.", 24)]
    actual_credits: Annotated[int, meaning("The price of the pages that were read.", 12)]
    refunded_credits: Annotated[int, meaning("Unused credits, refunded when the query ends.", 12)]
    progress: QueryProgress
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    status_url: Annotated[str, meaning("The URL of the query.", "https://api.example.com/v1/cohort-queries/cq_01a1")]
    result_url: Annotated[
        str, meaning("The URL of the results.", "https://api.example.com/v1/cohort-queries/cq_01a1/results")
    ]


class CohortResult(TypedDict):
    """A member's post that contains a keyword."""

    query_id: QueryId
    member_id: MemberId
    external_id: Annotated[str | None, meaning("Your own id for the member.", "p-1")]
    platform: Annotated[str, meaning("The platform's slug.", "bluesky")]
    route: Annotated[str, meaning("The endpoint that returned the post.", "bluesky/user/posts")]
    content_id: Annotated[str | None, meaning("The post's id on the platform.", "3k44deefqdk2g")]
    canonical_url: Annotated[
        str | None, meaning("The post's URL.", "https://bsky.app/profile/bsky.app/post/3k44deefqdk2g")
    ]
    matched_keywords: Annotated[list[str], meaning("The keywords found, in normalized form.", ["acme"])]
    published_at: Instant
    retrieved_at: Instant
    text_excerpt: Annotated[str, meaning("Up to 1,000 characters around the first match.", "Acme is here.")]


class RouteError(TypedDict):
    """A page that could not be read."""

    route: Annotated[str, meaning("The endpoint.", "bluesky/user/posts")]
    code: Annotated[str, meaning("The error code that a direct call would return.", "UPSTREAM_ERROR")]


class MemberCoverage(TypedDict):
    """How far the posts of a member were read."""

    query_id: QueryId
    member_id: MemberId
    external_id: Annotated[str | None, meaning("Your own id for the member.", "p-1")]
    platform: Annotated[str, meaning("The platform's slug.", "bluesky")]
    status: Literal["complete", "partial", "not_found", "unsupported", "failed"]
    window_complete: Annotated[bool, meaning("Whether all posts in the window were read.")]
    oldest_seen: Annotated[str | None, meaning("The time of the oldest post read.", "2026-01-01T10:00:00.000Z")]
    pages: Annotated[int, meaning("Pages that were read.", 1)]
    route_errors: list[RouteError]


class CohortResultsData(TypedDict):
    """A page of results, member by member: first the member's posts, then its coverage."""

    items: list[CohortResult]
    coverage: list[MemberCoverage]
    next_cursor: Annotated[str | None, meaning("The same value as in `pagination`.", "cur_AQAAAAAAAAAB")]


class QueryDryRun(TypedDict):
    """The price of a query, without starting it."""

    estimated_credits: Annotated[int, meaning("The maximum cost of the query.", 24)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_cohort"
_UNKNOWN_QUERY: Final = "RESOURCE_NOT_FOUND/unknown_cohort_query"
_UNSUPPORTED: Final = "COHORT_IDENTITY_PLATFORM_UNSUPPORTED/platform_unsupported"
_SEALED: Final = (
    "Names, members, keywords and results are encrypted with a key of the cohort, which is destroyed with it. "
    "Responses are `private, no-store`.",
)
CREATE: Final = RouteDoc(
    "create_cohort",
    "Create a private list of accounts whose posts you can search.",
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
    notes=("Running queries are cancelled: finished shards are billed, and the rest is refunded.",),
)
PUT_MEMBERS: Final = RouteDoc(
    "put_cohort_members",
    "Add up to 1,000 members to a cohort (at most 10,000 in total).",
    MembersData,
    reasons=(
        _UNKNOWN,
        _UNSUPPORTED,
        "COHORT_MEMBER_LIMIT_EXCEEDED/member_limit_reached",
        "COHORT_IDENTITY_CONFLICT/identity_conflict",
    ),
    once=True,
    notes=("Either all members are added or none. Different spellings of a handle count as one account.",),
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
        "The maximum cost is reserved when the query starts: for each member, the price of the pages it may read. Each "
        "page is billed when it has been read, and the rest is refunded at the end. After a crash, the query resumes "
        "with the first unfinished shard.",
        *_SEALED,
    ),
    price=(1, "1-200000 credits, metered", "The price of each page that contains posts."),
    billing_rules=(
        "A page without posts costs 0 credits.",
        "Reserved credits that are not used are refunded automatically.",
    ),
    gives={"query_id": "/data/query_id"},
    dry_run=QueryDryRun,
)
SHOW_QUERY: Final = RouteDoc(
    "get_cohort_query",
    "The current state of a query, or a stream of its progress.",
    QueryData,
    reasons=(_UNKNOWN_QUERY,),
    form="application/json text/event-stream",
    notes=(
        "With `Accept: text/event-stream`, each change is sent as a `progress` event. The last event is `result`, with "
        "the whole envelope. A stream ends after 15 minutes; reconnect to continue.",
    ),
    streams={"progress": QueryData},
)
CANCEL_QUERY: Final = RouteDoc(
    "cancel_cohort_query",
    "Cancel a query. Finished shards are billed, and the rest is refunded.",
    status=204,
    reasons=(_UNKNOWN_QUERY, "COHORT_QUERY_NOT_CANCELLABLE/query_over"),
)
RESULTS: Final = RouteDoc(
    "get_cohort_query_results",
    "The posts that a query found, and each member's coverage.",
    CohortResultsData,
    reasons=(
        _UNKNOWN_QUERY,
        "COHORT_QUERY_NOT_READY/query_not_ready",
        "COHORT_RESULT_TOO_LARGE/result_too_large",
    ),
    notes=(
        "`limit` applies to both lists together. A page is under 1,000,000 bytes and may contain only coverage.",
        *_SEALED,
    ),
)
