"""Cron expressions in a timezone: when they fire, including days on which the clock changes (decisions 12).

cronsim parses the expression and decides which dates match. The times on a date are computed from its local clock; the
clock's offset changes at most once a day. An expression that names hours runs at those local times: a time that the
clock skips runs once, right after the gap, and a repeated time runs only the first time. An expression that runs every
hour cannot miss an hour: it runs at each of its minutes in every hour that passes, including a repeated one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86_400
_FAR_DAYS = 41 * 366
"""Longer than the longest gap between two times: 29 February falls on a given weekday at least every 40 years."""


class _Clock(NamedTuple):
    """A zone's clock on one date: midnight in local seconds, the offsets at both ends, and when the offset changes."""

    midnight: int
    before: int
    after: int
    changes_at: int

    @property
    def changes(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True, eq=False)
class Cron:
    """A parsed expression. `seconds` contains its times of day, counted from midnight."""

    seconds: tuple[int, ...]
    every_hour: bool
    zone: ZoneInfo
    _dates: CronSim

    def first_after(self, after: float, *, within_days: int = _FAR_DAYS) -> int | None:
        """Return the first time after `after`, or None if there is none within `within_days`."""
        first = _date_of(after, self.zone)
        for ordinal in range(first, first + within_days):
            slots = self._times_on(ordinal)
            if slots and slots[-1] > after:
                return slots[bisect_right(slots, after)]
        return None

    def newest(self, after: float, upto: float, limit: int) -> list[int]:
        """Return the newest `limit` times after `after` and up to `upto`, in order."""
        newest_first: list[int] = []
        for ordinal in range(_date_of(upto, self.zone), _date_of(after, self.zone) - 1, -1):
            slots = self._times_on(ordinal)
            newest_first += reversed(slots[bisect_right(slots, after) : bisect_right(slots, upto)])
            if len(newest_first) >= limit:
                break
        return newest_first[:limit][::-1]

    def count(self, after: float, upto: float) -> int:
        """Return the number of times after `after` and up to `upto`."""
        first, last = _date_of(after, self.zone), _date_of(upto, self.zone)
        ends = [self._times_on(ordinal) for ordinal in sorted({first, last})]
        at_ends = sum(bisect_right(slots, upto) - bisect_right(slots, after) for slots in ends)
        return at_ends + sum(self._size_of(ordinal) for ordinal in range(first + 1, last))

    def crowded_at(self, after: float, *, apart_s: int, days: int) -> int | None:
        """Return a time that comes less than `apart_s` after another one within `days`, or None."""
        return next((later for before, later in self._neighbours(after, days) if later - before < apart_s), None)

    def _neighbours(self, after: float, days: int) -> Iterator[tuple[int, int]]:
        """Yield pairs of consecutive times.

        All days without a clock change have the same pairs, so only the first of these days yields them.
        """
        first, last, is_listed = _date_of(after, self.zone), None, False
        for ordinal in range(first, first + days):
            slots = self._times_on(ordinal)
            if not slots:
                continue
            if last is not None:
                yield last, slots[0]
            changes = _clock(self.zone, ordinal).changes
            if changes or not is_listed:
                yield from pairwise(slots)
            is_listed = is_listed or not changes
            last = slots[-1]

    def _size_of(self, ordinal: int) -> int:
        """Return the number of times on a local date, without listing them if the clock does not change."""
        if _clock(self.zone, ordinal).changes:
            return len(self._times_on(ordinal))
        return len(self.seconds) if self._has(ordinal) else 0

    def _has(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        return day.month in self._dates.months and bool(self._dates.match_day(day))

    def _times_on(self, ordinal: int) -> list[int]:
        """Return the times on one local date in ascending order."""
        if not self._has(ordinal):
            return []
        clock = _clock(self.zone, ordinal)
        if not clock.changes:
            start = clock.midnight - clock.before
            return [start + second for second in self.seconds]
        return _actual_times(self.seconds, clock) if self.every_hour else _wall_clock_times(self.seconds, clock)


def read_cron(expression: str, zone: ZoneInfo) -> Cron:
    """Parse five fields.

    Raises:
        cronsim.CronSimError: they are not a cron expression, or no date can match.
    """
    read = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - any start: single dates are checked
    minutes, hours = sorted(read.minutes), sorted(read.hours)
    seconds = tuple(hour * 3600 + minute * 60 for hour in hours for minute in minutes)
    return Cron(seconds, len(hours) == 24, zone, read)


def _wall_clock_times(seconds: tuple[int, ...], clock: _Clock) -> list[int]:
    """Return local times as a wall clock shows them: skipped times at the end of the gap, repeated times only once."""
    change = clock.changes_at + clock.before
    instants = (
        local - clock.before if local < change else max(local - clock.after, clock.changes_at)
        for local in (clock.midnight + second for second in seconds)
    )
    return list(dict.fromkeys(instants))


def _actual_times(seconds: tuple[int, ...], clock: _Clock) -> list[int]:
    """Return each occurrence of the local times: none for skipped times, two for repeated times."""
    local = [clock.midnight + second for second in seconds]
    stopped, resumed = clock.changes_at + clock.before, clock.changes_at + clock.after
    return [at - clock.before for at in local if at < stopped] + [at - clock.after for at in local if at >= resumed]


@lru_cache(maxsize=4_096)
def _clock(zone: ZoneInfo, ordinal: int) -> _Clock:
    """Return the clock of a date. Cached, because the monitors of a zone use the same few dates."""
    midnight = (ordinal - _EPOCH) * _DAY_S
    before, after = _offset_at_midnight(zone, ordinal), _offset_at_midnight(zone, ordinal + 1)
    if before == after:
        return _Clock(midnight, before, after, midnight)
    early, late = midnight - before, midnight + _DAY_S - after
    while early < late:
        middle = (early + late) // 2
        if _offset_s(datetime.fromtimestamp(middle, zone)) == after:
            late = middle
        else:
            early = middle + 1
    return _Clock(midnight, before, after, early)


def _offset_at_midnight(zone: ZoneInfo, ordinal: int) -> int:
    return _offset_s(datetime.combine(date.fromordinal(ordinal), time(), zone))


def _offset_s(local: datetime) -> int:
    offset = local.utcoffset()
    assert offset is not None, "the instant has a zone"
    return offset // timedelta(seconds=1)


def _date_of(at: float, zone: ZoneInfo) -> int:
    return datetime.fromtimestamp(at, zone).toordinal()
