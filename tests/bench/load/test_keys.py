"""Requests use the keys of their scenario: one key, new keys, or a mix."""

from collections import Counter
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from bench.load.keys import KEYS, KNOWN, NEW_FROM


def test_mode_one_always_returns_the_same_key() -> None:
    assert set(islice(KEYS["one"](7, 3), 20)) == {0}


@given(st.integers(min_value=1, max_value=6))
def test_new_keys_of_several_processes_are_distinct(processes: int) -> None:
    keys = [key for first in range(processes) for key in islice(KEYS["new"](1 + first, processes), 50)]
    assert sorted(keys) == list(range(NEW_FROM + 1, NEW_FROM + 1 + 50 * processes))


def test_80_percent_of_mixed_keys_are_known_and_follow_popularity() -> None:
    keys = list(islice(KEYS["mixed"](1, 1), 20_000))
    known = Counter(key for key in keys if key < KNOWN)
    assert 0.78 < known.total() / len(keys) < 0.82
    assert known.most_common(1)[0][0] == 0
    assert known[0] > 1.5 * known[1] > 2 * known[3]


def test_new_keys_in_a_mix_are_distinct_and_unknown() -> None:
    new = [key for key in islice(KEYS["mixed"](1, 2), 5_000) if key >= KNOWN]
    assert len(new) == len(set(new)) > 500
    assert min(new) > NEW_FROM
