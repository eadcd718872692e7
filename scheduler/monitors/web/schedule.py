"""The schedule of a watch as sent: minutes, a cron expression, or a few words (decisions 21)."""

from __future__ import annotations

import re
from typing import Final

from scheduler.clock.cadence import Cadence, read_cadence
from scheduler.errors import CadenceInvalid, MonitorInvalid
from scheduler.json_input import quoted

MINUTES_LEAST: Final = 5
MINUTES_MAX: Final = 1_440
_HOW: Final = "Send one of cadence_minutes, schedule_cron and schedule_text."
_MINUTES_HOW: Final = "Send 5 to 60, or whole hours up to 1440, such as 15 or 720."
_TEXT_HOW: Final = (
    "Send words such as every 15 minutes, hourly, daily at 9:30, weekdays at 7:00 or every monday at 8:00."
)
_EVERY = re.compile(r"every (\d{1,4}) ?(min|hour)(?:ute)?s?")
_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_AT = re.compile(
    rf"(?:every )?(day|daily|weekdays?|{'|'.join(_DAYS)})s?(?: at (\d{{1,2}})(?::(\d\d))? ?(am|pm)?)?",
)


def read_schedule(
    minutes: int | None, cron: str | None, text: str | None, timezone: str | None, now: float
) -> Cadence | None:
    """Return the cadence that was sent in one of three forms, or None if none was sent.

    Raises:
        MonitorInvalid: the schedule cannot be read, or several forms were sent.
    """
    sent = {"cadence_minutes": minutes, "schedule_cron": cron, "schedule_text": text}
    named = [name for name, value in sent.items() if value is not None]
    if len(named) > 1:
        raise MonitorInvalid(named[1], f"cannot be combined with {named[0]}", _HOW, reason="conflicting_params")
    if text is not None:
        minutes, cron = _of_words(text)
    if timezone is not None and cron is None:
        raise MonitorInvalid("timezone", "has no effect without schedule_cron or a time of day", _HOW)
    if minutes is not None:
        return _of_minutes(minutes, named[0])
    if cron is None:
        return None
    try:
        return read_cadence({"cron": cron, **({} if timezone is None else {"timezone": timezone})}, now)
    except CadenceInvalid as exc:
        name = "timezone" if exc.param.endswith("timezone") else named[0]
        raise MonitorInvalid(name, exc.problem, exc.next_step, did_you_mean=exc.did_you_mean) from exc


def due_schedule(cadence: Cadence | None) -> Cadence:
    """Return the cadence, which is required. Raises MonitorInvalid if it is None."""
    if cadence is None:
        raise MonitorInvalid("cadence_minutes", "is required unless schedule_cron or schedule_text is set", _HOW)
    return cadence


def _of_minutes(minutes: int, name: str) -> Cadence:
    within_hour = MINUTES_LEAST <= minutes <= 60
    if not within_hour and (minutes % 60 or not 60 <= minutes <= MINUTES_MAX):
        raise MonitorInvalid(name, f"must be 5 to 60 minutes or whole hours up to 24, not {minutes}", _MINUTES_HOW)
    return Cadence("minutes", minutes=minutes)


def _of_words(text: str) -> tuple[int | None, str | None]:
    """Return minutes or a cron expression for a schedule in words."""
    words = " ".join(text.lower().split())
    if words in ("hourly", "every hour"):
        return 60, None
    if found := _EVERY.fullmatch(words):
        return int(found[1]) * (60 if found[2] == "hour" else 1), None
    found = _AT.fullmatch(words)
    hour = _hour(found[2], found[4]) if found else None
    if found is None or hour is None or int(found[3] or 0) > 59:
        raise MonitorInvalid("schedule_text", f"cannot be read: {quoted(text)}", _TEXT_HOW)
    days = "1-5" if found[1].startswith("weekday") else str(_DAYS.index(found[1])) if found[1] in _DAYS else "*"
    return None, f"{int(found[3] or 0)} {hour} * * {days}"


def _hour(hour: str | None, half: str | None) -> int | None:
    """Return the hour of the day, 0 by default, or None if it is not valid."""
    if hour is None:
        return 0
    number = int(hour)
    if half is None:
        return number if number < 24 else None
    return number % 12 + (12 if half == "pm" else 0) if 1 <= number <= 12 else None
