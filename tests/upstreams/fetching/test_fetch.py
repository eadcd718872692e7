"""How a read is run: sequential and concurrent calls, and errors that the reader raises."""

from __future__ import annotations

import math
from contextlib import suppress

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.errors import CircuitOpen, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    SILENCE,
    Scripted,
    ScriptedExchange,
    Slow,
    http_answer,
    source_over,
)
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import Plan, plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import DOSSIER
from upstreams.model.endpoint import Endpoint, Platform, Read
from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    UnexpectedBody,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Fetched, Missing, Page, Single, Steps
from upstreams.transport.http import HttpCall

trio_run = run_virtually

ROUNDING_S = 1e-9
"""A tolerance for the rounding errors that accumulate when the virtual clock jumps."""

SIDE_BY_SIDE_MAX = 32


def planned(read: Read, exchange: ScriptedExchange, *, retries: int = 0) -> Plan:
    """Begin a read on a site with one source, up to its first call."""
    endpoint = Endpoint(resource="x", summary="An x.", archetype=DOSSIER, read=read)
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={"main": "https://api.test/v1"},
        endpoints=(endpoint,),
        **FIELDS,
    )
    source = source_over(exchange, rules=Rules(retries=retries))
    return plan(Site(platform, {"main": source}, credentials={}, user_agent="sluice/1"), endpoint, Args({}))


def numbered(exchange_delay_s: float = 0.0) -> ScriptedExchange:
    """Return an upstream that answers `/v1/N` with N."""

    def script(call: HttpCall) -> Scripted:
        return Slow(exchange_delay_s, http_answer(int(call.target.rpartition("/")[2])))

    return ScriptedExchange(script=script)


def many(count: int, *, optional: bool = False) -> Read:
    """Return a read that makes `count` concurrent calls."""

    def read(_args: Args) -> Steps:
        answers = yield tuple(Call(f"/{number}", optional=optional) for number in range(count))
        return Single({"bodies": [answer.body if answer else None for answer in answers]})

    return read


def single(_args: Args) -> Steps:
    """Make one call."""
    answer = yield Call("/1")
    return Single({"body": answer.body})


async def test_read_receives_answers_and_upstream_time_is_summed() -> None:
    def read(_args: Args) -> Steps:
        first = yield Call("/1")
        second, third = yield (Call(f"/{first.body + 1}"), Call("/3"))
        last = yield Call("/4")
        return Single({"sum": [first.body, second.body, third.body, last.body]})

    fetched = await fetch(planned(read, numbered(2.0)), LONG_S)
    assert fetched == Fetched(Single({"sum": [1, 2, 3, 4]}), 6.0, "main", body_bytes=4)


def test_arguments_are_refused_before_any_call() -> None:
    def read(args: Args) -> Steps:
        if not args.values:
            raise InvalidArgument("id", "must be a number")
        answer = yield Call("/1")
        return Single(answer.body)

    exchange = ScriptedExchange(OK)
    with pytest.raises(InvalidArgument):
        planned(read, exchange)
    assert exchange.calls == []


# Concurrent calls


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
async def test_concurrent_calls_are_bounded_and_answered_in_order(count: int) -> None:
    exchange = numbered(1.0)
    fetched = await fetch(planned(many(count), exchange), LONG_S)
    assert fetched.result == Single({"bodies": list(range(count))})
    assert exchange.running_max == min(count, SIDE_BY_SIDE_MAX)
    assert fetched.took_s == math.ceil(count / SIDE_BY_SIDE_MAX)


async def test_slow_call_does_not_block_later_calls() -> None:
    def script(call: HttpCall) -> Scripted:
        return Slow(10.0 if call.target == "/v1/0" else 1.0, http_answer(1))

    await fetch(planned(many(76), ScriptedExchange(script=script)), LONG_S)
    assert trio.current_time() == 10.0


