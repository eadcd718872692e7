"""Conversions of single JSON values from upstreams. Each function returns a plain value or None, and never guesses."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from time import gmtime, strftime
from typing import Any, Final

INTEGER_MAX: Final = 2**63 - 1
"""The largest integer in a record. JSON parsers disagree about larger numbers, and some encoders cannot write them."""
_INTEGER_BITS = 63
_IDENT_END = 2**64
"""Our JSON parsers represent smaller numbers exactly."""
_DIGITS_MAX = 20
_FRACTION_TEXT_MAX = 64
_YEAR_10000_S = 253_402_300_800
INSTANT_TEXT_MAX = 64
_INSTANTS: Final = 4_096
"""The number of cached timestamps. Most timestamps are found in the cache, because each refresh returns the same rows.
"""


def text(found: Any) -> str | None:
    """Return a non-empty string. An empty string counts as missing."""
    return found if isinstance(found, str) and found else None


def ident(found: Any) -> str | None:
    """Return an id as a string. The upstream may send a number or a text (decisions 3)."""
    if type(found) is int:
        return str(found) if -INTEGER_MAX <= found < _IDENT_END else None
    return found if isinstance(found, str) and found else None


def number(found: Any) -> int | None:
    """Return a whole number, even if it is sent as text or as 3.0; None if it exceeds 64 bits."""
    whole = found if type(found) is int or found is None else _whole(found)
    return whole if whole is not None and whole.bit_length() <= _INTEGER_BITS else None


def fraction(found: Any) -> float | None:
    """Return a number with or without a fraction, even if it is sent as text; None if JSON cannot represent it."""
    if isinstance(found, str) and len(found) <= _FRACTION_TEXT_MAX:
        try:
            found = float(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        parsed = float(found)
    except OverflowError:
        return None
    return parsed if isfinite(parsed) and abs(parsed) <= INTEGER_MAX else None


def count(found: Any) -> int | None:
    """Return a number that can be a count. Negative numbers are placeholders and become None."""
    parsed = found if type(found) is int else number(found)
    return parsed if parsed is not None and 0 <= parsed <= INTEGER_MAX else None


def _whole(found: Any) -> int | None:
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if isinstance(found, str) and found.removeprefix("-").isdecimal() and len(found) <= _DIGITS_MAX:
        return int(found)
    return None


def flag(found: Any) -> bool | None:
    """Return True or False, and None for any other value."""
    return found if isinstance(found, bool) else None


def texts(found: Any) -> list[str] | None:
    """Return the non-empty strings of a list; None if the value is not a list."""
    return [entry for entry in found if isinstance(entry, str) and entry] if isinstance(found, list) else None


def instant(found: Any) -> str | None:
    """Return a time as ISO 8601 UTC with `Z`. The upstream may send Unix seconds or ISO text."""
    if isinstance(found, str):
        return instant_of_text(found) if len(found) <= INSTANT_TEXT_MAX else None
    if (type(found) is int or type(found) is float) and 0 <= found < _YEAR_10000_S:
        return _from_unix(int(found))
    return None


@lru_cache(maxsize=_INSTANTS)
def instant_of_text(found: str) -> str | None:
    """Like `instant`, for ISO text that is short enough to be cached.

    The year 1 becomes None, because programs send it for missing dates.
    """
    if found[:4] == "0001":
        return None
    try:
        moment = datetime.fromisoformat(found)
        if len(found) == 20 and found[4::3] == "--T::Z":  # 2020-01-31T12:00:00Z, the usual form
            return found
        return _in_utc(found, moment)
    except (ValueError, OverflowError):  # OverflowError: the year in UTC is before 1 or after 9999
        return None


@lru_cache(maxsize=_INSTANTS)
def _from_unix(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def _in_utc(found: str, moment: datetime) -> str:
    """Return a time in UTC, with milliseconds if there are any. Text that is already in this form is only shortened."""
    if found[4:20:3] == "--T::." and found[-1] == "Z":
        if not moment.microsecond:
            return f"{found[:19]}Z"
        if len(found) >= 24:
            return f"{found[:23]}Z"
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
