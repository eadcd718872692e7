"""The reservation for a call, and its rejection above the caller's limit."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.planning import Quote, above_max, quote
from gateway.calls.request import CallRequest
from upstreams.fetching.plan import ONE_PAGE, Reach


class Allowing:
    """A request whose caller allows this maximum cost."""

    def __init__(self, credits_max: int | None) -> None:
        self.credits_max = credits_max


@pytest.mark.parametrize(
    ("reach", "cost", "credits_max", "quoted"),
    [
        pytest.param(ONE_PAGE, 5, None, Quote(5, 5), id="fixed price"),
        pytest.param(ONE_PAGE, 5, 3, Quote(5, 5), id="fixed price is not lowered by a maximum"),
        pytest.param(ONE_PAGE, 0, None, Quote(0, 0), id="free call"),
        pytest.param(Reach(2, 5), 1, None, Quote(2, 5), id="price range of a walk"),
        pytest.param(Reach(2, 5), 10, None, Quote(20, 50), id="price per page"),
        pytest.param(Reach(2, 5), 1, 4, Quote(2, 4), id="maximum limits the reservation"),
        pytest.param(Reach(2, 5), 1, 1, Quote(2, 2), id="maximum does not lower the minimum"),
        pytest.param(Reach(2, 5), 1, 9, Quote(2, 5), id="maximum above the range changes nothing"),
    ],
)
def test_quote_has_minimum_and_reserved_cost(reach: Reach, cost: int, credits_max: int | None, quoted: Quote) -> None:
    assert quote(reach, cost, credits_max) == quoted


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 50), st.none() | st.integers(0, 2_000))
def test_reservation_is_never_below_minimum_cost(needed: int, spare: int, cost: int, credits_max: int | None) -> None:
    least, most = quote(Reach(needed, needed + spare), cost, credits_max)
    assert needed * cost == least <= most <= (needed + spare) * cost
    assert credits_max is None or most <= max(least, credits_max)


@pytest.mark.parametrize(("credits_max", "refused"), [(None, False), (2, False), (3, False), (1, True), (0, True)])
def test_minimum_cost_above_max_credits_is_rejected(credits_max: int | None, refused: bool) -> None:
    refusal = above_max(cast("CallRequest", Allowing(credits_max)), Quote(2, 5))
    assert (refusal is not None) == refused
    if refusal is not None:
        assert refusal.code.name == "INSUFFICIENT_CREDITS"
        assert refusal.details == {"reason": "above_max_credits", "credits_required": 2}
