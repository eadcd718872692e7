"""The envelopes of successes, errors and replays, field by field (spec 2.1, 7.1; decisions 7)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.codes import CODES
from gateway.http.envelope import _plain_error, error_fragment, error_name, failure, fragment, replay, success
from gateway.http.errors import Refused

BASE = "https://api.example.com"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
BALANCES = st.none() | st.integers(0, 10**15)
CREDITS = st.integers(0, 10**9)


def failed(refused: Refused, **terms: Any) -> Any:
    fields = {"request_id": "req_1", "credits_used": 0, "balance": 7, "base_url": BASE, **terms}
    return orjson.loads(failure(refused, **fields))


@given(JSON, st.none() | JSON, CREDITS, BALANCES, st.booleans())
def test_success_contains_data_and_billing(
    data: Any, pagination: Any, used: int, balance: int | None, cached: bool
) -> None:
    stored = fragment("github", "/v1/github/profile", data, pagination)
    body = success(stored, request_id="req_1", credits_used=used, balance=balance, cached=cached)
    expected = {
        "success": True,
        "platform": "github",
        "endpoint": "/v1/github/profile",
        "data": data,
        "credits_used": used,
        "credits_remaining": balance,
        "request_id": "req_1",
        "cached": cached,
    }
    if pagination is not None:
        expected["pagination"] = pagination
    assert orjson.loads(body) == expected


@pytest.mark.parametrize("code", CODES.values(), ids=CODES.keys())
def test_error_contains_code_status_and_doc_url(code: Any) -> None:
    assert failed(Refused(code.name, "Why."), credits_used=3, balance=None) == {
        "success": False,
        "error": {
            "type": code.name,
            "message": "Why.",
            "status": code.status,
            "doc_url": f"{BASE}/docs/errors#{code.name}",
        },
        "credits_used": 3,
        "credits_remaining": None,
        "request_id": "req_1",
    }


@given(TEXT, st.dictionaries(TEXT, JSON, min_size=1, max_size=3))
def test_details_are_included_if_present(message: str, details: dict[str, Any]) -> None:
    error = failed(Refused("INVALID_REQUEST", message, details=details))["error"]
    assert (error["message"], error["details"]) == (message, details)


@pytest.mark.parametrize("details", [None, {}])
def test_empty_details_are_omitted(details: dict[str, Any] | None) -> None:
    assert "details" not in failed(Refused("INVALID_REQUEST", "Why.", details=details))["error"]


def test_different_errors_are_not_confused() -> None:
    """Errors without details are cached, so these errors must not share a cache entry."""
    fragments = [
        error_fragment(Refused(code, message), base)
        for code in ("RATE_LIMITED", "INVALID_REQUEST")
        for message in ("One.", "Two.")
        for base in (BASE, "http://else")
    ]
    assert len(set(fragments)) == 8
    long = Refused("UPSTREAM_ERROR", "long " * 10_000)
    before = _plain_error.cache_info().currsize
    assert b"long long" in error_fragment(long, BASE)
    assert _plain_error.cache_info().currsize == before, "an error with a long message is not cached"
    assert error_fragment(Refused("RATE_LIMITED", "One."), BASE) == fragments[0]


@pytest.mark.parametrize("name", CODES)
def test_code_of_a_stored_error_is_read_back(name: str) -> None:
    for details in (None, {"type": "else"}):
        assert error_name(error_fragment(Refused(name, '"type"', details=details), BASE)) == name


@given(BALANCES, st.booleans(), st.sampled_from([200, 201]))
def test_replayed_success_is_free_and_marked(balance: int | None, cached: bool, status: int) -> None:
    stored = fragment("github", "/v1/github/profile", {"id": "1"})
    first = success(stored, request_id="req_1", credits_used=5, balance=95, cached=cached)
    body = orjson.loads(replay(stored, status=status, request_id="req_1", balance=balance, cached=cached))
    assert body == {**orjson.loads(first), "credits_used": 0, "credits_remaining": balance, "idempotent_replay": True}


def test_replay_repeats_the_first_response_except_variable_fields() -> None:
    stored = fragment("github", "/v1/github/profile", {"bio": 'a "quoted" \\ é'}, {"next_cursor": None})
    first = success(stored, request_id="req_1", credits_used=5, balance=95, cached=False)
    again = replay(stored, status=200, request_id="req_1", balance=90, cached=False)
    said, says = b'"credits_used":5,"credits_remaining":95', b'"credits_used":0,"credits_remaining":90'
    assert again == first.replace(said, says)[:-1] + b',"idempotent_replay":true}'


@pytest.mark.parametrize("status", [400, 404, 422])
def test_replayed_error_has_no_cache_field(status: int) -> None:
    refused = Refused("RESOURCE_NOT_FOUND", "There is none.", details={"reason": "account_gone"})
    stored = error_fragment(refused, BASE)
    body = orjson.loads(replay(stored, status=status, request_id="req_1", balance=9, cached=True))
    assert body == {**failed(refused, balance=9), "idempotent_replay": True}
