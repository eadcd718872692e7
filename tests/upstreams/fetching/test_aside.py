"""The thread that parses long answers runs one step at a time, alternates between accounts, and respects deadlines."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import trio

from limits.fair_turns import TurnStatistics
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.scripted_exchange import ScriptedExchange, asking, http_answer, source_over
from upstreams.fetching.aside import LONG_BYTES, Aside
from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Answer

LONG_S = 60.0


async def run(aside: Aside, account: str, done: list[str], *, within_s: float = LONG_S) -> None:
    step = partial(done.append, account)
    await aside.run(step, trio.current_time() + within_s, source="api", account_id=account)


@pytest.mark.critical
async def test_accounts_take_turns_in_the_thread() -> None:
    aside, done, may_end = Aside(), list[str](), threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: aside.run(may_end.wait, trio.current_time() + LONG_S, source="api", account_id="hostile")
        )
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(40):
            nursery.start_soon(run, aside, "hostile", done)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(run, aside, "victim", done)
        await trio.testing.wait_all_tasks_blocked()
        assert aside.statistics() == TurnStatistics(in_use=1, waiting=41)
        may_end.set()
    assert done.index("victim") <= 1
    assert len(done) == 41
    assert aside.statistics() == TurnStatistics(0, 0)


async def test_step_without_a_turn_in_time_does_not_start() -> None:
    aside, done, may_end = Aside(), list[str](), threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: aside.run(may_end.wait, trio.current_time() + LONG_S, source="api", account_id="a"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(UpstreamFailed, match="no time left"):
            await run(aside, "b", done, within_s=0.05)
        may_end.set()
    assert done == []
    await run(aside, "b", done)
    assert done == ["b"]


async def test_failed_or_cancelled_step_releases_its_turn() -> None:
    aside = Aside()
    with pytest.raises(ZeroDivisionError):
        await aside.run(lambda: 1 // 0, trio.current_time() + LONG_S, source="api", account_id="a")

    async def check(_through: bool) -> None:
        assert aside.statistics() == TurnStatistics(0, 0)

    assert await cancel_everywhere(partial(run, aside, "a", []), check) >= 2


async def test_long_answer_is_parsed_in_a_thread() -> None:
    read_in: list[int] = []

    def note(_answer: Answer) -> None:
        read_in.append(threading.get_ident())

    for body in (b'{"message":"x"}', b'{"message":"%b"}' % (b"x" * LONG_BYTES)):
        source = source_over(ScriptedExchange(http_answer(body, 400)), judge=note)
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), trio.current_time() + LONG_S)
    assert [ident == threading.get_ident() for ident in read_in] == [True, False]
