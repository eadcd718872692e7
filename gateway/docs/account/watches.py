"""Watches of the web, for their readers (decisions 21)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, RunId, meaning
from gateway.docs.account.monitors import WebhookView
from gateway.http.routing import RouteDoc

WatchId = Annotated[str, meaning("The monitor.", "wm_01a1fd7428fd7bba92988ba98f5dc154")]
_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_monitor"


class WebMonitorView(TypedDict):
    """A watch of a page or of a search as its owner sees it."""

    monitor_id: WatchId | None
    name: Annotated[str, meaning("Its name.", "Changes of https://example.com/")]
    mode: Literal["scrape", "search"]
    url: Annotated[str | None, meaning("The page; of a search, whose host's results count.", "https://example.com/")]
    query: Annotated[str | None, meaning("What is searched for.")]
    status: Literal["active", "paused"]
    cadence_minutes: Annotated[int | None, meaning("Minutes between checks.", 60)]
    schedule_cron: Annotated[str | None, meaning("The cron of its schedule, in place of minutes.")]
    timezone: Annotated[str | None, meaning("The timezone of that cron; null for UTC.")]
    ignore: Annotated[list[str], meaning("CSS selectors of what is not compared.", [".date"])]
    threshold: Annotated[float, meaning("The share of words up to which a difference is no change.", 0.0)]
    retention_days: Annotated[int, meaning("Days for which checks are kept.", 30)]
    webhook: WebhookView | None
    estimated_cost_per_check: Annotated[int | None, meaning("The credits that a check usually costs.", 2)]
    estimated_monthly_cost: Annotated[int | None, meaning("The same for 30 days.", 1440)]
    max_cost_per_check: Annotated[int | None, meaning("The most credits that a check may cost.", 2)]
    max_monthly_cost: Annotated[int | None, meaning("The same for 30 days.", 1440)]
    credits_booked: Annotated[int, meaning("Credits so far.", 6)]
    checks_total: Annotated[int, meaning("Checks so far, without those that were skipped.", 3)]
    next_check_at: Instant | None
    warnings: Annotated[
        list[str],
        meaning("What will not work as intended; for a new one, also that a run may cost more than usual.", []),
    ]
    created_at: Instant
    updated_at: Instant


class WebMonitorData(TypedDict):
    """One watch."""

    monitor: WebMonitorView
    webhook_secret: NotRequired[
        Annotated[str | None, meaning("The secret of a first webhook, shown this once.", "whsec_...")]
    ]


class WebMonitorChecked(TypedDict):
    """A watch that would be made."""

    valid: Annotated[bool, meaning("Always true: what is not valid is refused.")]
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
    credits_used: Annotated[int, meaning("Credits that it cost.", 2)]
    reason: Annotated[str | None, meaning("The code of why it failed or was skipped.", "robots_disallowed")]
    similarity: Annotated[float | None, meaning("The share of words that both texts have.", 0.98)]
    added: Annotated[list[str], meaning("Lines that came, up to 200.", ["Now 12 euros"])]
    removed: Annotated[list[str], meaning("Lines that went, up to 200.", ["Now 14 euros"])]
    added_total: Annotated[int, meaning("How many came.", 1)]
    removed_total: Annotated[int, meaning("How many went.", 1)]
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
    "Watch a page or a search, and be told what changes.",
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
        "Each check costs what `web/scrape` or `web/search` costs, and 1. The first one is what later ones are "
        "compared with. A change is told by the event `web.changed`, by the webhook, and by the checks.",
        "It counts as one of the plan's active Monitors. Deliveries and secrets of its webhook are those of "
        "`/v1/monitors/{monitor_id}`.",
    ),
)
SHOW: Final = RouteDoc("get_web_monitor", "One web monitor.", WebMonitorData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_web_monitor",
    "Pause a web monitor or let it go on, or change its schedule, name or webhook.",
    WebMonitorData,
    platform="web",
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_limit_reached", "INVALID_REQUEST/conflicting_params"),
)
DELETE: Final = RouteDoc(
    "delete_web_monitor", "Forget a web monitor with its checks.", status=204, platform="web", reasons=(_UNKNOWN,)
)
RUN: Final = RouteDoc(
    "run_web_monitor",
    "Check now.",
    WebCheckData,
    status=202,
    platform="web",
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_paused", "RATE_LIMITED/run_too_soon"),
    once=True,
)
CHECKS: Final = RouteDoc(
    "list_web_checks",
    "The checks of a web monitor, newest first, with what came and went.",
    WebChecksData,
    platform="web",
    reasons=(_UNKNOWN,),
)
