"""Reads from an answer's headers how long to wait. Its own `Date` is the clock for the instants that they name."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz

Headers = Mapping[str, str]


def retry_after_s(headers: Headers) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or as a date; None when it cannot be read, or is over."""
    text = headers.get("retry-after", "")
    if text.isdecimal():
        return float(text) or None
    return _until_s(_instant(text), headers) if text else None


def until_reset_s(headers: Headers, name: str) -> float | None:
    """Seconds until the Unix time in the header `name`; None when it cannot be read, or is over."""
    text = headers.get(name, "")
    return _until_s(float(text), headers) if text.isdecimal() else None


def _until_s(at: float | None, headers: Headers) -> float | None:
    sent_at = _instant(headers.get("date", ""))
    return at - sent_at if at is not None and sent_at is not None and at > sent_at else None


def _instant(date: str) -> float | None:
    """An HTTP date as Unix seconds."""
    try:
        parts = parsedate_tz(date)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):  # a day or a year that no calendar has
        return None
