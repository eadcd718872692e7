"""One source of a platform, with a scripted exchange: what its answers become, and its retries.

Time is virtual. Whenever all tasks wait, the clock jumps to the next deadline, so waits are exact and cost nothing.
"""

from __future__ import annotations

import math
from functools import partial
from random import Random

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.breaker import BreakerRules
from limits.errors import Throttled
from limits.retries import full_jitter
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    SILENCE,
    LongestPauses,
    Scripted,
    ScriptedExchange,
    Slow,
    asking,
    http_answer,
    outcomes,
    source_over,
)
from upstreams.fetching.source import Rules
from upstreams.model.endpoint import Platform
from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Backoff
from upstreams.model.steps import Answer
from upstreams.platforms import load_platforms
from upstreams.transport.careful_head import MalformedAnswer
from upstreams.transport.http import HttpAnswer, ResponseTooLarge

trio_run = run_virtually

ROUNDING_S = 1e-9
"""A tolerance for the rounding errors that accumulate when the virtual clock jumps."""

LOOSE = BreakerRules(failures=1000)
"""A breaker that never opens in these tests."""


# Answers


async def test_answer_is_parsed_with_source_and_duration() -> None:
    exchange = ScriptedExchange(Slow(1.5, http_answer({"a": [1]}, link="<x>")))
    answer = await source_over(exchange).ask(asking("/v1/x?q=1", headers={"accept": "text/plain"}), LONG_S)
    assert answer == Answer(200, {"link": "<x>"}, {"a": [1]}, "main", 1.5, 9, b'{"a":[1]}')
    (call,) = exchange.calls
    assert (call.method, call.origin.authority, call.target) == ("GET", "api.test", "/v1/x?q=1")
    assert call.headers == (("accept", "text/plain"),)


@pytest.mark.parametrize("body", [b"", b"null", b"null\n", b" \r\n", b"  null "])
async def test_empty_body_is_not_found(body: bytes) -> None:
    exchange = ScriptedExchange(http_answer(body))
    source = source_over(exchange)
    with pytest.raises(NotFound):
        await source.ask(asking(), LONG_S)
    assert len(exchange.calls) == 1
    assert source.breaker.statistics().failures == 0


@pytest.mark.parametrize("body", [b"0", b"false", b"[]", b"{}", b'""'])
async def test_falsy_json_body_is_returned(body: bytes) -> None:
    answer = await source_over(ScriptedExchange(http_answer(body))).ask(asking(), LONG_S)
    assert not answer.body
    assert answer.body is not None


async def test_html_instead_of_json_is_a_transient_failure() -> None:
    page = http_answer(b"<html>we are busy</html>", content_type="text/html; charset=utf-8")
    assert (await source_over(ScriptedExchange(page, OK)).ask(asking(), LONG_S)).body == {"ok": True}
    with pytest.raises(UpstreamFailed, match="main: expected JSON, got text/html") as failed:
        await source_over(ScriptedExchange(page)).ask(asking(), LONG_S)
    assert failed.value.passing


async def test_text_is_returned_if_the_call_accepts_it() -> None:
    source = source_over(
        ScriptedExchange(http_answer("# Título".encode()), http_answer(b"\xff"), http_answer({"a": 1}))
    )
    bodies = [(await source.ask(asking(), LONG_S, accepts="json or text")).body for _ in range(3)]
    assert bodies == ["# Título", "\N{REPLACEMENT CHARACTER}", {"a": 1}]


@pytest.mark.parametrize(
    "problem",
    [
        httpx.ConnectError("no way"),
        httpx.ReadError("cut"),
        httpx.RemoteProtocolError("noise"),
        httpx.DecodingError("the gzip body is damaged"),
        MalformedAnswer("a chunk is malformed"),
        httpx.ConnectTimeout("slow"),
    ],
)
async def test_unreadable_answer_counts_as_a_failure(problem: Exception) -> None:
    """A malformed response is not requested again, because the next response would be malformed too."""
    source = source_over(ScriptedExchange(problem), rules=Rules(retries=0))
    with pytest.raises(UpstreamFailed) as failed:
        await source.ask(asking(), LONG_S)
    assert failed.value.passing == (not isinstance(problem, MalformedAnswer | httpx.DecodingError))
    assert failed.value.source == "main"
    assert source.breaker.statistics().failures == 1


