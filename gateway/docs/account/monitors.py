"""Monitors and their past, for their readers (spec 2.6, 4.5)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, MonitorId, RunId, meaning
from gateway.http.routing import RouteDoc
from scheduler.monitors.model.records import RunStatus

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_monitor"
_UNKNOWN_RUN: Final = "RESOURCE_NOT_FOUND/unknown_run"


class WebhookView(TypedDict):
    """A monitor's webhook as its owner sees it."""

    url: Annotated[str, meaning("The address that runs are delivered to.", "https://example.com/hook")]
    status: Literal["active", "paused"]
    failure_count: Annotated[int, meaning("Deliveries that failed in a row.", 0)]
    last_delivery_at: Instant | None
    signing_secret_hint: NotRequired[Annotated[str | None, meaning("The end of its secret.", "...x7Qa")]]


class MonitorView(TypedDict):
    """A monitor as its owner sees it."""

    id: MonitorId | None
    name: Annotated[str, meaning("Its name.", "Followers of octocat")]
    recipe: Annotated[str, meaning("The endpoint that it repeats.", "github/profile")]
    params: Annotated[dict[str, Any], meaning("The recipe's parameters.", {"handle": "octocat"})]
    cadence: Annotated[str | dict[str, str], meaning("How often it runs.", "daily")]
    status: Literal["active", "paused"]
    track: Annotated[dict[str, Any] | None, meaning("The numbers that it keeps.", {"metrics": ["author.followers"]})]
    alert_rules: Annotated[list[dict[str, Any]], meaning("When a run counts as an alert.", [])]
    suppress_webhook_unless_alert: Annotated[bool, meaning("Whether only alerts are delivered.")]
    webhook_format: Literal["full", "rows"]
    webhook: WebhookView | None
    rows_asked: Annotated[int | None, meaning("Rows that a run reads, of a list.")]
    estimated_cost_per_run: Annotated[
        int | None, meaning("The credits that a run usually costs; null while its recipe cannot run.", 2)
    ]
    estimated_monthly_cost: Annotated[int | None, meaning("The same for a month.", 60)]
    max_cost_per_run: Annotated[int | None, meaning("The most credits that a run may cost.", 2)]
    max_monthly_cost: Annotated[int | None, meaning("The same for a month.", 60)]
    next_run_at: Instant | None
    warnings: Annotated[
        list[str],
        meaning("What will not work as intended; for a new one, also that a run may cost more than usual.", []),
    ]
    runs_total: Annotated[int, meaning("Runs so far.", 3)]
    credits_spent: Annotated[int, meaning("Credits so far.", 6)]
    created_at: Instant
    updated_at: Instant


_AlertFrom = TypedDict(  # `from` is a word of Python's
    "_AlertFrom", {"from": Annotated[float | None, meaning("The number before; null without one.", 19990)]}
)


class AlertView(_AlertFrom):
    """An alert that a run fired."""

    metric: Annotated[str, meaning("The path of the number.", "author.followers")]
    op: Annotated[str, meaning("How it was compared.", "gt")]
    to: Annotated[float | None, meaning("The number.", 20001)]
    delta: Annotated[float | None, meaning("How it changed; null without a number before.")]
    pct_change: Annotated[float | None, meaning("The change in percent.")]
    row_id: NotRequired[Annotated[str, meaning("The row that it belongs to.", "42")]]


class DeliveryState(TypedDict):
    """How a run's delivery stands."""

    attempts: Annotated[int, meaning("Attempts so far.", 1)]
    lastStatus: Annotated[int | None, meaning("The status that the receiver answered last.", 200)]
    deliveredAt: Instant | None
    failedAt: Instant | None


class RunView(TypedDict):
    """One run of a monitor."""

    run_id: RunId
    monitor_id: MonitorId
    status: RunStatus
    scheduled_for: Instant
    started_at: Instant | None
    finished_at: Instant | None
    credits_used: Annotated[int, meaning("Credits that it cost.", 2)]
    rows: Annotated[int | None, meaning("Rows of a list that it read.")]
    legs: Annotated[list[dict[str, Any]], meaning("Which source answered.", [])]
    alerts_fired: list[AlertView]
    warnings: Annotated[list[str], meaning("Lines on what was left out, or why it failed.", [])]
    webhook_delivery: DeliveryState | None
    skip_reason: NotRequired[
        Annotated[
            str, meaning("The code of why it was skipped or failed; `warnings` has the words.", "insufficient_credits")
        ]
    ]
    result: NotRequired[Annotated[Any, meaning("The stored `data` of the recipe, with `include=result`.")]]
    numbers: NotRequired[Annotated[Any, meaning("The tracked numbers by row, with `include=numbers`.")]]
    deltas: NotRequired[Annotated[Any, meaning("How they changed, with `include=numbers`.")]]


