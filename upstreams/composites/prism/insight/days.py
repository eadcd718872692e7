"""Whole days in UTC: windows of days, and series with one value per day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import words
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param

GROUPS: Final = ("day", "week", "month")
DAYS_MAX: Final = 3_700
"""The maximum length of a window in days, which is about ten years."""
_ONE = timedelta(days=1)
_FIRST: Final = date(1970, 1, 1)


class DaySpan(NamedTuple):
    """All days from the first to the last, including both."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days in the window."""
        return (self.last - self.first).days + 1

    def holds(self, day: date) -> bool:
        """Return whether a day is in the window."""
        return self.first <= day <= self.last

    def each(self) -> Iterator[date]:
        """Yield all days of the window in order."""
        return (self.first + place * _ONE for place in range(self.days))

    def record(self) -> Record:
        """Return the window in the form of the response."""
        return words.window(date_from=self.first.isoformat(), date_to=self.last.isoformat(), days=self.days)


def day_param(name: str, description: str, *, required: bool = False) -> Param:
    """Return a parameter for a day."""
    return Param(
        name,
        f"{description}, such as 2024-06-01.",
        "2024-06-01",
        required=required,
        pattern=r"\d{4}-\d{2}-\d{2}",
        problem="must be a day, such as 2024-06-01",
    )


def today(args: Args) -> date:
    """Return the day of the request, in UTC."""
    return datetime.fromtimestamp(args.now_at, UTC).date()


def day_of(args: Args, name: str) -> date | None:
    """Return the day that a parameter contains, or None if the request does not contain the parameter.

    Raises:
        InvalidArgument: The day does not exist, or is before 1970.
    """
    text = args.text_or_none(name)
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError as exc:
        raise InvalidArgument(name, "must be a valid date, such as 2024-06-01") from exc
    if day < _FIRST:
        raise InvalidArgument(name, f"must not be before {_FIRST}")
    return day


def span(args: Args, first: str, last: str, *, back_days: int) -> DaySpan:
    """Return the window that two parameters describe. By default, it ends today and starts `back_days` earlier.

    Raises:
        InvalidArgument: The window ends before it starts, starts in the future, or is longer than ten years.
    """
    until = day_of(args, last) or today(args)
    since = day_of(args, first) or until - back_days * _ONE
    if since > until:
        raise InvalidArgument(first, f"must not be after {last}")
    if since > today(args):
        raise InvalidArgument(first, "must not be in the future")
    if (until - since).days >= DAYS_MAX:
        raise InvalidArgument(first, f"must be fewer than {DAYS_MAX} days before {last}")
    return DaySpan(since, until)


def instant_day(instant: str | None) -> date | None:
    """Return the day of a record's timestamp, or None if the record has none."""
    return None if instant is None else date.fromisoformat(instant[:10])


def group_of(day: date, group: str) -> date:
    """Return the first day of the month or week that a day belongs to. Weeks start on Monday."""
    if group == "week":
        return day - day.weekday() * _ONE
    return day.replace(day=1) if group == "month" else day


def counted(days: Iterable[date], window: DaySpan) -> dict[date, int]:
    """Return how often each day in a window occurs, including days that never do."""
    found = Counter(days)
    return {day: found[day] for day in window.each()}