async def test_oversized_answer_counts_and_is_not_retried() -> None:
    exchange = ScriptedExchange(ResponseTooLarge("too long"))
    source = source_over(exchange, rules=Rules(retries=2))
    with pytest.raises(UpstreamFailed, match="too long"):
        await source.ask(asking(), LONG_S)
    assert (len(exchange.calls), source.breaker.statistics().failures) == (1, 1)


async def test_error_without_json_is_judged_by_its_status() -> None:
    seen: list[Answer] = []
    source = source_over(ScriptedExchange(http_answer(b"<h1>Gone</h1>", 404)), judge=seen.append)
    with pytest.raises(UpstreamFailed, match="status 404"):
        await source.ask(asking(), LONG_S)
    assert seen[0].body == "<h1>Gone</h1>"


NAMES = st.sampled_from(("error", "message", "errors", "error_id", "error_message", "block", "backoff", "x", "code"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
WORDS = st.sampled_from(("0", "-1", "7", "x", "", "9" * 400, "Wed, 01 Jan 2025 00:00:00 GMT", "٣"))
HEADERS = st.dictionaries(
    st.sampled_from(("retry-after", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-reset", "date")), WORDS
)


@given(st.sampled_from(load_platforms()), st.sampled_from((400, 401, 403, 404, 422, 429, 500, 503)), HEADERS, JSON)
@settings(max_examples=150, deadline=None)
def test_judges_tolerate_any_error_body(platform: Platform, status: int, headers: dict[str, str], body: object) -> None:
    """Goal: an error answer always becomes a refusal. Method: unexpected JSON in the fields that judges read."""
    answer = Answer(status, headers, body, "main")
    assert isinstance(platform.judge(answer), UpstreamError | None)
    assert isinstance(platform.rest(answer), Backoff | None)


# Retries


async def test_transient_failure_is_retried_with_jitter() -> None:
    exchange = ScriptedExchange(FAILING, httpx.ReadError("cut"), OK)
    source = source_over(exchange, rng=Random(7))
    assert (await source.ask(asking(), LONG_S)).body == {"ok": True}
    rng = Random(7)
    first, second = full_jitter(0, rng), full_jitter(1, rng)
    assert exchange.asked_at == pytest.approx([0.0, first, first + second])
    now = source.statistics()
    assert (now.calls_total, now.retries_total, now.retries_refused_total, now.in_flight) == (1, 2, 0, 0)


@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_retries_are_limited_and_the_last_failure_is_raised(retries: int) -> None:
    exchange = ScriptedExchange(*[http_answer(status=500)] * retries, http_answer(status=502))
    with pytest.raises(UpstreamFailed, match="status 502"):
        await source_over(exchange, rules=Rules(retries=retries)).ask(asking(), LONG_S)
    assert len(exchange.calls) == 1 + retries


async def test_silent_attempt_times_out_and_is_retried() -> None:
    exchange = ScriptedExchange(SILENCE, OK)
    source = source_over(exchange, rules=Rules(timeout_s=4.0), rng=LongestPauses())
    assert (await source.ask(asking(), LONG_S)).took_s == pytest.approx(4.1), "the total wait of all attempts"
    assert exchange.asked_at == pytest.approx([0.0, 4.1])
    exchange.script(SILENCE)
    with pytest.raises(UpstreamFailed, match=r"no response within 4\.0 s"):
        await source.ask(asking(), LONG_S)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (http_answer(status=400), UpstreamFailed),
        (http_answer(status=401), UpstreamFailed),
        (http_answer(status=403), UpstreamFailed),
        (http_answer(status=404), NotFound),
        (http_answer(status=410), NotFound),
        (http_answer(status=429), UpstreamThrottled),
        (http_answer(status=501), UpstreamFailed),
        (http_answer(status=503, retry_after="3"), UpstreamThrottled),
        (http_answer(b"null"), NotFound),
        (http_answer({"message": "see elsewhere"}, 300), UpstreamFailed),
        (http_answer({"message": "see elsewhere"}, 302), UpstreamFailed),
    ],
)
async def test_permanent_refusal_is_not_retried(answer: HttpAnswer, refusal: type[UpstreamError]) -> None:
    exchange = ScriptedExchange(answer, OK)
    with pytest.raises(refusal):
        await source_over(exchange).ask(asking(), LONG_S)
    assert len(exchange.calls) == 1


async def test_post_is_never_sent_twice() -> None:
    exchange = ScriptedExchange(httpx.ReadError("cut"), OK)
    with pytest.raises(UpstreamFailed, match="ReadError: cut"):
        await source_over(exchange).ask(asking(method="POST", body=b"{}"), LONG_S)
    assert [call.body for call in exchange.calls] == [b"{}"]


async def test_retry_budget_is_a_fifth_of_the_calls_plus_three() -> None:
    source = source_over(ScriptedExchange(FAILING), breaker=LOOSE)
    for calls in range(1, 31):
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), LONG_S)
        assert trio.current_time() < 9.0, "the budget's window must contain all calls"
        assert source.statistics().retries_total == min(2 * calls, 3 + calls // 5)
    assert source.statistics().retries_refused_total == 29


async def test_no_retry_starts_after_the_deadline() -> None:
    exchange = ScriptedExchange(FAILING)
    with pytest.raises(UpstreamFailed, match="status 503"):
        await source_over(exchange, rng=LongestPauses()).ask(asking(), 0.25)
    assert exchange.asked_at == [0.0, 0.1]
    assert trio.current_time() == 0.1, "it waited although no attempt could finish"


async def test_expired_call_is_neither_sent_nor_counted_against_the_source() -> None:
    exchange = ScriptedExchange(OK)
    source = source_over(exchange)
    await trio.sleep(5.0)
    for _ in range(10):
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), 5.0)
    assert exchange.calls == []
    assert source.breaker.state == "closed"


