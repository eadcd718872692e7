"""Prices in the catalog and the guide (spec 2.3, 2.4, 8)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pricing import price_of
from upstreams.fetching.plan import prepare
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST
from upstreams.model.endpoint import Collect, Endpoint
from upstreams.model.params import Args, collected
from upstreams.model.steps import Call, Steps


def _read(_args: Args) -> Steps:
    yield Call("/x")
    raise AssertionError("there is no upstream here")


@pytest.mark.parametrize(
    ("tier", "credits", "label"),
    [("standard", 1, "1 credit"), ("advanced", 5, "5 credits"), ("premium", 10, "10 credits")],
)
def test_fixed_price_call_costs_its_tier(tier: Any, credits: int, label: str) -> None:  # noqa: A002 - the specification's name
    price = price_of(Endpoint(resource="x", summary="X.", archetype=AUTHOR, read=_read, tier=tier))
    assert (price.credits, price.label) == (credits, label)
    assert price.note == "One charge for each response from the upstream."


@given(st.integers(1, 500), st.integers(1, 100), st.integers(0, 9), st.sampled_from([("standard", 1), ("advanced", 5)]))
def test_metered_price_range_ends_at_maximum_reservation(items_max: int, per_page: int, spare: int, tier: Any) -> None:
    """Goal: no call reserves more than its price label shows. Method: plan a walk for the maximum number of items."""
    params = (collected(items_max, 1),)
    collect = Collect(per_page, spare)
    endpoint = Endpoint(
        resource="x", summary="X.", archetype=AUTHOR_LIST, read=_read, params=params, tier=tier[0], collect=collect
    )
    site: Any = SimpleNamespace(has_hosts=False, starts={})  # only the query code uses other attributes of a site
    most = prepare(site, endpoint, Args({"limit": items_max})).reach.pages_max
    price = price_of(endpoint)
    assert price.credits == tier[1]
    assert price.label == f"{tier[1]}-{tier[1] * most} credits, metered"
    assert f"{tier[1]} for each page of up to {per_page} items" in price.note
    assert f"up to {spare} more" in price.note
