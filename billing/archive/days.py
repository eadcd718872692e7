"""Converts between the journal's row ids, days and months."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

DAY_MS: Final = 86_400_000
DAY_S: Final = 86_400
_BEGIN: Final = date(1970, 1, 1)


def first_id(day: int) -> bytes:
    """Return the smallest possible id of the day."""
    return (day * DAY_MS).to_bytes(6, "big")


def day_of(id_: bytes) -> int:
    """Return the day of a row, in days since 1970. For an id made from text, the day is in the far future."""
    return int.from_bytes(id_[:6], "big") // DAY_MS


def date_of(day: int) -> date:
    """Return the day's date."""
    return _BEGIN + timedelta(days=day)


def month_of(at: float) -> int:
    """Return the first day of the month that contains a time in Unix seconds."""
    return (datetime.fromtimestamp(at, UTC).date().replace(day=1) - _BEGIN).days


def following_month(first: int) -> int:
    """Return the first day of the month after the one that begins with `first`."""
    return (((date_of(first) + timedelta(days=31)).replace(day=1)) - _BEGIN).days
