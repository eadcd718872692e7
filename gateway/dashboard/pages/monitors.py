"""Monitors: the list, and one Monitor with runs, charts, alerts, deliveries and changes (spec 2.6, 3; decisions 12)."""

from __future__ import annotations

from typing import Any, Final

import orjson
from quart import Response, request
from quart_trio import QuartTrio

from gateway.api.monitor_records import run_record
from gateway.dashboard.address import PREFIX
from gateway.dashboard.downloads import long_download
from gateway.dashboard.forms import fields
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.pages.alert_rules import beside_row, rows_of, sent_rules
from gateway.dashboard.pages.deliveries import read_log
from gateway.dashboard.pages.monitor_making import MonitorMaking
from gateway.dashboard.services import Services
from gateway.http.codes import sentence
from scheduler.errors import MonitorInvalid, MonitorLimitReached, MonitorPaused, MonitorUnknown, RunTooSoon
from scheduler.monitors.changes import View
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.history.timeseries import Chosen
from scheduler.monitors.metrics.rules import RULES_MAX
from scheduler.monitors.model.patch import PatchBody
from scheduler.webhooks.errors import DeliveryUnknown, RedeliveryRefused, WebhookUnknown

MONITORS: Final = f"{PREFIX}/monitors"
RUNS: Final = 25
LIST_MAX: Final = 100
_METRICS_MAX: Final = 100
_ROWS_MAX: Final = 100


