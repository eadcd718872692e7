"""A platform's budget on one node and on several, and the calls that it delays or refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.errors import CircuitOpen, Throttled
from storage.state import State
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, OK, ScriptedExchange, outcomes, source_over
from tests.fakes.unit_counts import UnitCounts
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.spending import CLAIMS, SharedUnits, Spending
from upstreams.model.budgets import Budget
from upstreams.model.refusals import Pace
from upstreams.model.steps import Answer
from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin

trio_run = run_virtually

NOON = 1_795_867_200.0  # 2026-11-28 12:00 UTC
DAY = Budget(1_000, costs={"/search": 100})


def now() -> float:
    return NOON + trio.current_time()


def node(
    budget: Budget = DAY, counts: UnitCounts | None = None, pace: Pace | None = None, name: str = "odd:0"
) -> tuple[Source, Spending, ScriptedExchange]:
    """Return a source of one node, whose budget is counted in `counts` if there are any."""
    exchange = ScriptedExchange(OK)
    shared = None if counts is None else SharedUnits(cast("State", counts), name)
    spending = Spending(budget, now, shared)
    return source_over(exchange, budgets=[spending], pace=pace, rules=Rules(retries=0)), spending, exchange


async def ask(source: Source, path: str = "/x", *, waits: bool = True) -> Answer:
    call = HttpCall("GET", Origin("https", "api.test", 443), f"/v1{path}?q=1")
    return await source.ask(call, trio.current_time() + LONG_S, waits=waits)


async def sent(source: Source, path: str = "/x", times: int = 2_000) -> int:
    """Return how many of the calls were sent before the budget refused one."""
    for count in range(times):
        try:
            await ask(source, path, waits=False)
        except Throttled:
            return count
    return times


async def test_budget_is_used_up_and_starts_again_at_its_reset() -> None:
    source, spending, exchange = node()
    assert [await sent(source, "/search"), await sent(source)] == [10, 0]
    with pytest.raises(Throttled) as caught:
        await ask(source)
    assert caught.value.retry_after_s == 3_600, "a hold lasts at most an hour; then it is checked again"
    await trio.sleep(12 * 3_600 - 1)
    assert await sent(source) == 0
    await trio.sleep(1)
    assert spending.standing(0.0) == (1_000, 1_000, 86_400.0)
    assert await sent(source) == 1_000
    assert len(exchange.calls) == 1_010


async def test_cheap_calls_continue_if_only_expensive_ones_are_impossible() -> None:
    source, spending, _ = node()
    for _ in range(950):
        await ask(source)
    assert [await sent(source, "/search"), await sent(source)] == [0, 50]
    assert spending.standing(0.0)[0] == 0


async def test_calls_wait_for_the_next_minute() -> None:
    source, _, exchange = node(Budget(3, per="minute"))
    await trio.sleep(50)
    await outcomes(*[partial(ask, source, f"/{number}") for number in range(6)])
    assert exchange.asked_at == [50.0] * 3 + [60.0] * 3


async def test_pace_and_budget_apply_together() -> None:
    """A call that one limit delays is not paid for in the other."""
    source, spending, exchange = node(pace=Pace(2, per_s=2))
    await outcomes(*[partial(ask, source)] * 6)
    assert exchange.asked_at == [0.0, 0.0, *(pytest.approx(float(second)) for second in range(1, 5))]
    assert spending.standing(0.0)[0] == 994


async def test_calls_that_are_not_sent_cost_nothing() -> None:
    source, spending, _ = node()
    await ask(source)
    source.breaker.isolate()
    for _ in range(20):
        with pytest.raises(CircuitOpen):
            await ask(source, "/search")
    assert spending.standing(0.0)[0] == 999


async def test_sources_of_a_platform_share_a_budget() -> None:
    source, spending, _ = node()
    other = source_over(ScriptedExchange(OK), budgets=[spending])
    assert [await sent(source, times=600), await sent(other)] == [600, 400]


async def test_nodes_share_a_budget_and_claim_it_in_parts() -> None:
    counts = UnitCounts()
    sources = [node(counts=counts)[0] for _ in range(3)]
    ended = await outcomes(*[partial(sent, source) for source in sources])
    assert sum(cast("Sequence[int]", ended)) == 1_000
    assert counts.total() >= 1_000
    assert counts.calls <= 2 * (CLAIMS + 3), "two commands for each part, and for each node's refusal"
    (first,) = counts.values
    await trio.sleep(24 * 3_600)
    assert await sent(sources[0]) == 1_000
    await trio.sleep(24 * 3_600)
    assert await sent(sources[1]) == 1_000
    assert first not in counts.values, "the count of an earlier period expires"


async def test_idle_node_holds_back_only_one_part() -> None:
    counts = UnitCounts()
    (idle, _, _), (busy, _, _) = (node(counts=counts) for _ in range(2))
    await ask(idle)
    assert await sent(busy) == 1_000 - DAY.units // CLAIMS


async def test_concurrent_calls_of_a_node_claim_once() -> None:
    counts = UnitCounts()
    source, _, _ = node(counts=counts)
    await outcomes(*[partial(ask, source)] * 10)
    assert counts.total() == 10


async def test_last_part_may_be_smaller_than_a_claim() -> None:
    counts = UnitCounts()
    budget = Budget(105, costs={"/search": 50})
    first, second = (node(budget, counts)[0] for _ in range(2))
    assert await sent(first, "/search") == 2
    assert [await sent(second, "/search"), await sent(first)] == [0, 5]


async def test_node_counts_alone_while_shared_state_is_away() -> None:
    counts = UnitCounts()
    source, _, _ = node(counts=counts)
    counts.away = True
    assert await sent(source) == 1_000


async def test_units_of_an_ended_period_are_not_used_in_the_next() -> None:
    """Method: the period ends between the two calls of shared state, and another node has used the next period."""
    counts = UnitCounts()
    budget = Budget(10, per="minute")
    (late, _, exchange), (other, _, _) = (node(budget, counts) for _ in range(2))
    await trio.sleep(59)
    counts.delay_s = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(sent, late, times=1))
        await trio.sleep(1.5)
        counts.delay_s = 0.0
        assert await sent(other) == 10
        with pytest.raises(Throttled):
            await ask(late, waits=False)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert exchange.calls == []


async def test_call_that_is_cancelled_while_it_claims_leaves_the_others_working() -> None:
    counts = UnitCounts()
    source, spending, _ = node(counts=counts)
    counts.delay_s = 5.0
    with trio.move_on_after(1):
        await ask(source)
    counts.delay_s = 0.0
    await ask(source)
    assert spending.standing(0.0)[0] in range(985, 1_000)


@given(
    units=st.integers(1, 60),
    calls=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["/x", "/search"]), st.floats(0, 30)), min_size=20),
    delay_s=st.sampled_from([0.0, 1.0]),
)
@settings(deadline=None)
def test_no_period_exceeds_its_budget(units: int, calls: list[tuple[int, str, float]], delay_s: float) -> None:
    """Goal: any calls of three nodes cost at most the budget of each minute.

    Method: each call starts at its own time, on the shared count of slow or fast shared state.
    """
    budget, counts = Budget(units, per="minute", costs={"/search": 25}), UnitCounts()
    counts.delay_s = delay_s
    exchanges: list[ScriptedExchange] = []

    async def call(source: Source, path: str, after_s: float) -> None:
        await trio.sleep(after_s * 4)
        with suppress(Throttled):
            await ask(source, path, waits=after_s < 15)

    async def run() -> None:
        nodes = [node(budget, counts) for _ in range(3)]
        exchanges.extend(exchange for _, _, exchange in nodes)
        async with trio.open_nursery() as nursery:
            for place, path, after_s in calls:
                nursery.start_soon(call, nodes[place][0], path, after_s)

    run_virtually(run)
    spent: Counter[float] = Counter()
    for exchange in exchanges:
        for asked_at, request in zip(exchange.asked_at, exchange.calls, strict=True):
            path = request.target.removeprefix("/v1").partition("?")[0]
            spent[budget.window(NOON + asked_at).starts_at] += budget.cost(path)
    assert max(spent.values(), default=0) <= units