class MonitorData(TypedDict):
    """One monitor."""

    monitor: MonitorView
    webhook_secret: NotRequired[Annotated[str, meaning("The secret of a first webhook, shown this once.", "whsec_...")]]


class MonitorCreated(TypedDict):
    """A new monitor; with `dry_run` instead `data{valid, monitor}`."""

    monitor: MonitorView
    webhook_secret: Annotated[str | None, meaning("The webhook's signing secret, shown this once.", "whsec_...")]


class MonitorChecked(TypedDict):
    """A monitor that would be made."""

    valid: Annotated[bool, meaning("Always true: what is not valid is refused.")]
    monitor: MonitorView


class MonitorsData(TypedDict):
    """A page of monitors."""

    items: list[MonitorView]


class OneRunData(TypedDict):
    """One run."""

    run: RunView


class RunsData(TypedDict):
    """A page of runs."""

    items: list[RunView]


class SeriesPoint(TypedDict):
    """The numbers of one run."""

    t: Instant
    metrics: Annotated[dict[str, float | None], meaning("A number for each metric.", {"author.followers": 17297})]


class RowPoint(TypedDict):
    """One number of one run."""

    t: Instant
    value: Annotated[float | None, meaning("The number.", 17297)]


class RowSeries(TypedDict):
    """The numbers of one row, run after run."""

    row_id: Annotated[str, meaning("The row; `_` is the page itself.", "_")]
    metric: Annotated[str, meaning("The path of the number.", "author.followers")]
    points: list[RowPoint]


class TimeseriesData(TypedDict):
    """The numbers of a monitor's runs in time."""

    monitor_id: MonitorId
    metric_keys: Annotated[list[str], meaning("The metrics that there are.", ["author.followers"])]
    points: list[SeriesPoint]
    series: NotRequired[list[RowSeries]]
    series_truncated: NotRequired[Annotated[bool, meaning("There are more points than an answer holds.")]]
    _warnings: NotRequired[list[str]]


class FiredRun(TypedDict):
    """A run on which rules would have fired."""

    run_id: RunId
    t: Instant
    alerts: list[AlertView]


class BacktestData(TypedDict):
    """When rules would have fired on the stored runs."""

    monitor_id: MonitorId
    runs: Annotated[int, meaning("Runs that were looked at.", 30)]
    runs_fired: Annotated[int, meaning("Runs on which a rule would have fired.", 1)]
    alerts_fired: Annotated[int, meaning("Alerts in all.", 1)]
    truncated: Annotated[bool, meaning("Whether `fired` leaves some out.")]
    fired: list[FiredRun]


CREATE: Final = RouteDoc(
    "create_monitor",
    "Make a monitor.",
    MonitorCreated,
    description="Repeats a call on a cadence, keeps its result or its numbers, and delivers runs to a webhook. "
    "`dry_run=1` validates and prices it without making it.",
    status=201,
    beside=True,
    dry_run=MonitorChecked,
    gives={"monitor_id": "/monitor/id"},
    once=True,
    reasons=("INVALID_REQUEST/monitor_limit_reached",),
)
LIST: Final = RouteDoc("list_monitors", "The account's monitors, newest first.", MonitorsData)
SHOW: Final = RouteDoc("get_monitor", "One monitor.", MonitorData, reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "update_monitor",
    "Change, pause or resume a monitor.",
    MonitorData,
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_limit_reached"),
)
DELETE: Final = RouteDoc("delete_monitor", "Forget a monitor with its runs.", status=204, reasons=(_UNKNOWN,))
RUN: Final = RouteDoc(
    "run_monitor",
    "Begin a run now, at least 60 s after the last.",
    OneRunData,
    status=202,
    once=True,
    gives={"run_id": "/data/run/run_id"},
    reasons=(_UNKNOWN, "INVALID_REQUEST/monitor_paused", "RATE_LIMITED/run_too_soon"),
)
RUNS: Final = RouteDoc("list_runs", "A monitor's runs, newest first.", RunsData, reasons=(_UNKNOWN,))
SHOW_RUN: Final = RouteDoc("get_run", "One run of a monitor.", OneRunData, reasons=(_UNKNOWN, _UNKNOWN_RUN))
TIMESERIES: Final = RouteDoc(
    "get_timeseries",
    "The numbers of the newest 1,000 runs as series.",
    TimeseriesData,
    reasons=(_UNKNOWN,),
)
EXPORT: Final = RouteDoc(
    "export_monitor",
    "The numbers of the newest 1,000 runs as a download, oldest first.",
    form="text/csv application/x-ndjson",
    reasons=(_UNKNOWN, "INVALID_REQUEST/no_numbers"),
)
CHART: Final = RouteDoc("draw_monitor", "The picture of one metric.", form="image/svg+xml", reasons=(_UNKNOWN,))
BACKTEST: Final = RouteDoc(
    "backtest_monitor", "When alert rules would have fired on the stored runs.", BacktestData, reasons=(_UNKNOWN,)
)
