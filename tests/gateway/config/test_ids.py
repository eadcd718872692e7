"""Ids are unique, ordered by time, and laid out as UUIDv7."""

from __future__ import annotations

import re
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.ids import id_maker

INSTANTS = st.floats(min_value=0, max_value=4e9)


@given(INSTANTS, st.integers())
def test_id_is_prefix_and_uuid_version_7(now: float, seed: int) -> None:
    made = id_maker(lambda: now, Random(seed))("req_")
    assert re.fullmatch(r"req_[0-9a-f]{32}", made)
    uuid = UUID(made.removeprefix("req_"))
    assert uuid.version == 7
    assert uuid.variant == "specified in RFC 4122"
    assert int(uuid) >> 80 == int(now * 1000)


@given(st.lists(INSTANTS, min_size=2, max_size=20), st.integers())
def test_ids_sort_by_creation_time(instants: list[float], seed: int) -> None:
    rng = Random(seed)
    made = [(int(now * 1000), id_maker(lambda now=now: now, rng)("x_")) for now in instants]
    for early_at, early in made:
        for late_at, late in made:
            assert not early_at < late_at or early < late


def test_ids_with_the_same_timestamp_differ() -> None:
    make_id = id_maker(lambda: 1.7e9, Random(0))
    assert len({make_id("req_") for _ in range(10_000)}) == 10_000
