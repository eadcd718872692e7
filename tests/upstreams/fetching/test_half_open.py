"""Two hundred calls wait for a source to recover. Exactly one of them becomes the probe, even if that call fails."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import trio

from limits.errors import CircuitOpen
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, OK, ScriptedExchange, Slow, asking, http_answer, outcomes, source_over
from upstreams.fetching.source import Rules, Source
from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Answer

trio_run = run_virtually

WAITERS = 200
BROKEN = http_answer({"message": "broken"}, 500)


async def ask_all(source: Source) -> list[object]:
    return await outcomes(*[partial(source.ask, asking(), LONG_S)] * WAITERS)


async def half_open() -> tuple[Source, ScriptedExchange]:
    """Return a source whose circuit has just become half open, without the calls that led to this."""
    exchange = ScriptedExchange(BROKEN)
    source = source_over(exchange, rules=Rules(retries=0))
    for _ in range(5):
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), LONG_S)
    with pytest.raises(CircuitOpen) as refused:
        await source.ask(asking(), LONG_S)
    await trio.sleep(refused.value.retry_after_s)
    assert source.breaker.state == "half_open"
    exchange.calls.clear()
    return source, exchange


async def test_waiters_send_one_probe() -> None:
    source, exchange = await half_open()
    exchange.script(Slow(1.0, OK))
    ended = await ask_all(source)
    assert Counter(type(one) for one in ended) == {CircuitOpen: WAITERS - 1, Answer: 1}
    assert {one.retry_after_s for one in ended if isinstance(one, CircuitOpen)} == {1}
    assert len(exchange.calls) == 1
    assert Counter(type(one) for one in await ask_all(source)) == {Answer: WAITERS}
    assert len(exchange.calls) == 1 + WAITERS


async def test_waiters_on_a_dead_source_make_one_call_per_open_period() -> None:
    """No caller waits longer than its own time limit or than the circuit stays open."""
    source, exchange = await half_open()
    for calls, term_s in enumerate((60, 120, 240, 300, 300), start=1):
        exchange.script(BROKEN)
        ended = await ask_all(source)
        assert Counter(type(one) for one in ended) == {CircuitOpen: WAITERS - 1, UpstreamFailed: 1}
        assert len(exchange.calls) == calls
        assert source.breaker.retry_after_s == term_s
        await trio.sleep(term_s)


async def test_cancelled_probe_passes_to_the_next_waiter() -> None:
    source, exchange = await half_open()
    exchange.script(Slow(10.0, OK))
    async with trio.open_nursery() as probe:
        probe.start_soon(source.ask, asking(), LONG_S)
        await trio.sleep(1.0)
        assert Counter(type(one) for one in await ask_all(source)) == {CircuitOpen: WAITERS}
        probe.cancel_scope.cancel()
    assert Counter(type(one) for one in await ask_all(source)) == {CircuitOpen: WAITERS - 1, Answer: 1}
    assert len(exchange.calls) == 2
