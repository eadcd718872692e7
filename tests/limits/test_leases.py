"""Leases: up to the limit, each returned once."""

from hypothesis import given
from hypothesis import strategies as st

from limits.gate import Leases


def test_keys_without_leases_use_no_memory():
    leases = Leases(2)
    lease = leases.take_nowait("k")
    assert len(leases) == 1
    lease.release()
    assert len(leases) == 0
    assert leases.count("k") == 0


def test_lower_limit_keeps_held_leases_and_refuses_the_next():
    leases = Leases(3)
    held = [leases.take_nowait("k") for _ in range(3)]
    leases.limit = 2
    held[0].release()
    assert leases.take_nowait("k") is None
    held[1].release()
    assert leases.take_nowait("k") is not None


@given(st.lists(st.tuples(st.sampled_from(["take", "release"]), st.sampled_from("ab"), st.integers(0, 5)), max_size=60))
def test_count_is_leases_taken_and_not_released(steps):
    leases, held = Leases(3), {"a": [], "b": []}
    for action, key, which in steps:
        if action == "take":
            lease = leases.take_nowait(key)
            assert (lease is None) == (len(held[key]) == 3)
            held[key] += [lease] if lease else []
        elif held[key]:
            held[key].pop(which % len(held[key])).release()
        assert {k: leases.count(k) for k in held} == {k: len(v) for k, v in held.items()}
