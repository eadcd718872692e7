"""Results of a monitor's runs: time series, downloads, charts and backtests of rules (spec 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import orjson

from gateway.api.responses import Replies, account_fragment
from gateway.api.routes.monitors import MONITOR, plain_id_of
from gateway.api.windows import WINDOW, window_of
from gateway.docs.account import monitors as docs
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.server.http1.fields import fields_of
from limits.long_reads import LongReads
from scheduler.errors import MonitorInvalid
from scheduler.monitors.history.projections import Projections, shown_backtest
from scheduler.monitors.history.timeseries import Chosen
from scheduler.monitors.metrics.numbers import PAGE
from scheduler.monitors.metrics.paths import suggest
from scheduler.monitors.metrics.rules import read_rules, stored_rules
from scheduler.monitors.metrics.shapes import ROW
from scheduler.monitors.metrics.tracking import Track, stored_track
from scheduler.monitors.model.body_fields import RULES
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.service import MonitorService
from upstreams.model.params import Param, Value

_ROW: Final = Param("row", "Only the row with this id; `_` is the page itself.", "_")
_SERIES: Final = (
    Param("metric", "Comma-separated metrics (default: all).", "total", length_max=4_096),
    _ROW,
    *WINDOW,
)
_CHART: Final = (Param("metric", "The metric to draw.", "total", required=True), _ROW, *WINDOW)
_EXPORT: Final = (
    Param("format", "The format of the download.", "csv", default="csv", choices=("csv", "ndjson")),
    *WINDOW,
)
_CONTENT_TYPES: Final = {"csv": b"text/csv; charset=utf-8; header=present", "ndjson": b"application/x-ndjson"}


def _meaning(param: Param) -> msgspec.Meta:
    return msgspec.Meta(description=param.description)


class BacktestBody(msgspec.Struct, frozen=True):
    """The rules to test (default: the monitor's own), and the window of runs to test them on."""

    alert_rules: Annotated[Any, RULES] = msgspec.UNSET
    from_: Annotated[str | None, _meaning(WINDOW[0])] = msgspec.field(default=None, name="from")
    to: Annotated[str | None, _meaning(WINDOW[1])] = None


class MonitorPastRoutes:
    """Serves the past runs of the caller's monitors. All its endpoints are free."""

    def __init__(
        self, monitors: MonitorService, projections: Projections, *, replies: Replies, reads: LongReads
    ) -> None:
        self._monitors = monitors
        self._reads = reads
        self._projections = projections
        self._replies = replies

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the endpoints for past runs."""
        return (
            Route(f"{MONITOR}/timeseries", self.timeseries, doc=docs.TIMESERIES, params=_SERIES),
            Route(f"{MONITOR}/export", self.export, doc=docs.EXPORT, params=_EXPORT),
            Route(f"{MONITOR}/chart.svg", self.chart, doc=docs.CHART, params=_CHART),
            Route(f"{MONITOR}/backtest", self.backtest, ("POST",), doc=docs.BACKTEST, body=BacktestBody),
        )

    async def timeseries(self, request: Request, caller: Caller) -> Reply:
        """Return the values of a monitor's runs and, for a numbers-only monitor, the series of each row."""
        values = read_free(request.query, _SERIES)
        monitor, window = await self._owned(request, caller), window_of(values)
        caller.hold(await self._reads.take(caller.key.account_id))
        data = await self._projections.timeseries(monitor, window, _chosen(values, monitor))
        return await self._replies.free(request, caller, account_fragment(request.path, orjson.Fragment(data)))

    async def export(self, request: Request, caller: Caller) -> Reply:
        """Return a download of the runs, which is sent while the runs are read."""
        values = read_free(request.query, _EXPORT)
        monitor, window, form = await self._owned(request, caller), window_of(values), str(values["format"])
        caller.hold(await self._reads.take(caller.key.account_id))
        pieces = await self._projections.export(monitor, window, as_csv=form == "csv")
        if pieces.is_empty and monitor.track is None:
            problem = "names a monitor whose results have no metric to export"
            suggestion = "Read them with GET .../runs?include=result."
            raise InvalidParam("monitor_id", problem, suggestion=suggestion, reason="no_numbers")
        name = f'attachment; filename="{monitor.id}.{form}"'.encode()
        headers = fields_of([(b"content-disposition", name), (b"x-content-type-options", b"nosniff")])
        reply = Reply(200, b"", headers, content_type=_CONTENT_TYPES[form], pieces=pieces)
        return await self._replies.bare(caller, reply)

    async def chart(self, request: Request, caller: Caller) -> Reply:
        """Return a chart of one metric."""
        values = read_free(request.query, _CHART)
        monitor, window = await self._owned(request, caller), window_of(values)
        metric, row = str(values["metric"]), values.get("row")
        _check_metrics([metric], monitor)
        if row is None and monitor.track is not None and metric.startswith(ROW):
            raise InvalidParam("row", f"is required, because {metric} has a value per row; timeseries lists the rows")
        caller.hold(await self._reads.take(caller.key.account_id))
        picture = await self._projections.chart(monitor, window, metric=metric, row=PAGE if row is None else str(row))
        # The SVG contains no scripts and its content security policy allows none, so opening it as a page is safe.
        headers = fields_of(
            [
                (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
                (b"cache-control", b"private, max-age=60"),
                (b"x-content-type-options", b"nosniff"),
            ]
        )
        reply = Reply(200, picture.encode(), headers, content_type=b"image/svg+xml; charset=utf-8")
        return await self._replies.bare(caller, reply)

    async def backtest(self, request: Request, caller: Caller) -> Reply:
        """Return the stored runs that would have triggered alerts."""
        read_free(request.query, ())
        sent = await read_json(request, BacktestBody)
        ends = {"from": sent.from_, "to": sent.to}
        window = window_of({name: text for name, text in ends.items() if text is not None})
        monitor = await self._owned(request, caller)
        if sent.alert_rules is msgspec.UNSET:
            rules = stored_rules(orjson.loads(monitor.alert_rules))
        else:
            rules = read_rules(sent.alert_rules, _track(monitor))
        caller.hold(await self._reads.take(caller.key.account_id))
        found = await self._projections.backtest(monitor, window, rules)
        data = {"monitor_id": monitor.id, **shown_backtest(found)}
        return await self._replies.free(request, caller, account_fragment(request.path, data))

    async def _owned(self, request: Request, caller: Caller) -> Monitor:
        return (await self._monitors.get(caller.key.account_id, plain_id_of(request))).monitor


def _chosen(values: Mapping[str, Value], monitor: Monitor) -> Chosen:
    metrics = [name for name in str(values.get("metric", "")).split(",") if name]
    _check_metrics(metrics, monitor)
    row = values.get("row")
    return Chosen(metrics or None, None if row is None else str(row))


def _check_metrics(metrics: list[str], monitor: Monitor) -> None:
    """Reject metrics that a numbers-only monitor does not track. Other monitors get their metrics from the runs."""
    track = _track(monitor)
    for metric in metrics:
        if track is not None and metric not in track.metrics:
            meant = suggest(metric, track.metrics)
            how = f"Send {meant.path}." if meant else f"Send one of {', '.join(track.metrics)}."
            near = meant.path if meant else None
            raise MonitorInvalid("metric", f"is not tracked: {metric[:200]}", how, did_you_mean=near)


def _track(monitor: Monitor) -> Track | None:
    return None if monitor.track is None else stored_track(orjson.loads(monitor.track))
