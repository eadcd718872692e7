"""How many of its compressed rows a page decompresses."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.packing import Unpacker, packed, rows_within, unpacked

SIZES = st.lists(st.integers(0, 50), max_size=20)


@given(SIZES, st.integers(1, 100))
def test_rows_within_returns_as_many_as_fit_and_at_least_one(sizes: list[int], bytes_max: int) -> None:
    count = rows_within(sizes, bytes_max)
    assert (count == 0) == (not sizes)
    assert count <= 1 or sum(sizes[:count]) <= bytes_max
    assert count == len(sizes) or sum(sizes[: count + 1]) > bytes_max


@pytest.mark.critical
@given(SIZES, st.integers(1, 100))
def test_consecutive_pages_have_each_row_once(sizes: list[int], bytes_max: int) -> None:
    rows, found = [packed(b"x" * size) for size in sizes], list[int]()
    while len(found) < len(rows):
        unpacker, page = Unpacker(bytes_max), list[int]()
        for row in rows[len(found) :]:
            if (bodies := unpacker.take(row, None)) is None:
                break
            page.append(len(bodies[0] or b""))
        assert page
        assert sum(page) <= max(bytes_max, page[0])
        found += page
    assert found == sizes


def test_row_that_does_not_fit_is_decompressed_only_until_the_page_is_full() -> None:
    bomb = packed(b"x" * 50_000_000)
    unpacker = Unpacker(1_000)
    assert unpacker.take(packed(b"a" * 400), packed(b"b" * 400)) == [b"a" * 400, b"b" * 400]
    assert unpacker.take(bomb) is None
    assert unpacker.take(packed(b"c" * 200), None) == [b"c" * 200, None]
    assert unpacker.take(packed(b"d")) is None
    assert unpacker.take(None) == [None]
    assert Unpacker(1_000).take(bomb) == [unpacked(bomb)]


def test_truncated_row_is_an_error() -> None:
    unpacker = Unpacker(1_000)
    unpacker.take(packed(b"a"))
    with pytest.raises(zlib.error):
        unpacker.take(packed(bytes(range(256)))[:-5])
