"""How an upstream refuses calls: its errors, its quotas, its rate limits, and the waits in its headers."""

from __future__ import annotations

import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    StaleCursor,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.refusals import Backoff, Bucket, Pace, Refusals, Remaining, retry_after_s, until_reset_s
from upstreams.model.steps import Answer

SENT = "Wed, 01 Jan 2025 00:00:00 GMT"
LATER = "Wed, 01 Jan 2025 00:01:30 GMT"


@pytest.mark.parametrize(
    ("retry_after", "date", "wait_s"),
    [
        ("7", "", 7.0),
        *((told, SENT, None) for told in ("0", "", "-5", "1.5", "soon", "Wed, 01 Jan 99999 00:01:30 GMT", SENT)),
        ("9" * 400, "", math.inf),
        (LATER, SENT, 90.0),
        ("Wednesday, 01-Jan-25 00:01:30 GMT", SENT, 90.0),
        ("Wed Jan  1 00:01:30 2025", SENT, 90.0),
        (SENT, LATER, None),
        (LATER, "", None),
        (LATER, "today", None),
        ("Wed, 01 Jan 99999999999999999999 00:01:30 GMT", SENT, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(retry_after: str, date: str, wait_s: float | None) -> None:
    assert retry_after_s({"retry-after": retry_after, "date": date}) == wait_s


def test_missing_headers_cause_no_wait() -> None:
    assert retry_after_s({}) is None
    assert until_reset_s({}, "x-reset") is None


@pytest.mark.parametrize(
    ("reset", "date", "wait_s"),
    [
        ("1735689690", SENT, 90.0),
        ("1735689600", SENT, None),
        ("1735689500", SENT, None),
        ("1735689690", "", None),
        ("-1", SENT, None),
        ("soon", SENT, None),
        ("9" * 5000, SENT, math.inf),
    ],
)
def test_unix_reset_is_relative_to_the_answers_date(reset: str, date: str, wait_s: float | None) -> None:
    assert until_reset_s({"x-reset": reset, "date": date}, "x-reset") == wait_s


DATES = st.builds(
    lambda day, date, month, year, time, zone: f"{day}, {date} {month} {year} {time} {zone}",
    st.sampled_from(("Wed", "", "Mittwoch")),
    st.integers(-1, 99),
    st.sampled_from(("Jan", "Feb", "Mai", "13")),
    st.integers(-10, 10**20),
    st.sampled_from(("00:00:00", "99:99:99", "1:2", "::", "")),
    st.sampled_from(("GMT", "+9999", "-99999999999999999999", "")),
)


@given(st.text(max_size=30) | DATES | st.just(SENT), st.text(max_size=30) | DATES | st.just(SENT))
def test_wait_is_positive_or_none(told: str, date: str) -> None:
    headers = {"retry-after": told, "x-reset": told, "date": date}
    assert all(wait_s is None or wait_s > 0 for wait_s in (retry_after_s(headers), until_reset_s(headers, "x-reset")))


REFUSALS = Refusals(
    code="error.code",
    message="error.message",
    gone=("Suspended",),
    private={401: ("authenticated user", "private")},
    throttled={400: "slow down"},
    stale={"BadRequest": "cursor"},
    passing=("Internal",),
    bad={422: "query", "BadRequest": {"limit": "limit", "sort": "sort"}},
    other=lambda answer: UpstreamThrottled("x", 9.0) if answer.status == 420 else None,
)


def _error(status: int, code: str | int | None = None, message: str | None = None) -> Answer:
    return Answer(status, {}, {"error": {"code": code, "message": message}}, "api")


@pytest.mark.parametrize(
    ("answer", "refusal", "more"),
    [
        (_error(404), NotFound, {"reason": None, "by_status": True}),
        (_error(410), NotFound, {"by_status": True}),
        (_error(400, "Suspended"), NotFound, {"reason": "account_gone", "by_status": False}),
        (_error(401, None, "It is Private."), NotFound, {"reason": "account_private"}),
        (_error(400, "Odd", "please SLOW DOWN"), UpstreamThrottled, {"retry_after_s": None}),
        (_error(400, "BadRequest", "no such Cursor"), StaleCursor, {}),
        (_error(400, "BadRequest", "bad sort"), InvalidArgument, {"param": "sort"}),
        (_error(422, 7, "odd"), InvalidArgument, {"param": "query"}),
        (_error(400, "Internal", "try again"), UpstreamFailed, {"passing": True}),
        (_error(420), UpstreamThrottled, {"retry_after_s": 9.0}),
        (Answer(404, {}, "<h1>Gone</h1>", "api"), NotFound, {}),
    ],
)
def test_error_is_classified_by_code_status_and_words(
    answer: Answer, refusal: type[UpstreamError], more: dict[str, object]
) -> None:
    found = REFUSALS(answer)
    assert type(found) is refusal
    assert {name: getattr(found, name) for name in more} == more


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("text/plain; charset=utf-8", "Not here.\n", "Not here."),
        ("text/html", "<h1>Not here.</h1>", "The upstream has no such record."),
        ("", "Not here.", "The upstream has no such record."),
    ],
)
def test_plain_text_is_quoted_but_a_page_is_not(kind: str, body: str, words: str) -> None:
    assert str(REFUSALS(Answer(404, {"content-type": kind}, body, "api"))) == words


@pytest.mark.parametrize(
    "answer",
    [
        Answer(401, {"content-type": "text/html"}, "<h1>authenticated user</h1>", "api"),
        Answer(401, {"content-type": "text/plain"}, "private", "api"),
        _error(401, None, "no token"),
        _error(400, "BadRequest", "odd"),
        _error(500, "Odd"),
        Answer(500, {}, [1], "api"),
        Answer(400, {}, {"error": "text"}, "api"),
    ],
)
def test_unknown_error_is_left_to_the_fetch(answer: Answer) -> None:
    assert REFUSALS(answer) is None


@pytest.mark.parametrize(
    ("headers", "pause_s"),
    [
        ({"left": "0", "reset": "57"}, 57.0),
        ({"left": "0", "reset": "1735689690", "date": SENT}, 90.0),
        ({"left": "0", "reset": "2025-01-01T00:01:30Z", "date": SENT}, 90.0),
        ({"left": "0", "reset": "2025-01-01T00:01:30.5+00:00", "date": SENT}, 90.5),
        ({"left": '"api";r=0;t=41'}, 41.0),
        ({"left": "0", "reset": "99999"}, 300.0),
        ({"left": '"api";r=3;t=41'}, None),
        ({"left": "1", "reset": "57"}, None),
        ({"left": "0", "reset": "soon"}, None),
        ({"left": "0"}, None),
        ({}, None),
    ],
)
def test_exhausted_quota_pauses_until_its_reset(headers: dict[str, str], pause_s: float | None) -> None:
    found = Remaining("left", "reset", window_s=300.0)(Answer(200, headers, {}))
    assert found == (None if pause_s is None else Backoff(pause_s, "source"))


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize(
    ("body", "backoff"),
    [
        ({"left": 0}, Backoff(86_400.0, "source")),
        ({"left": 5, "pause": 7}, Backoff(7.0, "method")),
        ({"left": 5, "pause": 0}, None),
        ({"text": '"left":0'}, None),
        ({}, None),
    ],
)
def test_quota_is_read_from_plain_and_decoded_bodies(
    body: dict[str, object], backoff: Backoff | None, decoded: bool
) -> None:
    raw = orjson.dumps({**body, "items": []})
    answer = Answer(200, {}, object() if decoded else orjson.loads(raw), raw=raw)
    assert Remaining(member="left", pause="pause")(answer) == backoff


def test_bucket_enforces_the_pace_and_reports_the_wait() -> None:
    bucket = Bucket(Pace(10, per_s=5, costs={"/search": 4, "/search/all": 20}), 0.0)
    assert [_wait_s(bucket, "/search/x", 0.0) for _ in range(2)] == [0.0, 0.0]
    assert [bucket.left(at) for at in (0.0, 1.0, 60.0)] == [pytest.approx(2.0), pytest.approx(4.0), 10.0]
    assert _wait_s(bucket, "/search/x", 0.0) == pytest.approx(1.0)
    assert [_wait_s(bucket, "/x", 0.0) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.5)]
    assert _wait_s(bucket, "/x", 0.5) == 0.0
    assert _wait_s(bucket, "/search/all", 100.0) == 0.0  # more than the bucket can hold, so all of it
    assert _wait_s(bucket, "/x", 100.0) > 0
    bucket.give_back("/search/all")
    assert bucket.wait_s("/x", 100.0) == 0.0


def _wait_s(bucket: Bucket, path: str, now: float) -> float:
    """Return the wait for a call, and make the call if there is none."""
    if not (wait_s := bucket.wait_s(path, now)):
        bucket.take(path)
    return wait_s


def test_pace_can_apply_to_some_sources() -> None:
    everywhere, there = Pace(2, per_s=1), Pace(2, per_s=1, sources=("there",))
    assert [everywhere.of("here"), there.of("there"), there.of("here")] == [True, True, False]


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_window_exceeds_a_full_bucket_plus_its_refill(gaps: list[float]) -> None:
    bucket, now, sent = Bucket(Pace(5, per_s=2), 0.0), 0.0, []
    for gap in gaps:
        now += gap
        if not _wait_s(bucket, "/x", now):
            sent.append(now)
    for at in sent:
        assert sum(1 for other in sent if at <= other < at + 2) <= 10  # its initial content plus what was refilled
