"""The query of a read is valid and within limits, or it is a 400 in the feed's error format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.filters import Filters
from events.log.kinds import KINDS
from gateway.feed.queries import PARAMS, SUBJECTS_MAX, check_name, read_query
from gateway.http.errors import Refused

T = TypeVar("T")
NAMES = [param.name for param in PARAMS]
VALUES = st.one_of(
    st.text(max_size=30),
    st.integers(-3, 600).map(str),
    st.sampled_from(["oldest", "now", "cur_x", "evt_1", "*", "key.*", "key.revoked,credits.low", "a,b", "one"]),
)


def outcome(ask: Callable[[], T]) -> T | Refused:
    try:
        return ask()
    except Refused as refused:
        return refused


@given(st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.text(max_size=8)), VALUES), max_size=4))
def test_query_is_valid_or_rejected_in_the_feeds_error_format(query: list[tuple[str, str]]) -> None:
    ask = outcome(partial(read_query, query))
    if isinstance(ask, Refused):
        details = ask.details
        assert ask.code.name == "INVALID_REQUEST"
        assert details is not None
        assert isinstance(details["param"], str)
        assert details["next_step"]
        assert ("reason" in details) != ("did_you_mean" in details)
        return
    assert 1 <= ask.limit <= 500
    assert 0 <= ask.wait_s <= 25
    assert ask.consumer is None or ask.cursor == "oldest"
    assert ask.sent.keys() <= {"types", "subject_id"}
    assert (ask.filters is None) == (not ask.sent)
    if ask.filters is not None:
        assert ask.filters.types is None or ask.filters.types <= KINDS.keys()
        assert ask.filters.subjects is None or 1 <= len(ask.filters.subjects) <= SUBJECTS_MAX
    assert read_query(parse_qsl(urlencode([pair for pair in query if pair[1]]), keep_blank_values=True)) == ask


@given(st.text(max_size=70))
def test_suggested_name_is_valid(name: str) -> None:
    checked = outcome(partial(check_name, name))
    if isinstance(checked, Refused):
        assert checked.details is not None
        proposed = checked.details["next_step"].removeprefix("Send consumer=").removesuffix(".")
        assert check_name(proposed) == proposed
    else:
        assert checked == name


@pytest.mark.parametrize("text", ["", " "])
def test_empty_consumer_is_refused(text: str) -> None:
    """A client that lost its consumer's name must not read as if it had none."""
    refused = outcome(partial(read_query, [("consumer", text)]))
    assert isinstance(refused, Refused)
    assert refused.details is not None
    assert refused.details["param"] == "consumer"


@pytest.mark.parametrize(
    ("query", "filters", "omitted"),
    [
        ([], None, {"types", "subjects"}),
        ([("types", "")], None, {"types", "subjects"}),
        ([("types", "*")], Filters(), {"subjects"}),
        ([("types", "key.*")], Filters(types=frozenset({"key.revoked"})), {"subjects"}),
        ([("subject_id", "a, b,,a")], Filters(subjects=frozenset({"a", "b"})), {"types"}),
        ([("types", "*"), ("subject_id", "a")], Filters(subjects=frozenset({"a"})), set()),
    ],
)
def test_given_filters_are_distinguished_from_omitted_ones(
    query: list[tuple[str, str]], filters: Filters | None, omitted: set[str]
) -> None:
    ask = read_query(query)
    assert (ask.filters, ask.omitted) == (filters, omitted)