async def test_retry_is_refused_by_a_long_hold() -> None:
    """Method: one call pauses for 0.1 s before its retry. During the pause, another call is throttled."""
    exchange = ScriptedExchange(FAILING, http_answer(status=429, retry_after="90"), OK)
    source = source_over(exchange, rng=LongestPauses())

    async def later() -> object:
        await trio.sleep(0.05)
        return await source.ask(asking("/v1/other"), LONG_S)

    throttled, held = await outcomes(later, partial(source.ask, asking(), LONG_S))
    assert isinstance(throttled, UpstreamThrottled)
    assert isinstance(held, Throttled)
    assert len(exchange.calls) == 2


SAID: st.SearchStrategy[Scripted] = st.builds(
    Slow,
    st.sampled_from((0.0, 0.01, 0.3, 1.0, 2.9, math.inf)),
    st.sampled_from(
        (
            OK,
            FAILING,
            http_answer(status=500),
            http_answer(b"<html>"),
            http_answer(status=302, location="/v1/round"),
            http_answer(status=429),
            httpx.ReadError("cut"),
            httpx.ConnectTimeout("slow"),
        )
    ),
)


@given(st.lists(SAID, min_size=1, max_size=6), st.floats(0.0, 4.0), st.floats(0.0, 6.0), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_call_ends_by_its_deadline_for_any_upstream(
    script: list[Scripted], timeout_s: float, within_s: float, seed: int
) -> None:
    """Method: every combination of slow answers, failures, redirects and silence, in virtual time."""

    async def run() -> None:
        source = source_over(ScriptedExchange(*script), rules=Rules(timeout_s=timeout_s), rng=Random(seed))
        await outcomes(partial(source.ask, asking(), within_s))
        assert trio.current_time() <= within_s + ROUNDING_S

    run_virtually(run)
