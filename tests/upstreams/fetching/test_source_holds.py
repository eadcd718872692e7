"""A source on hold, in virtual time: which calls wait, which call tries first, and which calls are refused."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from limits.errors import CircuitOpen, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    LongestPauses,
    Scripted,
    ScriptedExchange,
    Slow,
    asking,
    http_answer,
    outcomes,
    source_over,
)
from upstreams.fetching.source import THROTTLED_S, Rules, Source, Standing
from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Backoff, Pace, Remaining
from upstreams.model.steps import Answer
from upstreams.platforms.github import PLATFORM as GITHUB
from upstreams.platforms.stackexchange import PLATFORM as STACKEXCHANGE
from upstreams.transport.http import HttpAnswer, HttpCall

trio_run = run_virtually

NO_RETRIES = Rules(timeout_s=20.0, retries=0)


def throttled(for_s: int) -> HttpAnswer:
    return http_answer(status=429, retry_after=str(for_s))


async def held(exchange: ScriptedExchange, for_s: int, *, rules: Rules = NO_RETRIES) -> Source:
    """Return a source that has just been throttled, without the throttled call."""
    source = source_over(exchange, rules=rules, rng=LongestPauses())
    exchange.script(throttled(for_s))
    with pytest.raises(UpstreamThrottled):
        await source.ask(asking(), LONG_S)
    exchange.calls.clear()
    exchange.asked_at.clear()
    return source


async def many(source: Source, count: int) -> list[object]:
    """Return the results of this many concurrent calls."""
    return await outcomes(*[partial(source.ask, asking(f"/v1/x?n={place}"), LONG_S) for place in range(count)])


# Waiting


async def test_call_waits_out_a_short_hold() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 7)
    exchange.script(OK)
    answer = await source.ask(asking(), LONG_S)
    assert exchange.asked_at == [7.0]
    assert answer.took_s == 7.0
    await source.ask(asking(), LONG_S)
    assert exchange.asked_at == [7.0, 7.0], "the hold ends for all calls"


@pytest.mark.parametrize(("hold_s", "within_s"), [(20, LONG_S), (30, LONG_S), (5, 5.0), (5, 1.0)])
async def test_hold_beyond_timeout_or_deadline_is_refused_immediately(hold_s: int, within_s: float) -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, hold_s)
    with pytest.raises(Throttled) as refusal:
        await source.ask(asking(), within_s)
    assert refusal.value.retry_after_s == hold_s
    assert trio.current_time() == 0.0
    assert exchange.calls == []


async def test_default_hold_is_not_waited_for() -> None:
    source = source_over(ScriptedExchange(http_answer(status=429)))
    ended = [(await outcomes(partial(source.ask, asking(), LONG_S)))[0] for _ in range(2)]
    assert [type(one) for one in ended] == [UpstreamThrottled, Throttled]
    assert isinstance(ended[1], Throttled)
    assert ended[1].retry_after_s == THROTTLED_S
    assert trio.current_time() == 0.0


async def test_retry_waits_out_a_short_hold() -> None:
    """Method: one call pauses for 0.1 s before its retry. During the pause, another call is throttled."""
    exchange = ScriptedExchange(FAILING, throttled(9), OK)
    source = source_over(exchange, rng=LongestPauses())

    async def later() -> object:
        await trio.sleep(0.05)
        return await source.ask(asking("/v1/other"), LONG_S)

    refusal, answer = await outcomes(later, partial(source.ask, asking(), LONG_S))
    assert isinstance(refusal, UpstreamThrottled), "a throttled call is not retried automatically"
    assert isinstance(answer, Answer)
    assert exchange.asked_at == [0.0, 0.05, pytest.approx(9.05)]
    assert answer.took_s == pytest.approx(9.05)


# The trial


async def test_first_call_after_a_hold_releases_the_others() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(Slow(2.0, OK), Slow(1.0, OK))
    ended = await many(source, 50)
    assert [type(one) for one in ended] == [Answer] * 50
    assert exchange.asked_at == [5.0] + [7.0] * 49


async def test_not_found_trial_ends_the_hold() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(Slow(2.0, http_answer(status=404)), Slow(1.0, OK))
    ended = await many(source, 10)
    assert [type(one) for one in ended] == [NotFound] + [Answer] * 9
    assert exchange.asked_at == [5.0] + [7.0] * 9


async def test_failed_trials_are_followed_one_at_a_time() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(Slow(1.0, http_answer(status=500)), Slow(1.0, http_answer(status=500)), Slow(1.0, OK), OK)
    ended = await many(source, 10)
    assert [type(one) for one in ended] == [UpstreamFailed] * 2 + [Answer] * 8
    assert exchange.asked_at == [5.0, 6.0, 7.0] + [8.0] * 7


async def test_trials_stop_when_the_circuit_opens() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(http_answer(status=500))
    ended = await many(source, 50)
    assert [type(one) for one in ended] == [UpstreamFailed] * 5 + [CircuitOpen] * 45
    assert len(exchange.calls) == 5
    assert source.statistics().queued == 0


async def test_waits_under_repeated_throttling_are_bounded() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 6)
    ended = await many(source, 50)
    assert [type(one) for one in ended] == [UpstreamThrottled] * 3 + [Throttled] * 47
    assert exchange.asked_at == [6.0, 12.0, 18.0]
    assert trio.current_time() == 18.0, "a call that cannot be served within 20 s is refused early"
    assert {one.retry_after_s for one in ended if isinstance(one, Throttled)} == {6}


async def test_later_call_waits_for_the_trial() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(Slow(12.0, OK), OK)

    async def later(within_s: float) -> object:
        await trio.sleep(6.0)
        return await source.ask(asking(), trio.current_time() + within_s)

    ended = await outcomes(partial(source.ask, asking(), LONG_S), partial(later, 3.0), partial(later, 15.0))
    assert [type(one) for one in ended] == [Throttled, Answer, Answer]
    assert isinstance(ended[0], Throttled)
    assert ended[0].retry_after_s == 1
    assert exchange.asked_at == [5.0, 17.0]


async def test_cancelled_waiter_does_not_affect_the_others() -> None:
    """The call is cancelled at three moments: as the first in the queue, during its trial, and between its attempts."""
    exchange = ScriptedExchange()

    async def run() -> None:
        nonlocal source
        source = await held(exchange, 5, rules=Rules(retries=1))
        exchange.script(Slow(1.0, FAILING), Slow(1.0, OK))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others.start, source)
            await source.ask(asking(), LONG_S)
            await others.has_ended.wait()

    async def check(got_through: bool) -> None:
        nonlocal others
        others = Others()
        await wait_all_tasks_blocked()
        assert (source.statistics().queued, source.statistics().in_flight) == (0, 0)
        exchange.script(OK)
        with trio.fail_after(5.5):
            await source.ask(asking(), LONG_S)
        assert len(source._governor.held) == 0

    source, others = source_over(exchange), Others()
    assert await cancel_everywhere(run, check) >= 5


class Others:
    """Calls that run while a test cancels another one."""

    def __init__(self) -> None:
        self.has_ended = trio.Event()

    async def start(self, source: Source) -> None:
        await many(source, 3)
        self.has_ended.set()


# Pauses that successful answers request


async def test_github_exhausted_quota_holds_until_reset() -> None:
    spent = http_answer(
        {"login": "ada"},
        x_ratelimit_remaining="0",
        x_ratelimit_reset="1735689615",
        date="Wed, 01 Jan 2025 00:00:00 GMT",
    )
    exchange = ScriptedExchange(spent, OK)
    source = source_over(exchange, judge=GITHUB.judge, backoff=GITHUB.rest, method_of=GITHUB.method_of)
    assert (await source.ask(asking(), LONG_S)).body == {"login": "ada"}
    await many(source, 3)
    assert exchange.asked_at == [0.0, 15.0, 15.0, 15.0]


async def test_stack_exchange_backoff_holds_the_method() -> None:
    exchange = ScriptedExchange(http_answer({"items": [], "backoff": 10}), OK)
    platform = STACKEXCHANGE
    source = source_over(exchange, judge=platform.judge, backoff=platform.rest, method_of=platform.method_of)
    for target in ("/v1/questions/1;2/answers", "/v1/questions/3", "/v1/questions/3/answers?page=1"):
        await source.ask(asking(target), LONG_S)
    assert exchange.asked_at == [0.0, 0.0, 10.0]


async def test_throttled_trial_renews_the_hold() -> None:
    exchange = ScriptedExchange(http_answer({"backoff": 4}), http_answer({"backoff": 5}), OK)
    source = source_over(exchange, backoff=lambda answer: _of_method(answer.body), rules=NO_RETRIES)
    await source.ask(asking(), LONG_S)
    await many(source, 3)
    assert exchange.asked_at == [0.0, 4.0, 9.0, 9.0]


def _of_method(body: dict[str, float]) -> Backoff | None:
    return Backoff(body["backoff"], "method") if "backoff" in body else None


# Numbers


async def test_statistics_count_holds() -> None:
    exchange = ScriptedExchange()
    source = await held(exchange, 5)
    exchange.script(Slow(10.0, OK), OK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(many, source, 3)
        await trio.sleep(1.0)
        with pytest.raises(Throttled):
            await source.ask(asking(), 3.0)
        now = source.statistics()
        assert (now.queued, now.queued_total, now.throttled_total, now.in_flight) == (3, 3, 1, 0)
        await trio.sleep(5.0)
        now = source.statistics()
        assert (now.queued, now.queued_total, now.in_flight, now.calls_total) == (2, 3, 1, 2)
    now = source.statistics()
    assert (now.held_total, now.queued, now.in_flight, now.calls_total) == (1, 0, 0, 4)


async def test_standing_contains_hold_quota_and_pace() -> None:
    exchange = ScriptedExchange(
        http_answer({}, left="7", reset="30"), http_answer({}, left="0", reset="20"), http_answer({}, other="1")
    )
    source = source_over(exchange, backoff=Remaining("left", "reset"), pace=Pace(10, per_s=60))
    assert source.standing() == Standing(0.0, None, None, 10, 10, 60)
    await source.ask(asking(), LONG_S)
    assert source.standing() == Standing(0.0, 7, 30.0, 9, 10, 60)
    await trio.sleep(12)
    assert source.standing() == Standing(0.0, 7, 18.0, 10, 10, 60)
    await source.ask(asking(), LONG_S)
    assert source.standing() == Standing(20.0, 0, 20.0, 9, 10, 60)
    await trio.sleep(21)
    assert source.standing() == Standing(0.0, None, None, 10, 10, 60), "the window is new, and its count is unknown"
    await source.ask(asking(), LONG_S)
    assert source.standing().quota_left is None
    assert source_over(exchange).standing() == Standing(0.0, None, None, None, None, None)


# Any sequence of answers


class Watched:
    """A scripted exchange that checks whether the source respects the holds that its answers request."""

    def __init__(self, script: list[Slow]) -> None:
        self._exchange = ScriptedExchange(script=self._next)
        self._script = script
        self._place = 0
        self._held_until = 0.0
        self._is_trying = False
        self._is_free = True
        self.waiting: list[int] = []

    def _next(self, _call: HttpCall) -> Scripted:
        self._place += 1
        return self._script[(self._place - 1) % len(self._script)]

    async def __call__(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        number = int(call.target.rpartition("=")[2])
        assert trio.current_time() >= self._held_until, "the source is held"
        hold, is_trial = self._held_until, not self._is_free
        if is_trial:
            assert not self._is_trying, "only one call tries at a time"
            assert number == self.waiting[0], "the call that waited longest tries first"
            self._is_trying = True
        self.waiting.remove(number)
        answer: HttpAnswer | None = None
        try:
            answer = await self._exchange(call, deadline_at)
            return answer
        finally:
            self._learn(answer, is_trial=is_trial and hold == self._held_until)

    def _learn(self, answer: HttpAnswer | None, *, is_trial: bool) -> None:
        until = 0.0
        if answer is not None and answer.status == 429:
            until = trio.current_time() + float(answer.headers["retry-after"])
        if until > self._held_until:
            self._held_until, self._is_free, self._is_trying = until, False, False
        elif is_trial:
            self._is_trying = False
            self._is_free = answer is not None and answer.status in (200, 404)


SAYINGS = st.builds(
    Slow,
    st.sampled_from((0.0, 0.5, 1.0, 4.0)),
    st.sampled_from(
        (OK, OK, http_answer(status=404), http_answer(status=500), throttled(1), throttled(2), throttled(9))
    ),
)
CALLS = st.tuples(
    st.integers(0, 20), st.integers(1, 20), st.none() | st.integers(0, 20)
)  # each in half seconds: the time of arrival, the deadline, and the cancellation after it


@given(
    st.lists(SAYINGS, min_size=1, max_size=8),
    st.lists(CALLS, min_size=1, max_size=15),
    st.sampled_from((1.0, 3.0, 20.0)),
)
@settings(max_examples=100, deadline=None)
def test_holds_allow_one_trial_at_a_time_and_all_calls_end_in_time(
    script: list[Slow], calls: list[tuple[int, int, int | None]], timeout_s: float
) -> None:
    """Method: random answers, arrivals, deadlines and cancellations in virtual time, many of them simultaneous."""

    async def run() -> None:
        watched = Watched(script)
        source = source_over(watched, rules=Rules(timeout_s=timeout_s, retries=0))
        ended: list[int] = []

        async def ask(number: int, at: float, within_s: float, cancel_after_s: float | None) -> None:
            await trio.sleep_until(at)
            watched.waiting.append(number)
            with trio.CancelScope() as scope:
                scope.deadline = at + (LONG_S if cancel_after_s is None else cancel_after_s)
                try:
                    await source.ask(asking(f"/v1/x?n={number}"), at + within_s)
                except Throttled:
                    assert trio.current_time() <= at + min(within_s, timeout_s)
                except (UpstreamError, CircuitOpen):
                    pass
            if number in watched.waiting:
                watched.waiting.remove(number)
            assert trio.current_time() <= at + within_s
            ended.append(number)

        async with trio.open_nursery() as nursery:
            for number, (at, within, cancel_after) in enumerate(calls):
                cancel_after_s = None if cancel_after is None else cancel_after / 2
                nursery.start_soon(ask, number, at / 2, within / 2, cancel_after_s)
        assert sorted(ended) == list(range(len(calls)))
        assert (source.statistics().queued, source.statistics().in_flight) == (0, 0)

    run_virtually(run)
