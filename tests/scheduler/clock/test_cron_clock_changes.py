"""Cron expressions while the clocks change: a skipped time runs once after the gap, a repeated time runs once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clock.cadence import next_slot, slots_between, stored_cadence

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
DAY_S = 86_400


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def slots(expression: str, zone: str, begin: float, end: float) -> list[str]:
    cadence = stored_cadence({"cron": expression, "timezone": zone})
    found = slots_between(cadence, begin, end, created_at=begin, limit=10_000)
    return [datetime.fromtimestamp(slot, UTC).strftime("%d %H:%M") for slot in found]


FORWARD = [
    # the gap in local time, the timestamp of the change, and the slots in the 26 hours around it
    (BERLIN, "2026-03-29 01:00", "30 2 * * *", ["28 01:30", "29 01:00"]),
    (BERLIN, "2027-03-28 01:00", "30 2 * * *", ["27 01:30", "28 01:00"]),
    (BERLIN, "2028-03-26 01:00", "30 2 * * *", ["25 01:30", "26 01:00"]),
    (BERLIN, "2026-03-29 01:00", "0 2 * * *", ["28 01:00", "29 01:00"]),
    (BERLIN, "2026-03-29 01:00", "0,15,30 2 * * *", ["28 01:00", "28 01:15", "28 01:30", "29 01:00"]),
    (BERLIN, "2026-03-29 01:00", "*/30 2,3 * * *", ["28 01:00", "28 01:30", "28 02:00", "28 02:30", "29 01:00"]),
    (BERLIN, "2026-03-29 01:00", "59 1 * * *", ["28 00:59", "29 00:59"]),
    (BERLIN, "2026-03-29 01:00", "0 3 * * *", ["28 02:00", "29 01:00"]),
    (BERLIN, "2026-03-29 01:00", "0 0-6/2 * * *", ["28 01:00", "28 03:00", "28 05:00", "28 23:00", "29 01:00"]),
    (NEW_YORK, "2026-03-08 07:00", "30 2 * * *", ["07 07:30", "08 07:00"]),
    (NEW_YORK, "2027-03-14 07:00", "30 2 * * *", ["13 07:30", "14 07:00"]),
    (NEW_YORK, "2028-03-12 07:00", "30 2 * * *", ["11 07:30", "12 07:00"]),
    (LORD_HOWE, "2026-10-03 15:30", "15 2 * * *", ["02 15:45", "03 15:30"]),
    (LORD_HOWE, "2027-10-02 15:30", "15 2 * * *", ["01 15:45", "02 15:30"]),
    (LORD_HOWE, "2028-09-30 15:30", "15 2 * * *", ["29 15:45", "30 15:30"]),
    (LORD_HOWE, "2026-10-03 15:30", "30 2 * * *", ["02 16:00", "03 15:30"]),
    ("Africa/Cairo", "2026-04-23 22:00", "0 0 * * *", ["22 22:00", "23 22:00"]),
    ("Africa/Cairo", "2026-04-23 22:00", "30 0 24 * *", ["23 22:00"]),
]
BACK = [
    (BERLIN, "2026-10-25 01:00", "30 2 * * *", ["25 00:30"]),
    (BERLIN, "2027-10-31 01:00", "30 2 * * *", ["31 00:30"]),
    (BERLIN, "2028-10-29 01:00", "30 2 * * *", ["29 00:30"]),
    (BERLIN, "2026-10-25 01:00", "*/30 2 * * *", ["25 00:00", "25 00:30"]),
    (BERLIN, "2026-10-25 01:00", "0 1-4 * * *", ["24 23:00", "25 00:00", "25 02:00", "25 03:00"]),
    (NEW_YORK, "2026-11-01 06:00", "30 1 * * *", ["01 05:30"]),
    (NEW_YORK, "2027-11-07 06:00", "30 1 * * *", ["07 05:30"]),
    (NEW_YORK, "2028-11-05 06:00", "30 1 * * *", ["05 05:30"]),
    (LORD_HOWE, "2026-04-04 15:00", "45 1 * * *", ["04 14:45"]),
    (LORD_HOWE, "2027-04-03 15:00", "45 1 * * *", ["03 14:45"]),
    (LORD_HOWE, "2028-04-01 15:00", "45 1 * * *", ["01 14:45"]),
    ("America/Santiago", "2026-04-05 03:00", "30 23 * * *", ["05 02:30"]),
]
EVERY_HOUR = [
    # An hourly cadence skips and repeats no local hour, because it runs every elapsed hour.
    (BERLIN, "2026-03-29 01:00", "0 * * * *", ["28 23:00", "29 00:00", "29 01:00", "29 02:00", "29 03:00"]),
    (BERLIN, "2026-03-29 01:00", "30 */1 * * *", ["28 23:30", "29 00:30", "29 01:30", "29 02:30"]),
    (BERLIN, "2026-10-25 01:00", "0 * * * *", ["24 23:00", "25 00:00", "25 01:00", "25 02:00", "25 03:00"]),
    (NEW_YORK, "2026-11-01 06:00", "30 * * * *", ["01 04:30", "01 05:30", "01 06:30", "01 07:30"]),
    (LORD_HOWE, "2026-10-03 15:30", "0 * * * *", ["03 13:30", "03 14:30", "03 16:00", "03 17:00"]),
    (LORD_HOWE, "2026-04-04 15:00", "30 * * * *", ["04 13:30", "04 14:30", "04 15:00", "04 16:00", "04 17:00"]),
]


@pytest.mark.parametrize(("zone", "change", "expression", "expected"), FORWARD)
def test_skipped_local_time_runs_once_after_the_gap(zone, change, expression, expected):
    assert slots(expression, zone, unix(change) - 24.5 * 3600, unix(change) + 60) == expected


@pytest.mark.parametrize(("zone", "change", "expression", "expected"), BACK)
def test_repeated_local_time_runs_only_once(zone, change, expression, expected):
    assert slots(expression, zone, unix(change) - 2.5 * 3600, unix(change) + 2.5 * 3600) == expected


@pytest.mark.parametrize(("zone", "change", "expression", "expected"), EVERY_HOUR)
def test_hourly_cron_runs_every_elapsed_hour(zone, change, expression, expected):
    assert slots(expression, zone, unix(change) - 2.5 * 3600, unix(change) + 2.5 * 3600)[: len(expected)] == expected


NAMED_HOURS = st.builds(
    "{} {} * * *".format,
    st.sets(st.integers(0, 59), min_size=1, max_size=4).map(lambda found: ",".join(map(str, found))),
    st.sets(st.integers(0, 4), min_size=1, max_size=4).map(lambda found: ",".join(map(str, found))),
)
WITH_DATES = st.builds(
    "{} {} {} {} {}".format,
    st.sampled_from(["0", "17", "5,35", "*/20"]),
    st.sampled_from(["2", "1,2,3", "23", "0-3", "*"]),
    st.sampled_from(["*", "1", "25-31", "*/3", "L", "LW"]),
    st.sampled_from(["*", "3,10", "2"]),
    st.sampled_from(["*", "7", "1-5", "0#1", "5L"]),
)
ZONES = st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "Africa/Cairo", "America/Santiago", "Asia/Kolkata", "UTC"])


@given(NAMED_HOURS, ZONES, st.integers(int(unix("2026-01-01")), int(unix("2028-12-31"))))
def test_each_local_time_of_a_date_runs_exactly_once(expression, zone, begin):
    """Goal: no slot is missed or repeated. Method: count each date's times by the local clock, minute by minute."""
    begin, end = begin - begin % 60, begin - begin % 60 + 3 * DAY_S
    minutes, hours = (set(map(int, field.split(","))) for field in expression.split()[:2])
    due: dict[datetime, int] = {}
    previous = datetime.fromtimestamp(begin - DAY_S, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    for instant in range(begin - DAY_S, end + 1, 60):
        local = datetime.fromtimestamp(instant, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        while previous < local:  # every local minute passed so far, whether the clock showed it or skipped it
            previous += timedelta(minutes=1)
            if previous.minute in minutes and previous.hour in hours:
                due.setdefault(previous, instant)
        previous = max(previous, local)
    expected = sorted({float(instant) for instant in due.values() if instant > begin})
    cadence = stored_cadence({"cron": expression, "timezone": zone})
    assert slots_between(cadence, begin, end, created_at=begin, limit=1_000) == expected


@given(WITH_DATES, ZONES, st.integers(int(unix("2026-01-01")), int(unix("2028-12-31"))))
def test_slots_match_cronsim_in_local_time_mode(expression, zone, after):
    """Method: compare with cronsim, on fields without stars, which it also handles in local time."""
    cadence = stored_cadence({"cron": expression, "timezone": zone})
    spelt = expression.replace("*/20 ", "0,20,40 ", 1)
    if spelt.split()[1] == "*" and zone not in ("UTC", "Asia/Kolkata"):
        return
    walked = CronSim(spelt, datetime.fromtimestamp(after, ZoneInfo(zone)) - timedelta(days=1))
    expected = next(slot.timestamp() for slot in walked if slot.timestamp() > after)
    assert next_slot(cadence, after, after) == expected
