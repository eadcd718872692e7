"""Stores what suppliers cost, tells the operator about their problems, and shows their states (decisions 25)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from typing import Any, Final

import msgspec
import orjson
import trio

from events.instants import iso
from gateway.admin.operations import Nothing, Operation, OperationRefused, Operations
from gateway.admin.supplier_rows import DayUnits, SupplierAlert, forget_old, read_units, write_alert, write_costs
from gateway.config.settings import Config
from gateway.node.sites import OpenExchange
from gateway.node.suppliers import Suppliers, open_suppliers
from gateway.observability.logs import Log
from gateway.runtime import Runtime
from limits.breaker import Breaker, BreakerRules
from limits.errors import LimitError
from storage.errors import StorageError
from storage.store import Store
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.supplier_costs import DAY_S
from upstreams.fetching.suppliers import Supplier
from upstreams.model.errors import UpstreamError
from upstreams.model.refusals import by_status
from upstreams.model.steps import Form
from upstreams.transport.http import Exchange, HttpCall, origin_of

STORE_EVERY_S: Final = 5.0
_POST_S: Final = 10.0
_LAST_S: Final = 5.0
_ANY: Final = Form("*/*", lambda _body, _kind: None, follows=False)
_BUDGET_WARNING: Final = 0.8
_BALANCE_DAYS: Final = 3
"""A balance is low if it lasts for fewer days at yesterday's costs."""


class SupplierAlerts:
    """Logs failures of suppliers, and collects alerts until the node stores them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.pending: set[tuple[str, str]] = set()
        """The supplier and the kind of each alert."""

    def failed(self, supplier: str, platform: str, failure: UpstreamError) -> None:
        """See `SupplierWatch`."""
        said = "; ".join(getattr(failure, "__notes__", ()))
        self._log.event(
            "warning", "supplier_failed", supplier=supplier, platform=platform, error=str(failure), said=said
        )

    def alert(self, supplier: str, kind: str) -> None:
        """See `SupplierWatch`."""
        self.pending.add((supplier, kind))


class SupplierRecords:
    """Stores the costs of a node's suppliers every few seconds, and tells the operator about their problems.

    An alert of one kind is raised once an hour for all nodes: as a log line, a row in the store, and a POST to the
    supplier's `alert_url`, if there is one.
    """

    def __init__(
        self,
        suppliers: Suppliers,
        alerts: SupplierAlerts,
        store: Store,
        *,
        exchange: Exchange | None,
        log: Log,
        now: Callable[[], float],
    ) -> None:
        self.suppliers = suppliers
        self._alerts = alerts
        self._store = store
        self._exchange = exchange
        self._log = log
        self._now = now
        self._forgot_on = 0
        self._raised: dict[tuple[str, str], int] = {}
        """The hour of the latest alert of each supplier and kind that this node knows."""

    async def keep_storing(self) -> None:
        """Store the costs and alerts every few seconds. If the store is unavailable, they are stored later."""
        while True:
            await trio.sleep(STORE_EVERY_S)
            try:
                await self.store_all()
            except StorageError as exc:
                self._log.event("warning", "supplier_costs_not_stored", error=str(exc))

    async def store_all(self) -> None:
        """Store the costs and alerts now.

        Raises:
            StorageError: What was not stored is kept.
        """
        for name, supplier in self.suppliers.by_name.items():
            costs = supplier.costs
            day, unstored = costs.today, costs.unstored()
            if unstored:
                units = await self._store.write(partial(write_costs, supplier=name, costs=unstored, day=day))
            else:
                units = await self._store.read(partial(read_units, supplier=name, day=day))
            costs.apply_stored(unstored, day, units.today)
            for kind in _problems(supplier, units):
                self._alerts.alert(name, kind)
        for name, kind in sorted(self._alerts.pending):
            alert = SupplierAlert(name, kind, self._now())
            is_new = self._raised.get((name, kind)) != alert.hour
            is_new = is_new and await self._store.write(partial(write_alert, alert=alert))
            self._raised[name, kind] = alert.hour
            self._alerts.pending.discard((name, kind))
            if is_new:
                self._log.event("warning", "supplier_alert", supplier=name, kind=kind)
                await self._post(alert)
        if (day := int(self._now() // DAY_S)) != self._forgot_on:
            await self._store.write(partial(forget_old, day=day))
            self._forgot_on = day

    async def _post(self, alert: SupplierAlert) -> None:
        """Send an alert to the operator's address. A failure is only logged."""
        url = self.suppliers.settings[alert.supplier].alert_url
        if not url or self._exchange is None:
            return
        body = orjson.dumps({"event": "supplier_alert", **alert._asdict(), "at": iso(alert.at)})
        origin, target = origin_of(url)
        call = HttpCall("POST", origin, target, (("content-type", "application/json"),), body)
        clock = trio.lowlevel.current_clock().current_time
        source = Source(
            "alert_url",
            url,
            exchange=self._exchange,
            breaker=Breaker(BreakerRules(), clock),
            judge=by_status,
            backoff=lambda _answer: None,
            method_of=lambda _path: "",
            rules=Rules(timeout_s=_POST_S, retries=0),
            rng=Random(),
            now=clock,
        )
        try:
            await source.ask(call, trio.current_time() + _POST_S, accepts=_ANY)
        except (UpstreamError, LimitError) as exc:
            self._log.event(
                "warning", "supplier_alert_not_sent", supplier=alert.supplier, kind=alert.kind, error=str(exc)
            )


