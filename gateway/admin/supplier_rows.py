"""The rows about suppliers: what calls cost by day and endpoint, and the alerts for the operator (decisions 25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from storage.migrations import MigrationSet, Schema
from storage.store import Row, Tx
from upstreams.fetching.supplier_costs import DAY_S, CostPlace, UnitCost

KEPT_DAYS: Final = 400
ALERTS_MAX: Final = 200
_HOUR_S: Final = 3_600

ADD_COSTS = """
INSERT INTO supplier_costs (day, supplier, platform, resource, calls, failed, units) VALUES {rows}
ON CONFLICT (day, supplier, platform, resource) DO UPDATE
SET calls = supplier_costs.calls + excluded.calls, failed = supplier_costs.failed + excluded.failed,
    units = supplier_costs.units + excluded.units
"""
UNITS = "SELECT COALESCE(SUM(units), 0) FROM supplier_costs WHERE day = ? AND supplier = ?"
FORGET_COSTS = "DELETE FROM supplier_costs WHERE day < ?"
FORGET_ALERTS = "DELETE FROM supplier_alerts WHERE hour < ?"
ADD_ALERT = """
INSERT INTO supplier_alerts (supplier, kind, hour, at) VALUES (?, ?, ?, ?)
ON CONFLICT (supplier, kind, hour) DO NOTHING
"""
READ_ALERTS = "SELECT supplier, kind, at FROM supplier_alerts ORDER BY at DESC, supplier, kind LIMIT ?"
READ_COSTS = """
SELECT day, supplier, platform, resource, SUM(calls), SUM(failed), SUM(units) FROM supplier_costs
WHERE day >= ? GROUP BY day, supplier, platform, resource ORDER BY day, supplier, platform, resource
"""
READ_PAID = """
SELECT usage.hour / 24, endpoints.path, SUM(usage.credits) FROM usage JOIN endpoints ON endpoints.id = usage.endpoint
WHERE usage.hour >= ? GROUP BY usage.hour / 24, endpoints.path
"""
"""The credits that customers paid, after refunds."""


class SupplierAlert(NamedTuple):
    """A problem of a supplier that only the operator can solve, with its time in Unix seconds."""

    supplier: str
    kind: str
    at: float

    @property
    def hour(self) -> int:
        """The hour of the alert, counted from 1970-01-01."""
        return int(self.at // _HOUR_S)


class DayUnits(NamedTuple):
    """The units that all nodes have used at a supplier, on a day and on the day before."""

    today: int
    yesterday: int


def write_costs(tx: Tx, supplier: str, costs: Sequence[tuple[CostPlace, UnitCost]], day: int) -> DayUnits:
    """Add a node's counts to those of all nodes. Return the same as `read_units`."""
    tx.run_many(
        ADD_COSTS,
        [(at.day, supplier, at.platform, at.resource, one.calls, one.failed, one.units) for at, one in costs],
    )
    return read_units(tx, supplier, day)


def read_units(tx: Tx, supplier: str, day: int) -> DayUnits:
    """Return the units that all nodes have used on `day` and on the day before."""
    return DayUnits(*(int(_one(tx.one(UNITS, (when, supplier)))) for when in (day, day - 1)))


def _one(row: Row | None) -> int:
    return 0 if row is None else row[0]


def write_alert(tx: Tx, alert: SupplierAlert) -> bool:
    """Record an alert. Return False if a node has already recorded one of the same kind in this hour."""
    return tx.run(ADD_ALERT, (alert.supplier, alert.kind, alert.hour, alert.at)) > 0


def forget_old(tx: Tx, day: int) -> None:
    """Delete the rows that are older than `KEPT_DAYS` on this day."""
    tx.run(FORGET_COSTS, (day - KEPT_DAYS,))
    tx.run(FORGET_ALERTS, ((day - KEPT_DAYS) * (DAY_S // _HOUR_S),))


def read_alerts(tx: Tx) -> list[SupplierAlert]:
    """Return the latest alerts, the newest first."""
    return [SupplierAlert(*row) for row in tx.all(READ_ALERTS, (ALERTS_MAX,))]


class PaidCost(NamedTuple):
    """The costs of one endpoint on one day, and what customers paid for its calls, in credits.

    Customers' calls that were answered from a cache or by another source are included.
    """

    day: int
    supplier: str
    platform: str
    resource: str
    calls: int
    failed: int
    units: int
    paid_credits: int


def read_costs(tx: Tx, first_day: int) -> list[PaidCost]:
    """Return the costs of every endpoint since a day, by day and supplier.

    If several suppliers served an endpoint on a day, the first one has what customers paid.
    """
    paid: dict[tuple[int, str], int] = {(day, path): total for day, path, total in tx.all(READ_PAID, (first_day * 24,))}
    found = []
    for day, supplier, platform, resource, *counts in tx.all(READ_COSTS, (first_day,)):
        credits_ = int(paid.pop((day, f"/v1/{platform}/{resource}"), 0))
        calls, failed, units = map(int, counts)
        found.append(PaidCost(day, supplier, platform, resource, calls, failed, units, credits_))
    return found


def m0001_suppliers(schema: Schema) -> None:
    """Create the tables with one row per day, supplier and endpoint, and with one row per alert."""
    schema.execute("""
    CREATE TABLE supplier_costs (
        day BIGINT NOT NULL,
        supplier TEXT NOT NULL,
        platform TEXT NOT NULL,
        resource TEXT NOT NULL,
        calls BIGINT NOT NULL CHECK (calls >= 0),
        failed BIGINT NOT NULL CHECK (failed >= 0),
        units BIGINT NOT NULL CHECK (units >= 0),
        PRIMARY KEY (day, supplier, platform, resource)
    )
    """)
    schema.execute("""
    CREATE TABLE supplier_alerts (
        supplier TEXT NOT NULL,
        kind TEXT NOT NULL,
        hour BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (supplier, kind, hour)
    )
    """)


MIGRATIONS = MigrationSet("suppliers", (m0001_suppliers,))
