"""Reference texts for monitors and their history (spec 2.6, 4.5)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, MonitorId, RunId, meaning
from gateway.http.routing import RouteDoc
from scheduler.monitors.model.records import RunStatus

_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_monitor"
_UNKNOWN_RUN: Final = "RESOURCE_NOT_FOUND/unknown_run"


class WebhookView(TypedDict):
    """A monitor's webhook as its owner sees it."""

    url: Annotated[str, meaning("The URL that runs are delivered to.", "https://example.com/hook")]
    status: Literal["active", "paused"]
    failure_count: Annotated[int, meaning("Consecutive failed deliveries.", 0)]
    last_delivery_at: Instant | None
    signing_secret_hint: NotRequired[Annotated[str | None, meaning("The last characters of its secret.", "...x7Qa")]]


class MonitorView(TypedDict):
    """A monitor as its owner sees it."""

    id: MonitorId | None
    name: Annotated[str, meaning("The monitor's name.", "Followers of octocat")]
    recipe: Annotated[str, meaning("The endpoint that the monitor calls.", "github/profile")]
    params: Annotated[dict[str, Any], meaning("The recipe's parameters.", {"handle": "octocat"})]
    cadence: Annotated[str | dict[str, str], meaning("How often the monitor runs.", "daily")]
    status: Literal["active", "paused"]
    track: Annotated[dict[str, Any] | None, meaning("The numbers that it tracks.", {"metrics": ["author.followers"]})]
    alert_rules: Annotated[list[dict[str, Any]], meaning("Conditions that trigger an alert.", [])]
    suppress_webhook_unless_alert: Annotated[bool, meaning("Whether only alerts are delivered.")]
    webhook_format: Literal["full", "rows"]
    webhook: WebhookView | None
    rows_asked: Annotated[int | None, meaning("Rows that a run reads from a list.")]
    estimated_cost_per_run: Annotated[
        int | None, meaning("The credits that a run usually costs; null while its endpoint is unavailable.", 2)
    ]
    estimated_monthly_cost: Annotated[int | None, meaning("The usual credits per month.", 60)]
    max_cost_per_run: Annotated[int | None, meaning("The maximum cost of a run, in credits.", 2)]
    max_monthly_cost: Annotated[int | None, meaning("The maximum cost per month, in credits.", 60)]
    next_run_at: Instant | None
    warnings: Annotated[
        list[str],
        meaning("Problems with the configuration, and for a new monitor, possible higher costs.", []),
    ]
    runs_total: Annotated[int, meaning("Runs so far.", 3)]
    credits_spent: Annotated[int, meaning("Credits spent so far.", 6)]
    created_at: Instant
    updated_at: Instant


_AlertFrom = TypedDict(  # `from` is a Python keyword
    "_AlertFrom", {"from": Annotated[float | None, meaning("The previous value; null if there is none.", 19990)]}
)


class AlertView(_AlertFrom):
    """An alert that a run fired."""

    metric: Annotated[str, meaning("The path of the metric.", "author.followers")]
    op: Annotated[str, meaning("The comparison operator.", "gt")]
    to: Annotated[float | None, meaning("The new value.", 20001)]
    delta: Annotated[float | None, meaning("The change; null without a previous value.")]
    pct_change: Annotated[float | None, meaning("The change in percent.")]
    row_id: NotRequired[Annotated[str, meaning("The row of the metric.", "42")]]


class DeliveryState(TypedDict):
    """The state of a run's delivery."""

    attempts: Annotated[int, meaning("Attempts so far.", 1)]
    lastStatus: Annotated[int | None, meaning("The last status code from the receiver.", 200)]
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
    credits_used: Annotated[int, meaning("Credits that the run cost.", 2)]
    rows: Annotated[int | None, meaning("Rows that it read from a list.")]
    legs: Annotated[list[dict[str, Any]], meaning("The source that answered.", [])]
    alerts_fired: list[AlertView]
    warnings: Annotated[list[str], meaning("Notes on omitted data or on why the run failed.", [])]
    webhook_delivery: DeliveryState | None
    skip_reason: NotRequired[
        Annotated[
            str,
            meaning("Why the run was skipped or failed, as a code; `warnings` explains it.", "insufficient_credits"),
        ]
    ]
    result: NotRequired[Annotated[Any, meaning("With `include=result`: the stored `data` of the response.")]]
    numbers: NotRequired[Annotated[Any, meaning("With `include=numbers`: the tracked numbers by row.")]]
    deltas: NotRequired[Annotated[Any, meaning("With `include=numbers`: the changes in the numbers.")]]


