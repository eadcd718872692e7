"""Usage reports for an account's owner: by day, endpoint and key, from the hourly counts of charges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from billing.journal import HOUR_MICROS, micros
from storage.store import Row, Store, Tx

DAY_HOURS: Final = 24
DAYS_MAX: Final = 400
GROUPS_MAX: Final = 1_000

_SUMS = """
SUM(usage.calls), SUM(usage.hits), SUM(usage.refusals), SUM(usage.credits), SUM(usage.refunds), SUM(usage.failures)
"""
_OF = "usage.account = (SELECT number FROM accounts WHERE id = ?) AND usage.hour >= ? AND usage.hour < ?"
BY_DAY = f"SELECT usage.hour / 24, {_SUMS} FROM usage WHERE {_OF} GROUP BY usage.hour / 24 ORDER BY 1"  # noqa: S608 - constants
BY_ENDPOINT = f"""
SELECT endpoints.path, {_SUMS} FROM usage JOIN endpoints ON endpoints.id = usage.endpoint
WHERE {_OF} GROUP BY endpoints.path ORDER BY SUM(usage.credits) DESC, endpoints.path LIMIT ?
"""  # noqa: S608 - constants
BY_KEY = f"""
SELECT keys.id, {_SUMS} FROM usage LEFT JOIN keys ON keys.number = usage.key
WHERE {_OF} GROUP BY keys.id ORDER BY SUM(usage.credits) DESC, keys.id LIMIT ?
"""  # noqa: S608 - constants
BY_ALL = f"""
SELECT usage.hour / 24, endpoints.path, keys.id, {_SUMS} FROM usage
JOIN endpoints ON endpoints.id = usage.endpoint LEFT JOIN keys ON keys.number = usage.key
WHERE {_OF} GROUP BY usage.hour / 24, endpoints.path, keys.id ORDER BY 1, 2, 3
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The counts of a group of calls.

    `credits` are deductions minus refunds. Cache `hits` and `refusals` cost nothing.
    """

    calls: int = 0
    hits: int = 0
    refusals: int = 0
    credits: int = 0
    refunds: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage by day (in days since 1970, without gaps), by endpoint, and by key (None for calls without a key)."""

    days: dict[int, UsageSum]
    endpoints: dict[str, UsageSum]
    keys: dict[str | None, UsageSum]


class UsageReports:
    """Creates usage reports from the store."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        """`now` returns Unix seconds."""
        self._store = store
        self._now = now

    async def read(self, account_id: str, days: int) -> UsageReport:
        """Return the usage of the last `days` UTC days including today. Endpoints and keys are sorted by spending."""
        first, end = self._days(days)
        read = partial(_read, account_id=account_id, first=first, end=end)
        return await self._store.read(read)

    async def rows(self, account_id: str, days: int) -> list[tuple[int, str, str | None, UsageSum]]:
        """Return the usage of the last `days` UTC days including today, split by day, endpoint and key."""
        first, end = self._days(days)
        params = (account_id, first * DAY_HOURS, end * DAY_HOURS)
        rows = await self._store.read(lambda tx: tx.all(BY_ALL, params))
        return [(int(row[0]), row[1], row[2], _sum(row[3:])) for row in rows]

    def _days(self, days: int) -> tuple[int, int]:
        end = micros(self._now()) // HOUR_MICROS // DAY_HOURS + 1
        return end - min(max(days, 1), DAYS_MAX), end


def _read(tx: Tx, account_id: str, first: int, end: int) -> UsageReport:
    params = (account_id, first * DAY_HOURS, end * DAY_HOURS)
    by_day = {int(row[0]): _sum(row[1:]) for row in tx.all(BY_DAY, params)}
    return UsageReport(
        {day: by_day.get(day, UsageSum()) for day in range(first, end)},
        {row[0]: _sum(row[1:]) for row in tx.all(BY_ENDPOINT, (*params, GROUPS_MAX))},
        {row[0]: _sum(row[1:]) for row in tx.all(BY_KEY, (*params, GROUPS_MAX))},
    )


def _sum(row: Row) -> UsageSum:
    return UsageSum(*map(int, row))  # PostgreSQL returns sums as decimals
