"""Operations on what suppliers cost and on alerts about them. They need only the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from events.instants import iso
from gateway.admin.operations import Nothing, Operation, Operations
from gateway.admin.supplier_rows import KEPT_DAYS, PaidCost, read_alerts, read_costs
from gateway.config.settings import SupplierSettings
from storage.store import Store
from upstreams.fetching.supplier_costs import DAY_S


class CostArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `supplier.costs`: the number of UTC days, today included, and how to group the costs."""

    days: Annotated[int, msgspec.Meta(ge=1, le=KEPT_DAYS)] = 30
    by: Literal["endpoint", "platform", "day"] = "endpoint"


class SupplierOperations:
    """Reads the costs of suppliers, with the prices in the operator's settings, and the alerts."""

    def __init__(self, store: Store, settings: Mapping[str, SupplierSettings], *, now: Callable[[], float]) -> None:
        self._store = store
        self._settings = settings
        self._now = now

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        operations.add("supplier.costs", Operation(CostArguments, self._costs))
        operations.add("supplier.alerts", Operation(Nothing, self._alerts))

    async def _costs(self, args: CostArguments) -> list[dict[str, Any]]:
        """Return the costs of each group and supplier, the highest first, or by day."""
        first_day = int(self._now() // DAY_S) - args.days + 1
        rows: dict[tuple[str, str], list[PaidCost]] = {}
        for one in await self._store.read(partial(read_costs, first_day=first_day)):
            rows.setdefault((_group(one, args.by), one.supplier), []).append(one)
        found = [self._summed(group, supplier, costs) for (group, supplier), costs in rows.items()]
        return found if args.by == "day" else sorted(found, key=lambda one: (-one["units"], one["group"]))

    def _summed(self, group: str, supplier: str, costs: list[PaidCost]) -> dict[str, Any]:
        calls, units = sum(one.calls for one in costs), sum(one.units for one in costs)
        prices = self._settings[supplier].prices if supplier in self._settings else None
        return {
            "group": group,
            "supplier": supplier,
            "calls": calls,
            "failed": sum(one.failed for one in costs),
            "units": units,
            "units_per_call": round(units / calls, 2),
            "cost": round(units * prices.unit, 4) if prices is not None and prices.unit else None,
            "currency": prices.currency if prices is not None and prices.unit else None,
            "paid_credits": sum(one.paid_credits for one in costs),
        }

    async def _alerts(self, _args: Nothing) -> list[dict[str, Any]]:
        """Return the latest alerts, the newest first."""
        return [{**one._asdict(), "at": iso(one.at)} for one in await self._store.read(read_alerts)]


def _group(cost: PaidCost, by: str) -> str:
    if by == "day":
        return iso(cost.day * DAY_S)[:10]
    return cost.platform if by == "platform" else f"{cost.platform}/{cost.resource}"
