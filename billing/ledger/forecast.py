"""Forecasts when an account runs out of credits, from its hourly usage."""

from typing import Final, NamedTuple

from billing.charges.taking_back import PLATFORM
from storage.store import Tx

HOURS: Final = 24
"""How many hours of usage the forecast is based on. Earlier spending says little about the next hours."""
_HOUR_S: Final = 3_600.0
READ: Final = """
SELECT MIN(usage.hour), SUM(usage.credits) FROM usage
JOIN accounts ON accounts.number = usage.account JOIN endpoints ON endpoints.id = usage.endpoint
WHERE accounts.id = ? AND usage.hour > ? AND usage.credits > 0 AND endpoints.platform <> ?
"""


class Forecast(NamedTuple):
    """The credits that an account spends per day, and the time when it runs out of credits at that rate."""

    credits_per_day: float
    exhausted_at: float


def forecast(tx: Tx, account_id: str, balance: int, now: float) -> Forecast | None:
    """Return the forecast for a balance, or None if nothing was spent in the last day.

    If the account began to spend during that day, the rate is based on the time since its first hour with spending, and
    at least on one hour.
    """
    row = tx.one(READ, (account_id, int(now // _HOUR_S) - HOURS, PLATFORM))
    if row is None or not row[1]:
        return None
    first, spent = row
    rate = int(spent) / max(1.0, now / _HOUR_S - first)
    return Forecast(HOURS * rate, now + balance / rate * _HOUR_S)
