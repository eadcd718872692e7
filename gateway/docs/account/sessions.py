"""Reference texts for web sessions (decisions 17 and 21)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_session"
_OVER: Final = "INVALID_REQUEST/session_over"


class SessionCredits(TypedDict):
    """The credits of a session. Once it is closed, `used` plus `refunded` equals `reserved`."""

    reserved: Annotated[int, meaning("The price of the full `ttl_seconds`, reserved until the session closes.", 5)]
    used: Annotated[int, meaning("The price of the time that the session was open.", 5)]
    refunded: Annotated[int, meaning("Unused credits, refunded when the session closes.", 0)]


class SessionData(TypedDict):
    """The current state of a session."""

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
        meaning("Why the session closed."),
    ]
    url: Annotated[str, meaning("The URL that the session was opened with.", "https://example.com/")]
    ttl_seconds: Annotated[int, meaning("Maximum lifetime in seconds.", 60)]
    activity_ttl_seconds: Annotated[int | None, meaning("Maximum number of seconds without an action.")]
    credits: SessionCredits
    created_at: Instant
    expires_at: Instant
    closed_at: Instant | None


class SessionsData(TypedDict):
    """A page of sessions, newest first."""

    items: list[SessionData]


class SessionDryRun(TypedDict):
    """The price of a session, without opening it."""

    estimated_credits: Annotated[int, meaning("The maximum cost of the session.", 5)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


class ActionResult(TypedDict):
    """The result of one action."""

    type: Annotated[str, meaning("The action.", "click")]
    status: Annotated[Literal["ok", "failed", "skipped"], meaning("Actions after a failed one are skipped.", "ok")]
    error: Annotated[dict[str, Any] | None, meaning("Why the action failed.", None)]


class ExecutionData(TypedDict):
    """The results of actions."""

    url: Annotated[str, meaning("The current URL of the page.", "https://example.com/")]
    results: Annotated[
        list[ActionResult],
        meaning("One for each action; a scrape has `page`, a screenshot has `screenshot_url`."),
    ]


_SPENDS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
)
OPEN: Final = RouteDoc(
    "open_session",
    "Open a page in the operator's browser and keep it open.",
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
    price=(5, "5-20 credits, metered", "20 per hour that the session is open, at least 5."),
    billing_rules=(
        "A session that cannot be opened costs 0 credits.",
        "Reserved credits that are not used are refunded automatically.",
    ),
    gives={"session_id": "/data/session_id"},
    sample={"status": "open", "closed_because": None, "closed_at": None},
    dry_run=SessionDryRun,
    notes=(
        "The price of `ttl_seconds` is reserved when the session opens. At the end, the time used is billed and the "
        "rest is refunded. A page that cannot be opened costs nothing; a page that is too costly costs 5 credits.",
        "A session always closes: when its owner closes it, when its time is up, or when its node or browser fails.",
    ),
)
LIST: Final = RouteDoc("list_sessions", "The account's sessions, newest first.", SessionsData, platform="web")
SHOW: Final = RouteDoc("get_session", "The state of a session.", SessionData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_session",
    "Change the lifetime of a session, counted from its start.",
    SessionData,
    platform="web",
    reasons=(_UNKNOWN, _OVER, *_SPENDS),
    notes=("Additional time is reserved immediately; unused credits are refunded at the end.",),
)
CLOSE: Final = RouteDoc(
    "close_session",
    "Close a session. The time used is billed, and the rest is refunded.",
    SessionData,
    platform="web",
    reasons=(_UNKNOWN,),
)
EXECUTE: Final = RouteDoc(
    "execute_in_session",
    "Run up to 20 actions in a session's page, in order.",
    ExecutionData,
    platform="web",
    reasons=(_UNKNOWN, _OVER, "RESOURCE_NOT_FOUND/page_too_costly"),
    once=True,
    notes=(
        "If an action fails, the actions after it are skipped, as the results show. An action waits up to 5 "
        "seconds for its element, and then until the page has settled.",
        "Actions cost nothing in addition to the session's time, and take at most 50 seconds.",
    ),
)
