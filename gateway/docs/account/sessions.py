"""Sessions of the web, for their readers (decisions 17 and 21)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_session"
_OVER: Final = "INVALID_REQUEST/session_over"


class SessionCredits(TypedDict):
    """The money of a session. Once it is closed, `used` and `refunded` add up to `reserved`."""

    reserved: Annotated[int, meaning("The price of its whole time, held until it is closed.", 5)]
    used: Annotated[int, meaning("The price of the time that it was open.", 5)]
    refunded: Annotated[int, meaning("The rest, given back at its end.", 0)]


class SessionData(TypedDict):
    """A session as it stands."""

    session_id: Annotated[str, meaning("The session.", "ws_01a1fd7328fd7bba92988ba98f5dc154")]
    status: Literal["opening", "open", "closed"]
    closed_because: Annotated[
        Literal[
            "owner",
            "expired",
            "key_revoked",
            "browser_lost",
            "node_lost",
            "node_stopped",
            "failed",
            "account_deleted",
            "page_too_costly",
        ]
        | None,
        meaning("Why it is closed."),
    ]
    url: Annotated[str, meaning("The address that it began with.", "https://example.com/")]
    ttl_seconds: Annotated[int, meaning("The most that it may be open.", 60)]
    activity_ttl_seconds: Annotated[int | None, meaning("The most that may pass without an action.")]
    credits: SessionCredits
    created_at: Instant
    expires_at: Instant
    closed_at: Instant | None


class SessionsData(TypedDict):
    """A page of sessions, newest first."""

    items: list[SessionData]


class SessionDryRun(TypedDict):
    """The price of a session, which was not opened."""

    estimated_credits: Annotated[int, meaning("The most that it would cost.", 5)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


class ActionResult(TypedDict):
    """The result of one action."""

    type: Annotated[str, meaning("The action.", "click")]
    status: Annotated[Literal["ok", "failed", "skipped"], meaning("Those behind one that failed are skipped.", "ok")]
    error: Annotated[dict[str, Any] | None, meaning("Why it failed.", None)]


class ExecutionData(TypedDict):
    """The results of actions."""

    url: Annotated[str, meaning("The address at which the page is now.", "https://example.com/")]
    results: Annotated[
        list[ActionResult], meaning("One for each action; `page` of a scrape, `screenshot_url` of a picture.")
    ]


_SPENDS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
)
OPEN: Final = RouteDoc(
    "open_session",
    "Hold a page open in the operator's browser.",
    SessionData,
    status=201,
    platform="web",
    reasons=(
        *_SPENDS,
        "INVALID_REQUEST/session_limit_reached",
        "INVALID_REQUEST/capability_missing",
        "RESOURCE_NOT_FOUND/page_too_costly",
    ),
    once=True,
    price=(5, "5-20 credits, metered", "20 an hour, at least 5, by the time that it is open."),
    billing_rules=(
        "A session that cannot be opened costs 0 credits.",
        "What was reserved and not used is refunded automatically.",
    ),
    gives={"session_id": "/data/session_id"},
    sample={"status": "open", "closed_because": None, "closed_at": None},
    dry_run=SessionDryRun,
    notes=(
        "The price of `ttl_seconds` is reserved at once; at the end the time that was open is paid for, and the rest "
        "goes back. A page that cannot be opened costs nothing, one that is too costly 5 credits.",
        "It is closed for certain: by its owner, when its time is up, or when its node or browser dies.",
    ),
)
LIST: Final = RouteDoc("list_sessions", "The account's sessions, newest first.", SessionsData, platform="web")
SHOW: Final = RouteDoc("get_session", "One session as it stands.", SessionData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_session",
    "Give a session another time, counted from its beginning.",
    SessionData,
    platform="web",
    reasons=(_UNKNOWN, _OVER, *_SPENDS),
    notes=("More time is reserved at once; what is not used goes back at the end.",),
)
CLOSE: Final = RouteDoc(
    "close_session",
    "Close a session: its time is paid for, the rest goes back.",
    SessionData,
    platform="web",
    reasons=(_UNKNOWN,),
)
EXECUTE: Final = RouteDoc(
    "execute_in_session",
    "Do up to 20 things in a session's page, one after the other.",
    ExecutionData,
    platform="web",
    reasons=(_UNKNOWN, _OVER, "RESOURCE_NOT_FOUND/page_too_costly"),
    once=True,
    notes=(
        "Nothing is done behind an action that fails, which the results tell. An element is waited for up to 5 "
        "seconds, and a page until it has come to rest.",
        "It costs nothing beside the session's time, and takes 50 seconds at most.",
    ),
)
