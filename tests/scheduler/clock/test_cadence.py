"""The forms of a cadence, and their slots in zones without clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.clock.cadence import (
    Cadence,
    next_slot,
    read_cadence,
    runs_a_month,
    slots_between,
    stored_cadence,
)
from scheduler.errors import CadenceInvalid

DAY_S = 86_400


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


AT = unix("2026-05-04 10:20:30")
SENT = (
    "hourly",
    "daily",
    "weekly",
    {"cron": "*/5 * * * *"},
    {"cron": "15 3 1 * *", "timezone": "America/New_York"},
    {"cron": "0 9-17/2 * * 1-5", "timezone": "Europe/Berlin"},
    {"cron": "30 * * * *", "timezone": "Australia/Lord_Howe"},
    {"cron": "0 0 L * *", "timezone": "Africa/Cairo"},
)
INSTANTS = st.floats(unix("2026-01-01"), unix("2029-01-01"))


@pytest.mark.parametrize("sent", SENT, ids=str)
def test_cadence_json_round_trips(sent):
    cadence = read_cadence(sent, AT)
    assert cadence.to_json() == sent
    assert stored_cadence(cadence.to_json()) == cadence
    assert read_cadence(sent, AT) == cadence


@pytest.mark.parametrize(
    ("sent", "text"),
    [("daily", "daily"), (SENT[3], "*/5 * * * * (UTC)"), (SENT[4], "15 3 1 * * (America/New_York)")],
)
def test_cadence_text_is_one_line(sent, text):
    assert read_cadence(sent, AT).text == text


@pytest.mark.parametrize(
    ("sent", "after", "expected"),
    [
        ("hourly", "2026-05-04 10:20:30", "2026-05-04 11:00:00"),
        ("hourly", "2026-05-04 11:00:00", "2026-05-04 12:00:00"),
        ("daily", "2026-05-04 10:20:30", "2026-05-05 10:20:30"),
        ("daily", "2026-05-05 10:20:30", "2026-05-06 10:20:30"),
        ("daily", "2026-05-05 10:20:29", "2026-05-05 10:20:30"),
        ("daily", "2026-05-01 00:00:00", "2026-05-05 10:20:30"),
        ("weekly", "2026-05-04 10:20:30", "2026-05-11 10:20:30"),
        ({"cron": "0 0 * * *"}, "2026-05-01 00:00:00", "2026-05-05 00:00:00"),
        ({"cron": "0 0 29 2 *"}, "2026-05-04 10:20:30", "2028-02-29 00:00:00"),
        ({"cron": "0 0 29 2 *"}, "2028-02-29 00:00:00", "2032-02-29 00:00:00"),
        ({"cron": "0 12 31 * *"}, "2026-05-31 12:00:00", "2026-07-31 12:00:00"),
        ({"cron": "0 0 L * *"}, "2028-02-01 00:00:00", "2028-02-29 00:00:00"),
        ({"cron": "0 0 * * 7"}, "2026-05-04 10:20:30", "2026-05-10 00:00:00"),
        ({"cron": "0 0 13 * 5"}, "2026-05-04 10:20:30", "2026-05-08 00:00:00"),
        ({"cron": "0 0 */29 2 */7"}, "2026-05-04 10:20:30", "2032-02-01 00:00:00"),
        ({"cron": "0 9 1 1 *", "timezone": "Asia/Tokyo"}, "2026-05-04 10:20:30", "2027-01-01 00:00:00"),
        ({"cron": "0 0 * * *", "timezone": "Asia/Kathmandu"}, "2026-05-04 10:20:30", "2026-05-04 18:15:00"),
    ],
)
def test_each_cadence_has_the_expected_next_slot(sent, after, expected):
    assert next_slot(stored_cadence(sent), unix(after), AT) == unix(expected)


@given(st.sampled_from(SENT), INSTANTS, st.floats(0, 400 * DAY_S))
def test_next_slot_is_the_first_after_the_given_time(sent, created_at, waited_s):
    cadence, after = stored_cadence(sent), created_at + waited_s
    slot = next_slot(cadence, after, created_at)
    assert slot > after
    assert slot.is_integer()
    assert slots_between(cadence, after, slot, created_at=created_at, limit=3) == [slot]
    assert next_slot(cadence, (after + slot) / 2, created_at) == slot


@given(st.sampled_from(SENT), INSTANTS, st.floats(-DAY_S, 40 * DAY_S), st.integers(0, 40))
def test_slots_between_equals_repeated_next_slot_and_keeps_the_newest(sent, created_at, span_s, limit):
    cadence, upto = stored_cadence(sent), created_at + span_s
    one_by_one, slot = [], next_slot(cadence, created_at, created_at)
    while slot <= upto:
        one_by_one.append(slot)
        slot = next_slot(cadence, slot, created_at)
    newest = one_by_one[-limit:] if limit else []
    assert slots_between(cadence, created_at - DAY_S, upto, created_at=created_at, limit=limit) == newest
    assert all(later - before >= 300 for before, later in pairwise(one_by_one))


@given(st.sampled_from([sent for sent in SENT if isinstance(sent, dict)]), INSTANTS)
def test_monthly_runs_equal_the_slots_of_30_days(sent, at):
    cadence = stored_cadence(sent)
    slots = slots_between(cadence, at, at + 30 * DAY_S, created_at=at, limit=10_000)
    assert runs_a_month(cadence, at) == len(slots)


@pytest.mark.parametrize(
    ("sent", "runs"),
    [("hourly", 730), ("daily", 30), ("weekly", 4), ({"cron": "*/30 * * * *"}, 1440), ({"cron": "0 0 1 * *"}, 1)],
)
def test_each_cadence_has_the_expected_monthly_runs(sent, runs):
    assert runs_a_month(read_cadence(sent, AT), AT) == runs


@pytest.mark.parametrize(
    ("sent", "param", "problem", "meant"),
    [
        ("Hourly", "cadence", "must be hourly", "hourly"),
        ("dayly", "cadence", "must be hourly", "daily"),
        ("sometimes", "cadence", "must be hourly", None),
        (None, "cadence", "not null", None),
        (5, "cadence", "not a number", None),
        (["daily"], "cadence", "not an array", None),
        ({}, "cadence.cron", "must be text, not null", None),
        ({"cron": 5}, "cadence.cron", "must be text, not a number", None),
        ({"corn": "0 0 * * *"}, "cadence.corn", "is an unknown field", "cron"),
        ({"cron": "0 0 * * *", "tz": "UTC"}, "cadence.tz", "is an unknown field", None),
        ({"cron": ""}, "cadence.cron", "1 to 120 characters", None),
        ({"cron": f"0 0 {'1,' * 60}1 * *"}, "cadence.cron", "1 to 120 characters", None),
        ({"cron": "@daily"}, "cadence.cron", "must not be a macro", None),
        ({"cron": "0 0 * *"}, "cadence.cron", "5 fields, not 4", None),
        ({"cron": "0 0 0 * * *"}, "cadence.cron", "5 fields, not 6", None),
        ({"cron": "0 0 * * MON"}, "cadence.cron", "by numbers", None),
        ({"cron": "0 0 * JAN *"}, "cadence.cron", "by numbers", None),
        ({"cron": "0 0 ? * *"}, "cadence.cron", "by numbers", None),
        ({"cron": "٣ 0 * * *"}, "cadence.cron", "by numbers", None),
        ({"cron": "60 0 * * *"}, "cadence.cron", "not a cron expression: bad minute", None),
        ({"cron": "0 24 * * *"}, "cadence.cron", "not a cron expression: bad hour", None),
        ({"cron": "*/0 0 * * *"}, "cadence.cron", "not a cron expression: bad minute", None),
        ({"cron": "0 0 30 2 *"}, "cadence.cron", "not a cron expression: bad day-of-month", None),
        ({"cron": "0 0 29 2 *"}, "cadence.cron", "does not fire within 366 days", None),
        ({"cron": "0 0 * 2 1#5"}, "cadence.cron", "does not fire within 366 days", None),
        ({"cron": "* * * * *"}, "cadence.cron", "fires twice within 5 minutes", None),
        ({"cron": "*/7 * * * *"}, "cadence.cron", "fires twice within 5 minutes", None),
        ({"cron": "2,58 0,23 * * *"}, "cadence.cron", "for example at 2026-05-05T00:02:00Z", None),
        (
            {"cron": "4,50 2,3 * * *", "timezone": "Europe/Berlin"},
            "cadence.cron",
            "for example at 2027-03-28T01:04:00Z",
            None,
        ),
        ({"cron": "0 0 * * *", "timezone": "europe/berlin"}, "cadence.timezone", "IANA", "Europe/Berlin"),
        ({"cron": "0 0 * * *", "timezone": "Europe/Berlim"}, "cadence.timezone", "IANA", "Europe/Berlin"),
        ({"cron": "0 0 * * *", "timezone": "../../etc/passwd"}, "cadence.timezone", "IANA", None),
        ({"cron": "0 0 * * *", "timezone": ""}, "cadence.timezone", "IANA", None),
        ({"cron": "0 0 * * *", "timezone": 2}, "cadence.timezone", "not a number", None),
        ({"cron": "0 0 * * *", "timezone": "+02:00"}, "cadence.timezone", "IANA", None),
    ],
)
def test_invalid_cadence_is_rejected_with_a_suggestion(sent, param, problem, meant):
    with pytest.raises(CadenceInvalid) as refused:
        read_cadence(sent, AT)
    assert refused.value.param == param
    assert problem in refused.value.problem
    assert refused.value.did_you_mean == meant
    assert refused.value.next_step.endswith(".")


def test_slots_around_midnight_are_allowed_on_days_that_are_not_consecutive():
    assert read_cadence({"cron": "2,58 0,23 1 * *"}, AT) == Cadence("cron", "2,58 0,23 1 * *")


def test_leap_day_cron_is_accepted_within_366_days():
    assert read_cadence({"cron": "0 0 29 2 *"}, unix("2027-02-28 00:00:01"))
    with pytest.raises(CadenceInvalid, match="366 days"):
        read_cadence({"cron": "0 0 29 2 *"}, unix("2027-02-27 23:59:59"))


FIELD = st.text("0123456789*,-/L#W", min_size=1, max_size=12)


@given(st.one_of(st.lists(FIELD, min_size=5, max_size=5).map(" ".join), st.text(max_size=130)))
def test_any_text_is_a_valid_cadence_or_rejected(expression):
    try:
        cadence = read_cadence({"cron": expression, "timezone": "Europe/Berlin"}, AT)
    except CadenceInvalid:
        return
    slot = next_slot(cadence, AT, AT)
    assert AT < slot <= AT + 366 * DAY_S
    assert next_slot(cadence, slot, AT) >= slot + 300
