"""The account's money: overview, usage and transactions, with charts and downloads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from quart import Response, request
from quart_trio import QuartTrio

from billing.archive.statement import line_of
from billing.ledger.usage_report import UsageReport, UsageSum
from events.instants import iso
from gateway.dashboard.address import PREFIX
from gateway.dashboard.downloads import csv_of, download
from gateway.dashboard.frame import Frame, account_id
from gateway.dashboard.pages.keys import is_active
from gateway.dashboard.pictures import bars_svg
from gateway.dashboard.services import Services

SPANS: Final = (7, 30, 90)
PAGE: Final = 50
CSV_ROWS_MAX: Final = 5_000
_BURN_DAYS: Final = 30
_WEEK: Final = 7


class MoneyPages:
    """Read-only pages."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(PREFIX, "overview", self.overview)
        app.add_url_rule(f"{PREFIX}/", "overview_as_a_folder", self.overview)
        app.add_url_rule(f"{PREFIX}/usage", "usage", self.usage)
        app.add_url_rule(f"{PREFIX}/usage.csv", "usage_csv", self.usage_csv)
        app.add_url_rule(f"{PREFIX}/transactions", "transactions", self.transactions)
        app.add_url_rule(f"{PREFIX}/transactions.csv", "transactions_csv", self.transactions_csv)

    async def overview(self) -> Response:
        """Show the balance, the daily spending, and how long the balance will last."""
        services, owner = self._services, account_id()
        report = await services.usage.read(owner, _BURN_DAYS)
        money = await services.ledger.report(owner)
        keys = [key for key in await services.keys.list(owner) if is_active(key, services.now())]
        return await self._frame.shown(
            "overview.html",
            "Overview",
            account=await services.accounts.get(owner),
            money=money,
            a_day=money.last_7d / _WEEK,
            days_left=money.balance / (money.last_7d / _WEEK) if money.last_7d else None,
            picture=bars_svg("Credits per day", _spent(report)),
            keys=keys,
            monitors=await services.monitors.list(owner, "active", before=None, limit=100),
            has_called=any(day.calls or day.hits for day in report.days.values()),
        )

    async def usage(self) -> Response:
        """Show calls and credits by day, endpoint and key."""
        days = _span()
        report = await self._services.usage.read(account_id(), days)
        return await self._frame.shown(
            "usage.html",
            "Usage",
            days=days,
            spans=SPANS,
            report=report,
            total=_total(report.days.values()),
            picture=bars_svg("Credits per day", _spent(report)),
            names=await self._key_names(),
            by_day=[(_date(day), one) for day, one in reversed(report.days.items()) if one != UsageSum()],
        )

    async def usage_csv(self) -> Response:
        """Download the usage as rows, one for each day, endpoint and key."""
        names = await self._key_names()
        head = ("day", "endpoint", "key_id", "key_name", "calls", "cache_hits", "refusals", "failures", "credits")
        rows = [
            (
                *(_date(day), path, key or "", names.get(key, "")),
                *(one.calls, one.hits, one.refusals, one.failures, one.credits),
            )
            for day, path, key, one in await self._services.usage.rows(account_id(), _span())
        ]
        return download("usage.csv", csv_of([head, *rows]))

    async def transactions(self) -> Response:
        """Show the statement in pages."""
        before, request_id = request.args.get("before", ""), request.args.get("request_id", "").strip()
        found = await self._services.ledger.transactions(
            account_id(), limit=PAGE + 1, before=line_of(before), request_id=request_id or None
        )
        return await self._frame.shown(
            "transactions.html",
            "Transactions",
            lines=found.lines[:PAGE],
            warnings=found.warnings,
            older=str(found.lines[PAGE - 1].id) if len(found.lines) > PAGE else "",
            is_first=not before,
            request_id=request_id,
        )

    async def transactions_csv(self) -> Response:
        """Download the newest transactions as rows."""
        found = await self._services.ledger.transactions(account_id(), limit=CSV_ROWS_MAX)
        head = [
            "id",
            "type",
            "amount",
            "balance_after",
            "description",
            "endpoint",
            "request_id",
            "key_id",
            "created_at",
        ]
        rows = [
            (
                *(f"txn_{line.id}", line.type, line.amount, line.balance_after, line.description, line.endpoint or ""),
                *(line.request_id or "", line.key_id or "", iso(line.created_at)),
            )
            for line in found.lines
        ]
        return download("transactions.csv", csv_of([head, *rows]))

    async def _key_names(self) -> dict[str | None, str]:
        keys = await self._services.keys.list(account_id())
        return {key.id: key.name or f"...{key.last4}" for key in keys}


def _span() -> int:
    sent = request.args.get("days", "")
    return int(sent) if sent in map(str, SPANS) else SPANS[1]


def _spent(report: UsageReport) -> list[tuple[str, int]]:
    return [(_date(day), one.credits) for day, one in report.days.items()]


def _total(sums: Iterable[UsageSum]) -> UsageSum:
    every = list(sums)
    return UsageSum(
        sum(one.calls for one in every),
        sum(one.hits for one in every),
        sum(one.refusals for one in every),
        sum(one.credits for one in every),
        sum(one.refunds for one in every),
        sum(one.failures for one in every),
    )


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