def _problems(supplier: Supplier, units: DayUnits) -> Iterator[str]:
    """Yield the kinds of alerts that follow from a supplier's state, and from what it cost today and yesterday."""
    budget, balance = supplier.costs.daily_budget, supplier.balance
    if budget and supplier.costs.used_today >= budget:
        yield "budget_used"
    elif budget and supplier.costs.used_today >= budget * _BUDGET_WARNING:
        yield "budget_80"
    if supplier.source.breaker.state == "open":
        yield "circuit_open"
    if balance is not None and balance < units.yesterday * _BALANCE_DAYS:
        yield "balance_low"


class SupplierName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `supplier.reset`."""

    supplier: str


@dataclass(frozen=True, slots=True)
class SupplierStates:
    """Operations on the suppliers of a running node."""

    suppliers: Suppliers

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        operations.add("supplier.list", Operation(Nothing, self._list))
        operations.add("supplier.reset", Operation(SupplierName, self._reset))

    async def _list(self, _args: Nothing) -> list[dict[str, Any]]:
        """Return the state of every supplier in the settings, also of those without a key."""
        await trio.lowlevel.checkpoint()
        return [self._state(name) for name in self.suppliers.settings]

    async def _reset(self, args: SupplierName) -> dict[str, Any]:
        """Call a supplier again immediately, because the operator has solved its problem."""
        await trio.lowlevel.checkpoint()
        supplier = self.suppliers.by_name.get(args.supplier)
        if supplier is None:
            known = ", ".join(self.suppliers.by_name) or "none"
            raise OperationRefused(f"this node does not use the supplier {args.supplier}; it uses: {known}")
        supplier.reset()
        return self._state(args.supplier)

    def _state(self, name: str) -> dict[str, Any]:
        settings, supplier = self.suppliers.settings[name], self.suppliers.by_name.get(name)
        state: dict[str, Any] = {
            "supplier": name,
            "interface": settings.interface,
            "fallback": settings.fallback or None,
        }
        if supplier is None:
            return {**state, "state": "disabled" if not settings.enabled else "no key"}
        return {
            **state,
            "state": supplier.unusable or supplier.source.breaker.state,
            "balance": supplier.balance,
            "used_today": supplier.costs.used_today,
            "daily_budget": supplier.costs.daily_budget or None,
            **asdict(supplier.source.statistics()),
        }


@asynccontextmanager
async def open_supplier_records(
    config: Config, environ: Mapping[str, str], store: Store, runtime: Runtime, *, open_exchange: OpenExchange
) -> AsyncIterator[SupplierRecords]:
    """Open the suppliers of a running node. What is not stored when the block ends is stored then.

    Raises:
        StorageError: The costs of today cannot be read.
    """
    alerts = SupplierAlerts(runtime.log)
    async with (
        open_suppliers(
            config,
            environ=environ,
            rng=runtime.rng,
            now=runtime.now,
            watch=alerts,
            open_exchange=open_exchange,
            keep=runtime.keep,
        ) as suppliers,
        _open_alert_exchange(config, runtime, open_exchange) as exchange,
    ):
        records = SupplierRecords(suppliers, alerts, store, exchange=exchange, log=runtime.log, now=runtime.now)
        if suppliers.by_name:
            await records.store_all()  # the units that all nodes have already used today
        yield records
        if suppliers.by_name:
            with suppress(StorageError), trio.move_on_after(_LAST_S):
                await records.store_all()


@asynccontextmanager
async def _open_alert_exchange(
    config: Config, runtime: Runtime, open_exchange: OpenExchange
) -> AsyncIterator[Exchange | None]:
    """Open the connections for alerts, if a supplier has an address for them."""
    if not any(one.alert_url for one in config.suppliers.values()):
        yield None
        return
    async with open_exchange(max_connections=1, egress="", keep=runtime.keep) as exchange:
        yield exchange
