"""Every rule for refunds: how much of a charge is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.charges.refunds import (
    NOTHING_USED,
    pages_held,
    used_by_composite,
    used_by_failure,
    used_by_pages,
    used_by_run,
)

CREDITS = st.integers(0, 10_000)
LEGS = st.integers(1, 40).flatmap(lambda legs: st.tuples(st.integers(0, legs), st.just(legs)))
"""The number of successful legs, and of all legs."""


def test_failure_uses_no_credits() -> None:
    assert NOTHING_USED == 0


@pytest.mark.critical
@given(held=CREDITS, page=CREDITS)
def test_failure_uses_one_page_only_if_the_page_is_too_costly(held: int, page: int) -> None:
    assert used_by_failure(held, page, is_costly=False) == NOTHING_USED
    assert used_by_failure(held, page, is_costly=True) == min(held, page)


@pytest.mark.parametrize(
    ("held", "cost", "pages", "used"),
    [
        pytest.param(1, 1, 1, 1, id="plain read"),
        pytest.param(10, 10, 1, 10, id="expensive plain read"),
        pytest.param(0, 0, 1, 0, id="free read"),
        pytest.param(6, 1, 2, 2, id="walk shorter than its reservation"),
        pytest.param(6, 1, 6, 6, id="walk as long as its reservation"),
        pytest.param(15, 5, 2, 10, id="walk with expensive pages"),
        pytest.param(4, 5, 1, 4, id="at most the held credits"),
        pytest.param(0, 0, 7, 0, id="free walk"),
    ],
)
def test_answer_uses_the_price_of_its_pages(held: int, cost: int, pages: int, used: int) -> None:
    assert used_by_pages(held, cost, pages) == used


@pytest.mark.parametrize(
    ("held", "cost", "pages_max", "pages"),
    [(6, 1, 6, 6), (3, 1, 6, 3), (14, 5, 6, 2), (4, 5, 6, 0), (0, 0, 6, 6)],
)
def test_reserved_credits_cover_whole_pages_only(held: int, cost: int, pages_max: int, pages: int) -> None:
    assert pages_held(held, cost, pages_max) == pages


@pytest.mark.parametrize(
    ("credits_used", "came", "legs", "used"),
    [
        pytest.param(5, 4, 4, 5, id="all"),
        pytest.param(5, 3, 4, 5, id="most"),
        pytest.param(5, 1, 2, 5, id="exactly half"),
        pytest.param(5, 1, 3, 2, id="below half: rounded down"),
        pytest.param(10, 1, 4, 5, id="below half"),
        pytest.param(1, 1, 4, 0, id="below half of a single credit"),
        pytest.param(5, 0, 4, 0, id="no legs"),
        pytest.param(0, 1, 4, 0, id="free"),
    ],
)
def test_composite_with_missing_legs_uses_all_half_or_nothing(
    credits_used: int, came: int, legs: int, used: int
) -> None:
    assert used_by_composite(credits_used, came / legs) == used


@pytest.mark.parametrize(
    ("credits_used", "came", "legs", "used"),
    [
        pytest.param(3, 3, 3, 3, id="all"),
        pytest.param(3, 2, 3, 2, id="exact share of two thirds"),
        pytest.param(5, 1, 2, 3, id="rounded up"),
        pytest.param(5, 1, 40, 1, id="at least one credit"),
        pytest.param(5, 0, 3, 0, id="no legs"),
        pytest.param(0, 1, 2, 0, id="free"),
    ],
)
def test_run_with_missing_legs_uses_the_successful_share(credits_used: int, came: int, legs: int, used: int) -> None:
    assert used_by_run(credits_used, came / legs) == used


@given(CREDITS, st.integers(0, 50), st.integers(0, 50), LEGS)
def test_used_credits_are_between_zero_and_the_reserved_credits(
    held: int, cost: int, pages: int, legs: tuple[int, int]
) -> None:
    used, coverage = used_by_pages(held, cost, pages), legs[0] / legs[1]
    assert 0 <= used <= held
    for rule in (used_by_composite, used_by_run):
        assert 0 <= rule(used, coverage) <= used
        assert rule(used, 1.0) == used
        assert rule(used, 0.0) == NOTHING_USED


@given(CREDITS, LEGS)
def test_share_is_exact_despite_float_coverage(credits_used: int, legs: tuple[int, int]) -> None:
    came, of = legs
    assert used_by_run(credits_used, came / of) == -(-credits_used * came // of), "rounded up"