class MonitorData(TypedDict):
    """One monitor."""

    monitor: MonitorView
    webhook_secret: NotRequired[Annotated[str, meaning("The secret of a first webhook, shown only once.", "whsec_...")]]


class MonitorCreated(TypedDict):
    """A new monitor. With `dry_run`, `data{valid, monitor}` instead."""

    monitor: MonitorView
    webhook_secret: Annotated[str | None, meaning("The webhook's signing secret, shown only once.", "whsec_...")]


class MonitorChecked(TypedDict):
    """A validated monitor that was not created."""

    valid: Annotated[bool, meaning("Always true, because invalid requests are rejected.")]
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
    metrics: Annotated[dict[str, float | None], meaning("The value of each metric.", {"author.followers": 17297})]


class RowPoint(TypedDict):
    """One value of one run."""

    t: Instant
    value: Annotated[float | None, meaning("The value.", 17297)]


class RowSeries(TypedDict):
    """The values of one row over time."""

    row_id: Annotated[str, meaning("The row; `_` for the page itself.", "_")]
    metric: Annotated[str, meaning("The path of the metric.", "author.followers")]
    points: list[RowPoint]


class TimeseriesData(TypedDict):
    """The tracked numbers of a monitor over time."""

    monitor_id: MonitorId
    metric_keys: Annotated[list[str], meaning("The available metrics.", ["author.followers"])]
    points: list[SeriesPoint]
    series: NotRequired[list[RowSeries]]
    series_truncated: NotRequired[Annotated[bool, meaning("Whether points were left out to limit the size.")]]
    _warnings: NotRequired[list[str]]


class FiredRun(TypedDict):
    """A run that would have triggered an alert."""

    run_id: RunId
    t: Instant
    alerts: list[AlertView]


class BacktestData(TypedDict):
    """The stored runs that would have triggered alerts."""

    monitor_id: MonitorId
    runs: Annotated[int, meaning("Runs that were checked.", 30)]
    runs_fired: Annotated[int, meaning("Runs that would have triggered an alert.", 1)]
    alerts_fired: Annotated[int, meaning("The total number of alerts.", 1)]
    truncated: Annotated[bool, meaning("Whether `fired` is incomplete.")]
    fired: list[FiredRun]


CREATE: Final = RouteDoc(
    "create_monitor",
    "Create a monitor.",
    MonitorCreated,
    description="Repeats a call on a cadence, stores its result or its numbers, and delivers runs to a webhook. "
    "`dry_run=1` validates and prices the monitor without creating it.",
    status=201,
    is_unwrapped=True,
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
DELETE: Final = RouteDoc("delete_monitor", "Delete a monitor and its runs.", status=204, reasons=(_UNKNOWN,))
RUN: Final = RouteDoc(
    "run_monitor",
    "Start a run now, at least 60 s after the last one.",
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
    "The numbers of the latest 1,000 runs as time series.",
    TimeseriesData,
    reasons=(_UNKNOWN,),
)
EXPORT: Final = RouteDoc(
    "export_monitor",
    "Download the numbers of the latest 1,000 runs, oldest first.",
    form="text/csv application/x-ndjson",
    reasons=(_UNKNOWN, "INVALID_REQUEST/no_numbers"),
)
CHART: Final = RouteDoc("draw_monitor", "A chart of one metric.", form="image/svg+xml", reasons=(_UNKNOWN,))
BACKTEST: Final = RouteDoc(
    "backtest_monitor", "Test alert rules on the stored runs.", BacktestData, reasons=(_UNKNOWN,)
)