async def test_failed_optional_calls_keep_other_answers() -> None:
    def script(call: HttpCall) -> Scripted:
        return {"/v1/1": http_answer(status=404), "/v1/3": http_answer(b"null")}.get(call.target, OK)

    fetched = await fetch(planned(many(5, optional=True), ScriptedExchange(script=script)), LONG_S)
    assert fetched.result == Single({"bodies": [{"ok": True}, None, {"ok": True}, None, {"ok": True}]})


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (http_answer(status=404), NotFound),
        (http_answer(status=500), UpstreamFailed),
        (http_answer(status=429), UpstreamThrottled),
        (httpx.ReadError("cut"), UpstreamFailed),
        (ZeroDivisionError(), ZeroDivisionError),
    ],
)
@pytest.mark.parametrize("failing", [{"/v1/7"}, {f"/v1/{number}" for number in range(40)}])
async def test_error_among_concurrent_calls_is_raised_ungrouped(
    answer: Scripted, refusal: type[Exception], failing: set[str]
) -> None:
    def script(call: HttpCall) -> Scripted:
        return answer if call.target in failing else Slow(50.0, OK)

    exchange = ScriptedExchange(script=script)
    with pytest.raises(refusal) as raised:
        await fetch(planned(many(40), exchange), LONG_S)
    assert type(raised.value) is refusal
    assert (trio.current_time(), exchange.running) == (0.0, 0)
    assert len(exchange.calls) <= SIDE_BY_SIDE_MAX


@pytest.mark.parametrize("refusal", [CircuitOpen, Throttled])
async def test_refusing_source_refuses_concurrent_calls_like_a_single_call(refusal: type[Exception]) -> None:
    exchange = ScriptedExchange(http_answer(status=429))
    for read in (many(20), single):
        ready = planned(read, exchange)
        if refusal is CircuitOpen:
            ready.site.sources["main"].breaker.isolate()
        else:
            with pytest.raises(UpstreamThrottled):
                await ready.site.call(Call("/1"), LONG_S)
        with pytest.raises(refusal):
            await fetch(ready, LONG_S)


async def test_cancelled_read_leaves_nothing_running() -> None:
    exchange = numbered(1.0)

    async def check(_got_through: bool) -> None:
        await trio.lowlevel.checkpoint()
        assert exchange.running == 0

    assert await cancel_everywhere(lambda: fetch(planned(many(20), exchange), LONG_S), check) > 20


# Errors of the reader


@pytest.mark.parametrize(
    "trouble",
    [
        UnexpectedBody("expected an object, got list"),
        AttributeError("'list' object has no attribute 'get'"),
        IndexError("list index out of range"),
        KeyError("id"),
        TypeError("'NoneType' object is not subscriptable"),
        ValueError("Invalid isoformat string"),
    ],
)
async def test_reader_error_is_an_upstream_failure(trouble: Exception) -> None:
    def read(_args: Args) -> Steps:
        yield Call("/1")
        raise trouble

    with pytest.raises(UpstreamFailed, match="odd: the body does not have the documented structure") as failed:
        await fetch(planned(read, ScriptedExchange(OK)), LONG_S)
    assert failed.value.__cause__ is trouble
    assert not failed.value.passing


@pytest.mark.parametrize("own", [NotFound(reason="account_gone"), InvalidArgument("q", "is none"), ZeroDivisionError()])
async def test_own_errors_of_a_reader_pass_through(own: Exception) -> None:
    def read(_args: Args) -> Steps:
        yield Call("/1")
        raise own

    with pytest.raises(type(own)) as raised:
        await fetch(planned(read, ScriptedExchange(OK)), LONG_S)
    assert raised.value is own


# Time


ANSWERS: st.SearchStrategy[Scripted] = st.builds(
    Slow, st.sampled_from((0.0, 0.2, 1.5, math.inf)), st.sampled_from((OK, FAILING, http_answer(status=404)))
)


@given(st.lists(ANSWERS, min_size=1, max_size=8), st.lists(st.integers(0, 40), min_size=1, max_size=4), st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_read_ends_by_its_deadline(script: list[Scripted], widths: list[int], within_s: float) -> None:
    """Method: reads with several rounds, some with many optional calls. Answers are slow or fail, in virtual time."""

    def read(_args: Args) -> Steps:
        for width in widths:
            answers = yield tuple(Call(f"/{number}", optional=True) for number in range(width)) or Call("/0")
            assert isinstance(answers, Answer) or all(isinstance(answer, Answer | Missing) for answer in answers)
        return Page([])

    async def run() -> None:
        with suppress(UpstreamError, CircuitOpen):
            await fetch(planned(read, ScriptedExchange(*script), retries=2), within_s)
        assert trio.current_time() <= within_s + ROUNDING_S

    run_virtually(run)


async def test_silence_is_a_failure_at_the_deadline() -> None:
    with pytest.raises(UpstreamFailed, match="no response within"):
        await fetch(planned(many(100), ScriptedExchange(SILENCE)), 3.0)
    assert trio.current_time() == 3.0
