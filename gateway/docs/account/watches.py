"""Reference texts for web monitors, which the code calls watches (decisions 21)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, RunId, meaning
from gateway.docs.account.monitors import WebhookView
from gateway.http.routing import RouteDoc

WatchId = Annotated[str, meaning("The monitor.", "wm_01a1fd7428fd7bba92988ba98f5dc154")]
_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_monitor"


class WebMonitorView(TypedDict):
    """A watch on a page or a search, as its owner sees it."""

    monitor_id: WatchId | None
    name: Annotated[str, meaning("The monitor's name.", "Changes to https://example.com/")]
    mode: Literal["scrape", "search"]
    url: Annotated[
        str | None, meaning("The page. For a search, only results from its host count.", "https://example.com/")
    ]
    query: Annotated[str | None, meaning("The search query.")]
    status: Literal["active", "paused"]
    cadence_minutes: Annotated[int | None, meaning("Minutes between checks.", 60)]
    schedule_cron: Annotated[str | None, meaning("The cron expression of its schedule, instead of minutes.")]
    timezone: Annotated[str | None, meaning("The time zone of the cron expression; null for UTC.")]
    ignore: Annotated[list[str], meaning("CSS selectors of parts to ignore.", [".date"])]
    threshold: Annotated[float, meaning("Differences up to this share of words are ignored.", 0.0)]
    retention_days: Annotated[int, meaning("Days until a check is deleted.", 30)]
    webhook: WebhookView | None
    estimated_cost_per_check: Annotated[int | None, meaning("The credits that a check usually costs.", 2)]
    estimated_monthly_cost: Annotated[int | None, meaning("The usual credits per 30 days.", 1440)]
    max_cost_per_check: Annotated[int | None, meaning("The maximum cost of a check, in credits.", 2)]
    max_monthly_cost: Annotated[int | None, meaning("The maximum cost per 30 days, in credits.", 1440)]
    credits_booked: Annotated[int, meaning("Credits spent so far.", 6)]
    checks_total: Annotated[int, meaning("Checks so far, without skipped ones.", 3)]
    next_check_at: Instant | None
    warnings: Annotated[
        list[str],
        meaning("Problems with the configuration, and for a new monitor, possible higher costs.", []),
    ]
    created_at: Instant
    updated_at: Instant


class WebMonitorData(TypedDict):
    """One watch."""

    monitor: WebMonitorView
    webhook_secret: NotRequired[
        Annotated[str | None, meaning("The secret of the first webhook, shown only once.", "whsec_...")]
    ]


class WebMonitorChecked(TypedDict):
    """A validated watch that was not created."""

    valid: Annotated[bool, meaning("Always true, because invalid requests are rejected.")]
    monitor: WebMonitorView


class WebMonitorsData(TypedDict):
    """A page of watches, newest first."""

    items: list[WebMonitorView]


class WebCheckView(TypedDict):
    """One check of a watch."""

    check_id: RunId
    status: Literal["pending", "running", "first", "same", "changed", "failed", "skipped"]
    scheduled_for: Instant
    finished_at: Instant | None
    credits_used: Annotated[int, meaning("Credits that the check cost.", 2)]
    reason: Annotated[str | None, meaning("Why the check failed or was skipped, as a code.", "robots_disallowed")]
    similarity: Annotated[float | None, meaning("The share of words that both texts have in common.", 0.98)]
    added: Annotated[list[str], meaning("Added lines, up to 200.", ["Now 12 euros"])]
    removed: Annotated[list[str], meaning("Removed lines, up to 200.", ["Now 14 euros"])]
    added_total: Annotated[int, meaning("The number of added lines.", 1)]
    removed_total: Annotated[int, meaning("The number of removed lines.", 1)]
    delivered_at: Instant | None


class WebCheckData(TypedDict):
    """One check."""

    check: WebCheckView


class WebChecksData(TypedDict):
    """A page of checks, newest first."""

    items: list[WebCheckView]


LIST: Final = RouteDoc(
    "list_web_monitors", "The account's web monitors, newest first.", WebMonitorsData, platform="web"
)
CREATE: Final = RouteDoc(
    "create_web_monitor",
    "Watch a page or a search and receive its changes.",
    WebMonitorData,
    status=201,
    platform="web",
    reasons=(
        "INVALID_REQUEST/monitor_limit_reached",
        "INVALID_REQUEST/capability_missing",
        "INVALID_REQUEST/conflicting_params",
    ),
    once=True,
    gives={"monitor_id": "/data/monitor/monitor_id"},
    dry_run=WebMonitorChecked,
    notes=(
        "Each check costs the price of `web/scrape` or `web/search` plus 1 credit. Each check is compared with the "
        "last reported text. The event `web.changed`, the webhook and the list of checks report each change.",
        "A web monitor counts towards the plan's active Monitors. The routes of `/v1/monitors/{monitor_id}` show its "
        "deliveries and change its webhook secret.",
    ),
)
SHOW: Final = RouteDoc("get_web_monitor", "One web monitor.", WebMonitorData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_web_monitor",
    "Pause or resume a web monitor, or change its schedule, name or webhook.",
    WebMonitorData,
    platform="web",
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_limit_reached", "INVALID_REQUEST/conflicting_params"),
)
DELETE: Final = RouteDoc(
    "delete_web_monitor", "Delete a web monitor and its checks.", status=204, platform="web", reasons=(_UNKNOWN,)
)
RUN: Final = RouteDoc(
    "run_web_monitor",
    "Run a check now.",
    WebCheckData,
    status=202,
    platform="web",
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_paused", "RATE_LIMITED/run_too_soon"),
    once=True,
)
CHECKS: Final = RouteDoc(
    "list_web_checks",
    "The checks of a web monitor, newest first, with added and removed lines.",
    WebChecksData,
    platform="web",
    reasons=(_UNKNOWN,),
)