class MonitorPages:
    """The pages of an account's Monitors."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._monitors = services.monitors
        self._frame = frame
        self._making = MonitorMaking(services, frame)

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        one = f"{MONITORS}/<monitor_id>"
        app.add_url_rule(MONITORS, "monitors", self.page)
        app.add_url_rule(MONITORS, "create_monitor", self._making.create, methods=["POST"])
        app.add_url_rule(f"{MONITORS}/new", "new_monitor", self._making.page)
        app.add_url_rule(one, "monitor", self.show)
        app.add_url_rule(f"{one}/chart.svg", "monitor_chart", self.chart)
        app.add_url_rule(f"{one}/numbers.csv", "monitor_numbers", self.numbers)
        for deed in (self.status, self.run, self.delete, self.webhook, self.alerts, self.resume, self.rotate):
            app.add_url_rule(f"{one}/{deed.__name__}", f"monitor_{deed.__name__}", deed, methods=["POST"])
        app.add_url_rule(f"{one}/deliveries/<delivery_id>/redeliver", "redeliver", self.redeliver, methods=["POST"])

    async def page(self) -> Response:
        """List all Monitors, newest first."""
        views = await self._monitors.list(account_id(), "all", before=None, limit=LIST_MAX)
        shown = [_plain(self._monitors.to_json(view)) for view in views]
        return await self._frame.shown("monitors.html", "Monitors", monitors=shown, most=LIST_MAX)

    async def show(self, monitor_id: str) -> Response:
        """Show one Monitor."""
        return await self._shown(monitor_id)

    async def chart(self, monitor_id: str) -> Response:
        """Return the chart of one metric over its runs."""
        monitor = (await self._view(monitor_id)).monitor
        metric, row = request.args.get("metric", "")[:500], request.args.get("row", "_")[:500]
        picture = await self._services.projections.chart(monitor, SlotSpan(), metric=metric, row=row)
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(picture, 200, headers, content_type="image/svg+xml; charset=utf-8")

    async def numbers(self, monitor_id: str) -> Response:
        """Download every metric of the newest 1,000 runs, in the API's export format."""
        monitor = (await self._view(monitor_id)).monitor
        pieces = await self._services.projections.export(monitor, SlotSpan(), as_csv=True)
        return long_download(f"{monitor.id}.csv", pieces)

    async def status(self, monitor_id: str) -> Response:
        """Pause or resume a Monitor."""
        sent = await fields()
        status = "active" if sent.get("status") == "active" else "paused"
        return await self._change(monitor_id, PatchBody(status=status), done=f"monitor_{status}")

    async def webhook(self, monitor_id: str) -> Response:
        """Save the webhook's address again, which resumes a paused webhook."""
        sent = await fields()
        return await self._change(monitor_id, PatchBody(webhook_url=sent.get("webhook_url", "")), done="monitor_saved")

    async def alerts(self, monitor_id: str) -> Response:
        """Replace the alert rules."""
        sent = await fields()
        rules = sent_rules(sent)
        patch = PatchBody(alert_rules=[one.rule for one in rules])
        try:
            await self._monitors.change(account_id(), monitor_id, patch)
        except MonitorUnknown as exc:
            raise ObjectMissing from exc
        except MonitorInvalid as exc:
            rows = range(min(max(one.row for one in rules) + 2, RULES_MAX)) if rules else range(1)
            return await self._shown(
                monitor_id, status=400, errors=beside_row(exc, rules), rule_values=sent, rule_rows=rows
            )
        return self._redirect(monitor_id, "alerts_saved")

    async def run(self, monitor_id: str) -> Response:
        """Start a run now."""
        try:
            await self._monitors.run_now(account_id(), monitor_id)
        except MonitorUnknown as exc:
            raise ObjectMissing from exc
        except (MonitorPaused, RunTooSoon) as exc:
            return await self._shown(monitor_id, status=400, error=sentence(exc))
        return self._redirect(monitor_id, "run_begun")

    async def delete(self, monitor_id: str) -> Response:
        """Ask for confirmation, then delete the Monitor."""
        view = await self._view(monitor_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("delete_monitor.html", "Delete this Monitor?", monitor=view.monitor)
        await self._monitors.delete(account_id(), monitor_id)
        return self._frame.to_page(MONITORS, done="monitor_deleted")

    async def resume(self, monitor_id: str) -> Response:
        """Resume the deliveries of the Monitor's webhook."""
        try:
            await self._services.webhooks.resume(account_id(), monitor_id)
        except (MonitorUnknown, WebhookUnknown) as exc:
            raise ObjectMissing from exc
        return self._redirect(monitor_id, "resumed")

    async def rotate(self, monitor_id: str) -> Response:
        """Create a new signing secret, and show it once."""
        await self._view(monitor_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        try:
            rotated = await self._services.webhooks.rotate(account_id(), monitor_id)
        except WebhookUnknown as exc:
            raise ObjectMissing from exc
        return await self._shown(monitor_id, secret=rotated.secret)

    async def redeliver(self, monitor_id: str, delivery_id: str) -> Response:
        """Send a delivery again."""
        try:
            await self._services.webhooks.redeliver(account_id(), monitor_id, delivery_id)
        except (MonitorUnknown, WebhookUnknown, DeliveryUnknown) as exc:
            raise ObjectMissing from exc
        except RedeliveryRefused as exc:
            return await self._shown(monitor_id, status=400, error=sentence(exc))
        return self._redirect(monitor_id, "redelivered")

    async def _change(self, monitor_id: str, patch: PatchBody, *, done: str) -> Response:
        try:
            saved = await self._monitors.change(account_id(), monitor_id, patch)
        except MonitorUnknown as exc:
            raise ObjectMissing from exc
        except MonitorInvalid as exc:
            return await self._shown(monitor_id, status=400, errors={exc.param: f"{exc.problem}. {exc.next_step}"})
        except MonitorLimitReached as exc:
            return await self._shown(monitor_id, status=400, error=sentence(exc))
        if saved.secret is not None:
            return await self._shown(monitor_id, secret=saved.secret)
        return self._redirect(monitor_id, done)

    def _redirect(self, monitor_id: str, done: str) -> Response:
        return self._frame.to_page(f"{MONITORS}/{monitor_id}", done=done)

    async def _view(self, monitor_id: str) -> View:
        """Return the account's Monitor. Raises ObjectMissing."""
        try:
            return await self._monitors.get(account_id(), monitor_id)
        except MonitorUnknown as exc:
            raise ObjectMissing from exc

    async def _shown(self, monitor_id: str, *, status: int = 200, secret: str = "", **more: Any) -> Response:
        view = await self._view(monitor_id)
        runs = await self._monitors.runs(account_id(), monitor_id, status=None, window=SlotSpan(), limit=RUNS)
        monitor = _plain(self._monitors.to_json(view))
        rules = monitor["alert_rules"]
        return await self._frame.shown(
            "monitor.html",
            monitor["name"],
            status=status,
            monitor=monitor,
            runs=[_plain(run_record(entry.run, entry.delivery)) for entry in runs.entries],
            log=None if view.webhook is None else await read_log(self._services.webhooks, monitor_id),
            secret=secret,
            series=await self._series(view),
            **{
                "rule_values": rows_of(rules),
                "rule_rows": range(min(len(rules) + 1, RULES_MAX)),
                **more,
            },
        )

    async def _series(self, view: View) -> dict[str, Any]:
        """Return the metrics and rows that can be drawn, and the selected ones."""
        found = orjson.loads(await self._services.projections.timeseries(view.monitor, SlotSpan(), Chosen()))
        series: list[dict[str, Any]] = found.get("series", [])
        metrics = found["metric_keys"][:_METRICS_MAX]
        metric = request.args.get("metric", "")
        metric = metric if metric in metrics else next(iter(metrics), "")
        rows = list(dict.fromkeys(one["row_id"] for one in series if one["metric"] == metric))[:_ROWS_MAX] or ["_"]
        row = request.args.get("row", "")
        return {"metrics": metrics, "metric": metric, "rows": rows, "row": row if row in rows else rows[0]}


def _plain(value: Any) -> Any:
    """Convert JSON that contains already encoded fragments to plain values."""
    return orjson.loads(orjson.dumps(value))
