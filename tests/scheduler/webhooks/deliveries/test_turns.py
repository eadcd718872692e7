"""In which order deliveries are chosen."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.webhooks.deliveries.turns import DueDelivery, in_turn

_HOSTS, _ACCOUNTS = st.sampled_from("abc"), st.sampled_from("xyz")
_DUES = st.lists(st.tuples(st.integers(0, 50), _HOSTS, _ACCOUNTS), max_size=60).map(
    lambda found: [
        DueDelivery(float(at), host, account, f"d{number}") for number, (at, host, account) in enumerate(found)
    ]
)


def _in_turn(due: list[DueDelivery], busy: list[DueDelivery] | None = None, *, free: int = 100) -> list[str]:
    return [one.id for one in in_turn(due, busy or [], free=free, host_max=2, account_max=4)]


def test_accounts_take_turns_regardless_of_queue_order() -> None:
    due = [DueDelivery(float(n), f"h{n}", "big", f"big{n}") for n in range(5)] + [
        DueDelivery(9.0, "h", "small", "small")
    ]
    assert _in_turn(due) == ["big0", "small", "big1", "big2", "big3"]


def test_account_with_attempts_in_progress_comes_last() -> None:
    busy = [DueDelivery(0.0, "h", "big", "under way")]
    due = [DueDelivery(1.0, "i", "big", "big"), DueDelivery(2.0, "j", "small", "small")]
    assert _in_turn(due, busy, free=1) == ["small"]


def test_full_host_does_not_block_later_deliveries() -> None:
    due = [DueDelivery(float(n), "full", "x", f"full{n}") for n in range(1_000)] + [
        DueDelivery(2_000.0, "other", "x", "other")
    ]
    assert _in_turn(due) == ["full0", "full1", "other"]


def test_accounts_share_a_host_fairly() -> None:
    due = [DueDelivery(float(n), "shared", "x", f"x{n}") for n in range(100)] + [DueDelivery(500.0, "shared", "y", "y")]
    assert _in_turn(due) == ["x0", "y"]


@given(due=_DUES, busy=_DUES, free=st.integers(0, 20))
def test_limits_are_respected_and_no_room_is_wasted(due: list[DueDelivery], busy: list[DueDelivery], free: int) -> None:
    chosen = in_turn(due, busy, free=free, host_max=3, account_max=5)
    assert len(chosen) <= free
    assert len({one.id for one in chosen}) == len(chosen)
    had_hosts, had = Counter(one.host for one in busy), Counter(one.account_id for one in busy)
    hosts, accounts = had_hosts + Counter(one.host for one in chosen), had + Counter(one.account_id for one in chosen)
    for one in chosen:
        assert hosts[one.host] <= 3
        assert accounts[one.account_id] <= 5
    if len(chosen) < free:
        left = [one for one in due if one not in chosen]
        assert all(hosts[one.host] >= 3 or accounts[one.account_id] >= 5 for one in left)
