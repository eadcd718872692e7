"""Parses times in feeds: ISO 8601, the dates of e-mail (RFC 822), and common variations of both.

A time with an unknown or ambiguous zone is read as None, because a wrong time is worse than none.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

from upstreams.model.fields import values

_YEAR_MIN: Final = 1_000
"""Programs write the year 0 or 1 if they have no date."""
_NO_DATE: Final = datetime(2001, 1, 1)  # noqa: DTZ001 - compared as written, in any zone
"""Programs write midnight of 0001-01-01 if they have no date. With two-digit years, it is read as 2001."""
_CENTURY_FROM: Final = 69
"""Two-digit years from this one on belong to the previous century (RFC 5322, 4.3)."""
_TIME = (
    r"(?P<hour>\d{1,2})(?P<colon>[:.])(?P<minute>\d{1,2})"
    r"(?:(?P=colon)(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,9}))?)?"
)
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})"
_WEEKDAY = r"(?:[A-Za-z]{2,9}\.?,?\s*)?"
_ZONE = r"\s*(?P<zone>.*)"
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"(?P<year>\d{{4}})-(?P<number>\d{{1,2}})-{_DAY}(?:(?:[Tt]|,?\s+){_TIME})?{_ZONE}",  # 2023-03-14 01:20 +0200
        rf"(?P<year>\d{{4}})(?P<number>\d\d)(?P<day>\d\d)(?:T(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)?)?{_ZONE}",
        rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th)?,?[\s-]+{_MONTH},?[\s-]+(?P<year>\d{{4}}|\d\d)\b(?:,?\s+(?:at\s+)?{_TIME})?{_ZONE}",
        rf"{_WEEKDAY}\b{_MONTH}\s+{_DAY}(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})\b(?:,?\s+(?:at\s+)?{_TIME})?{_ZONE}",
        rf"{_WEEKDAY}\b{_MONTH}\s+{_DAY}\s+{_TIME}\s*(?P<zone>.*?)\s+(?P<year>\d{{4}})",  # Mon Jan 16 10:00:00 UTC 2023
    )
)
_COMMENT = re.compile(r"\s*(?:\(([^()]*)\)|\[([^\[\]]*)\])$")
"""A comment after a time. It is used as the zone only if the time has no zone."""
_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTHS = {name[:letters]: at for at, name in enumerate(_MONTH_NAMES.split(), 1) for letters in (3, len(name))}
_MONTHS["sept"] = 9
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?(?:\s+[A-Za-z]{1,5})?", re.ASCII | re.IGNORECASE)
_OFFSET_HOURS_MAX: Final = 14
_ZONES = {
    "": 0, "Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "MEZ": 1, "MET": 1, "CEST": 2,
    "MESZ": 2, "MEST": 2, "EET": 2, "SAST": 2, "EEST": 3, "MSK": 3, "AWST": 8, "HKT": 8, "SGT": 8, "JST": 9, "KST": 9,
    "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13, "AST": -4, "ADT": -3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5,
    "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10,
}  # fmt: skip
"""Names of time zones in capitals, with their offsets in hours. Names that several countries use for different zones
are omitted."""


def instant_of(words: str | None) -> str | None:
    """Return a time as ISO 8601 in UTC; None if it cannot be parsed or its zone is unknown.

    A time without a zone is read as UTC.
    """
    if words is None or len(words) > values.INSTANT_TEXT_MAX:
        return None
    comment = _COMMENT.search(words.strip())
    written = (words.strip()[: comment.start()] if comment else words.strip()).replace("\N{MINUS SIGN}", "-")
    found = next((found for form in _FORMS if (found := form.fullmatch(written)) is not None), None)
    if found is None:
        return None
    parts = found.groupdict()
    zone = parts["zone"] or (comment and (comment[1] or comment[2]))
    offset, month = _offset_of(zone), _month_of(parts)
    if offset is None or month is None:
        return None
    try:
        moment = datetime(
            _year_of(parts["year"]), month, int(parts["day"]), int(parts["hour"] or 0), int(parts["minute"] or 0),
            int(parts["second"] or 0), int((parts.get("fraction") or "")[:6].ljust(6, "0")), timezone(offset),
        )  # fmt: skip
    except ValueError:
        return None
    is_none = moment.year < _YEAR_MIN or (len(parts["year"] or "") == 2 and moment.replace(tzinfo=None) == _NO_DATE)
    return None if is_none else values.instant(moment.isoformat())


def _month_of(parts: dict[str, str | None]) -> int | None:
    number, name = parts.get("number"), parts.get("month")
    return int(number) if number else _MONTHS.get((name or "").lower())


def _year_of(digits: str | None) -> int:
    year = int(digits or 0)
    return year if len(digits or "") == 4 else year + (1900 if year >= _CENTURY_FROM else 2000)


def _offset_of(zone: str | None) -> timedelta | None:
    written = (zone or "").strip()
    found = _OFFSET.fullmatch(written)
    if found is None:
        hours = _ZONES.get(written.upper())
        return None if hours is None else timedelta(hours=hours)
    sign, hours, minutes = -1 if found[1] == "-" else 1, int(found[2]), int(found[3] or 0)
    is_offset = hours <= _OFFSET_HOURS_MAX and minutes < 60
    return sign * timedelta(hours=hours, minutes=minutes) if is_offset else None
