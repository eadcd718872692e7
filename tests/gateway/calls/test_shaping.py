"""How the result of a read becomes `data` and `pagination`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.shaping import Shaped, leg_record, shape, share_out
from limits.errors import CircuitOpen, LimitError
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, COMMENT_LIST, DOSSIER, POST, author, comment, post
from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.params import State
from upstreams.model.steps import Answer, Leg, Missing, Page, Single


def seal(state: State) -> str:
    return f"sealed {dict(state)}"


def shaped(result: Page | Single, archetype: Any = AUTHOR_LIST) -> Shaped:
    return shape(archetype, result, seal)


@given(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 9)), st.booleans())
def test_page_has_its_size_and_next_cursor(rows: int, total: int | None, has_next: bool) -> None:
    next_ = {"p": 2} if has_next else None
    made = shaped(Page([author(id=str(number)) for number in range(rows)], next_, total))
    cursor = "sealed {'p': 2}" if has_next else None
    assert made.pagination == {"next_cursor": cursor, "has_more": has_next, "page_size": rows}
    assert [row["author"]["id"] for row in made.data["items"]] == [str(number) for number in range(rows)]
    assert made.data.get("total") == total
    assert ("total" in made.data) == (total is not None), "the total is present only if the upstream sent one"


def test_only_some_record_kinds_have_computed_fields() -> None:
    (row,) = shaped(Page([author(id="1")])).data["items"]
    assert row.keys() == {"author", "computed"}
    (row,) = shaped(Page([comment(id="1")]), COMMENT_LIST).data["items"]
    assert row.keys() == {"comment"}


def test_single_record_has_an_id_and_no_pagination() -> None:
    made = shaped(Single(author(id="1")), AUTHOR)
    assert made.pagination is None
    assert made.data.keys() == {"author", "computed"}
    assert (made.cacheable, made.coverage) == (True, 1.0)
    for unknown in (author(id=None), author(id=None, username="ada")):
        with pytest.raises(NotFound):
            shaped(Single(unknown), AUTHOR)


def test_read_warnings_appear_once_and_prevent_caching() -> None:
    made = shaped(Page([], warnings=("a", "b", "a")))
    assert made.data["_warnings"] == ["a", "b"]
    assert not made.cacheable


def test_warning_about_a_computed_field_allows_caching() -> None:
    """The data is complete, and the same request would get the same warning again."""
    viral = post(id="1", url=None, text=None, author=None, views=10, likes=50)
    made = shaped(Single(viral), POST)
    assert made.data["computed"]["engagement_rate"] is None
    assert len(made.data["_warnings"]) == 1
    assert made.cacheable


def legs(*came: bool) -> tuple[Leg, ...]:
    return tuple(Leg("odd/leg", Answer(200, {}, {}, "odd") if one else Missing("why", "odd")) for one in came)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_legs_are_recorded_and_determine_coverage(succeeded: list[bool]) -> None:
    """The record of the read is not modified, because the cache or another response may hold it."""
    record = {"parts": 1}
    made = shaped(Single(record, legs=legs(*succeeded)), DOSSIER)
    assert record == {"parts": 1}
    assert made.coverage == sum(succeeded) / len(succeeded)
    assert made.cacheable == all(succeeded)
    same = {"endpoint": "odd/leg", "source": "odd", "rung": "primary", "rung_index": 0}
    for leg, one in zip(made.data["legs"], succeeded, strict=True):
        ended = {"status": "ok", "error": None} if one else {"status": "failed", "error": "UPSTREAM_ERROR"}
        assert leg == {**same, **ended, "credits_used": 0, "latency_ms": 0}


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(min_value=0, max_value=120))
def test_leg_costs_add_up_to_call_cost(succeeded: list[bool], credits_used: int) -> None:
    """Whole credits in equal shares, the remainder to the first legs; a failed leg costs nothing."""
    legs_in_data = shaped(Single({"parts": 1}, legs=legs(*succeeded)), DOSSIER).data["legs"]
    share_out(legs_in_data, credits_used)
    shares = [leg["credits_used"] for leg, one in zip(legs_in_data, succeeded, strict=True) if one]
    assert sum(leg["credits_used"] for leg in legs_in_data) == (credits_used if any(succeeded) else 0)
    assert shares == sorted(shares, reverse=True)
    assert not shares or shares[0] - shares[-1] <= 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (UpstreamFailed("odd", "status 500"), "UPSTREAM_ERROR"),
        (NotFound(), "RESOURCE_NOT_FOUND"),
        (CircuitOpen(30), "SERVICE_UNAVAILABLE"),
        (UpstreamThrottled("odd"), "SERVICE_UNAVAILABLE"),
    ],
)
def test_failed_leg_has_the_error_of_a_direct_call(failure: UpstreamError | LimitError, code: str) -> None:
    assert leg_record(Leg("odd/leg", Missing("why", "odd", failure=failure)))["error"] == code
