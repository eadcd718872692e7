"""Reads one JSON value that somebody else wrote: the plain value, or None, and never an invented one."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from time import gmtime, strftime
from typing import Any, Final

INTEGER_MAX: Final = 2**63 - 1
"""Beyond it a JSON number is no longer read alike everywhere, nor written by every encoder."""
_INTEGER_BITS = 63
_IDENT_END = 2**64
"""Readers of JSON keep smaller numbers whole."""
_DIGITS_MAX = 20
_FRACTION_TEXT_MAX = 64
_YEAR_10000_S = 253_402_300_800
INSTANT_TEXT_MAX = 64
_INSTANTS: Final = 4_096
"""Instants that are remembered: the same rows come again with every refresh."""


def text(found: Any) -> str | None:
    """A non-empty string; an empty one counts as not sent."""
    return found if isinstance(found, str) and found else None


def ident(found: Any) -> str | None:
    """An id as a string, whether it came as a number or as text (decisions 3)."""
    if type(found) is int:
        return str(found) if -INTEGER_MAX <= found < _IDENT_END else None
    return found if isinstance(found, str) and found else None


def number(found: Any) -> int | None:
    """A whole number, also one sent as text or as 3.0; beyond 64 bits it is none."""
    whole = found if type(found) is int or found is None else _whole(found)
    return whole if whole is not None and whole.bit_length() <= _INTEGER_BITS else None


def fraction(found: Any) -> float | None:
    """A number with or without a fraction, also one sent as text; never one that JSON cannot hold."""
    if isinstance(found, str) and len(found) <= _FRACTION_TEXT_MAX:
        try:
            found = float(found)
        except ValueError:
            return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        told = float(found)
    except OverflowError:
        return None
    return told if isfinite(told) and abs(told) <= INTEGER_MAX else None


def count(found: Any) -> int | None:
    """A number that can say how many there are; below zero is a placeholder."""
    told = found if type(found) is int else number(found)
    return told if told is not None and 0 <= told <= INTEGER_MAX else None


def _whole(found: Any) -> int | None:
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if isinstance(found, str) and found.removeprefix("-").isdecimal() and len(found) <= _DIGITS_MAX:
        return int(found)
    return None


def flag(found: Any) -> bool | None:
    """True or False as it came."""
    return found if isinstance(found, bool) else None


def texts(found: Any) -> list[str] | None:
    """The non-empty strings of a list, or None where there is no list."""
    return [entry for entry in found if entry.__class__ is str and entry] if isinstance(found, list) else None


def instant(found: Any) -> str | None:
    """A time as ISO 8601 UTC with `Z`: from Unix seconds or from ISO text."""
    if found.__class__ is str:
        return instant_of_text(found) if len(found) <= INSTANT_TEXT_MAX else None
    if (type(found) is int or type(found) is float) and 0 <= found < _YEAR_10000_S:
        return _from_unix(int(found))
    return None


@lru_cache(maxsize=_INSTANTS)
def instant_of_text(found: str) -> str | None:
    """Like `instant`, for ISO text that is not too long to be remembered.

    Year 1 is None: programs write it when they have no date.
    """
    if found[:4] == "0001":
        return None
    try:
        moment = datetime.fromisoformat(found)
        if len(found) == 20 and found[4::3] == "--T::Z":  # 2020-01-31T12:00:00Z, as most are
            return found
        return _written_anew(found, moment)
    except (ValueError, OverflowError):  # the latter where UTC leads out of the years 1 to 9999
        return None


@lru_cache(maxsize=_INSTANTS)
def _from_unix(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def _written_anew(found: str, moment: datetime) -> str:
    """The moment in UTC, with milliseconds where there are some; text that is so but for its fraction is only cut."""
    if found[4:20:3] == "--T::." and found[-1] == "Z":
        if not moment.microsecond:
            return f"{found[:19]}Z"
        if len(found) >= 24:
            return f"{found[:23]}Z"
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
