"""The slots of a monitor, the start times of monitors that share a slot, and the turns of accounts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.clock.cadence import read_cadence
from scheduler.clock.catch_up import CROWD_LEAST, RECORDED_MAX, SPREAD_MAX_S, Ready, due_slots, in_turn, start_of

CADENCES = ("hourly", "daily", "weekly", {"cron": "*/5 * * * *"}, {"cron": "30 2 * * *", "timezone": "Europe/Berlin"})
MADE_AT = 1_780_000_000.0

cadences = st.sampled_from(CADENCES).map(lambda sent: read_cadence(sent, MADE_AT))
delays = st.floats(0, 400 * 86_400.0)
accounts = st.sampled_from("abcd")
waiting = st.lists(st.tuples(st.integers(0, 50), accounts), max_size=80)
busy = st.dictionaries(accounts, st.integers(0, 25))


@given(cadences, delays, delays)
def test_newest_missed_slot_runs_and_the_next_is_in_the_future(cadence: object, first_s: float, late_s: float) -> None:
    first = due_slots(cadence, MADE_AT, MADE_AT + first_s, created_at=MADE_AT).next_at  # type: ignore[arg-type]
    now = first + late_s
    due = due_slots(cadence, first, now, created_at=MADE_AT)  # type: ignore[arg-type]
    assert due.newest is not None
    recorded = [missed.slot for missed in due.missed]
    assert recorded == sorted(set(recorded))
    assert all(first <= slot < due.newest for slot in recorded)
    assert first <= due.newest <= now < due.next_at
    assert len(recorded) <= RECORDED_MAX + 1
    assert first in [*recorded, due.newest]


@given(cadences, delays)
def test_slot_is_not_returned_before_its_time(cadence: object, early_s: float) -> None:
    first = due_slots(cadence, MADE_AT, MADE_AT, created_at=MADE_AT).next_at  # type: ignore[arg-type]
    due = due_slots(cadence, first, first - 1.0 - early_s, created_at=MADE_AT)  # type: ignore[arg-type]
    assert (due.newest, due.missed) == (None, [])
    assert due.next_at == first


@given(st.text(max_size=40), st.integers(0, 20_000))
def test_spread_start_is_stable_and_within_a_minute(monitor_id: str, crowd: int) -> None:
    start_at = start_of(1_000.0, monitor_id, crowd)
    assert start_at == start_of(1_000.0, monitor_id, crowd)
    assert 1_000.0 <= start_at < 1_000.0 + SPREAD_MAX_S
    assert crowd >= CROWD_LEAST or start_at == 1_000.0


@given(waiting, busy, st.integers(-3, 100), st.integers(1, 25))
def test_in_turn_is_round_robin_over_accounts(
    waits: list[tuple[int, str]], under_way: dict[str, int], free: int, each_max: int
) -> None:
    ready = [Ready(float(at), account, f"run_{place}") for place, (at, account) in enumerate(waits)]
    chosen = in_turn(ready, under_way, free=free, each_max=each_max)
    assert len(chosen) == len(set(chosen)) <= max(0, free)
    given_to = Counter(under_way) + Counter(one.account_id for one in chosen)
    for account in {one.account_id for one in chosen}:
        own = sorted(one for one in ready if one.account_id == account)
        taken = given_to[account] - under_way.get(account, 0)
        assert [one for one in chosen if one.account_id == account] == own[:taken]
        assert given_to[account] <= each_max
    for one in set(ready) - set(chosen):  # the account already has as many in progress as others, or has no free slot
        if len(chosen) < free:
            assert given_to[one.account_id] >= each_max
        else:
            assert all(given_to[one.account_id] + 1 >= given_to[other.account_id] for other in chosen)
