"""Fair turns: which account is next, its share while others wait, and that no slot is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from limits.fair_turns import FairTurns, TurnStatistics
from tests.fakes.cancelling import cancel_everywhere


class Scene:
    """Turns whose work sleeps, with a record of each account's use."""

    def __init__(self, capacity: int, spare: int = 0) -> None:
        self.turns = FairTurns(capacity, spare=spare)
        self.begun: list[tuple[str, float]] = []
        self.running = Counter[str]()
        self.most = Counter[str]()

    async def work(self, account: str, takes_s: float, expected_s: float = 0.0) -> float:
        """Hold one turn. Return how long it waited."""
        joined_at = trio.current_time()
        async with self.turns.turn(account, expected_s):
            began_at = trio.current_time()
            self.begun.append((account, began_at))
            self.running[account] += 1
            self.most[account] = max(self.most[account], self.running[account])
            try:
                await trio.sleep(takes_s)
            finally:
                self.running[account] -= 1
        return began_at - joined_at

    async def flood(self, account: str, takes_s: float, *, until_s: float, at_once: int = 20) -> None:
        """Keep a number of turns of an account running or waiting."""
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(self._again, account, takes_s, until_s)

    async def _again(self, account: str, takes_s: float, until_s: float) -> None:
        with trio.move_on_at(until_s):
            while True:
                await self.work(account, takes_s)


async def test_single_account_uses_every_slot_except_spare_ones(autojump_clock: MockClock) -> None:
    scene = Scene(4, spare=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("a", 1.0, until_s=10.0))
        await trio.sleep(5.5)
        assert scene.turns.statistics() == TurnStatistics(in_use=4, waiting=16)
    assert scene.most["a"] == 4


async def test_newcomer_never_waits_beside_a_flooding_account(autojump_clock: MockClock) -> None:
    scene = Scene(2, spare=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("hostile", 30.0, until_s=600.0))
        await trio.sleep(1)
        for _ in range(50):
            assert await scene.work("victim", 0.1) == 0.0
            await trio.sleep(1)
    assert scene.most["hostile"] == 2


async def test_account_has_at_most_half_while_others_wait(autojump_clock: MockClock) -> None:
    scene = Scene(6)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("a", 10.0, until_s=200.0))
        await trio.sleep(1)
        nursery.start_soon(lambda: scene.flood("b", 0.1, until_s=200.0))
        await trio.sleep(30)
        assert scene.running["a"] == 3
    assert scene.most["a"] == 6


async def test_account_with_the_least_use_is_next(autojump_clock: MockClock) -> None:
    scene = Scene(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("dear", 3.0, until_s=300.0, at_once=50))
        nursery.start_soon(lambda: scene.flood("cheap", 0.5, until_s=300.0, at_once=2))
    used = Counter[str]()
    for account, _ in scene.begun:
        used[account] += 6 if account == "dear" else 1
    assert used["dear"] == pytest.approx(used["cheap"], rel=0.05)


async def test_reported_use_counts_instead_of_elapsed_time(autojump_clock: MockClock) -> None:
    turns, begun = FairTurns(1), Counter[str]()

    async def work(account: str, used_s: float) -> None:
        with trio.move_on_at(400.0):
            while True:
                async with turns.turn(account) as turn:
                    turn.used_s = used_s
                    begun[account] += 1
                    await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(work, "waits", 0.1)
            nursery.start_soon(work, "computes", 0.3)
    assert begun["waits"] == pytest.approx(3 * begun["computes"], rel=0.05)


async def test_idle_time_is_not_saved_up(autojump_clock: MockClock) -> None:
    """Method: an account that returns after others have used much shares with them, instead of going first."""
    scene = Scene(1)
    await scene.work("returning", 1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("a", 1.0, until_s=1_100.0))
        await trio.sleep(1_000)
        scene.begun.clear()
        nursery.start_soon(lambda: scene.flood("returning", 1.0, until_s=1_100.0))
    had = Counter(account for account, _ in scene.begun)
    assert had["returning"] == pytest.approx(had["a"], abs=3)


async def test_slots_that_others_did_not_want_cause_no_debt(autojump_clock: MockClock) -> None:
    """Method: one account has more than an equal share because another wants little; a third shares with it equally."""
    scene = Scene(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: scene.flood("a", 1.0, until_s=400.0))
        await scene.flood("b", 1.0, until_s=300.0, at_once=1)
        scene.begun.clear()
        await scene.flood("c", 1.0, until_s=400.0)
    had = Counter(account for account, _ in scene.begun)
    assert had["a"] == pytest.approx(had["c"], abs=6)


async def test_stream_of_newcomers_does_not_starve_an_account_in_debt(autojump_clock: MockClock) -> None:
    scene, is_over = Scene(1), trio.Event()

    async def newcomers(name: str) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            await scene.work(f"{name} {number}", 0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.work, "old", 20.0)
        await trio.sleep(0.1)
        for name in ("x", "y", "z"):
            nursery.start_soon(newcomers, name)
        assert await scene.work("old", 1.0) < 100
        is_over.set()


async def test_short_turns_overtake_long_ones_that_have_not_waited_long(autojump_clock: MockClock) -> None:
    scene = Scene(1)

    async def named(name: str, expected_s: float) -> None:
        async with scene.turns.turn("a", expected_s):
            scene.begun.append((name, trio.current_time()))
            await trio.sleep(expected_s)

    async with trio.open_nursery() as nursery:
        for name, expected_s in (("first", 2.0), ("long", 2.0), ("short", 0.1)):
            nursery.start_soon(named, name, expected_s)
            await trio.sleep(0.01)
        for number in range(150):
            nursery.start_soon(named, f"later {number}", 0.1)
            await trio.sleep(0.1)
    names = [name for name, _ in scene.begun]
    assert names[:2] == ["first", "short"]
    assert 90 < names.index("long") < 110


async def test_expected_wait_depends_on_the_account_and_deadlines(autojump_clock: MockClock) -> None:
    turns = FairTurns(2, spare=1)

    async def hold(account: str, expected_s: float, over_at: float) -> None:
        async with turns.turn(account, expected_s, over_at=over_at):
            await trio.sleep(100)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(hold, "a", 500.0, 30.0)
        await trio.sleep(1)
        assert turns.expected_wait_s("b") == 0.0, "the spare slot is free"
        assert turns.expected_wait_s("a") == pytest.approx(29.0), "the deadline is used, not the expected time"
        nursery.start_soon(hold, "b", 5.0, 1_000.0)
        nursery.start_soon(hold, "a", 50.0, 1_000.0)
        await trio.sleep(1)
        assert turns.expected_wait_s("c") == pytest.approx(4.0), "the queue of another account is not ahead"
        assert turns.expected_wait_s("a", 60.0) == pytest.approx(28.0 + 25.0), "its own queue is ahead, by two slots"
        nursery.cancel_scope.cancel()


@pytest.mark.critical
@pytest.mark.parametrize("steps", [1, 3])
async def test_cancelled_turn_frees_its_slot_at_every_step(autojump_clock: MockClock, steps: int) -> None:
    scene = Scene(2, spare=1)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(steps):
                nursery.start_soon(scene.work, "a", 1.0)
                nursery.start_soon(scene.work, "b", 0.5)
                nursery.start_soon(scene.work, "c", 0.1)

    async def check(_through: bool) -> None:
        assert scene.turns.statistics() == TurnStatistics(0, 0)

    assert await cancel_everywhere(run, check) > 3


async def test_no_slot_is_lost_or_assigned_twice(autojump_clock: MockClock) -> None:
    scene, rng = Scene(3, spare=1), Random(5)

    async def run(account: str, wait_s: float, takes_s: float, leaves_s: float) -> None:
        await trio.sleep(wait_s)
        with trio.move_on_after(leaves_s):
            await scene.work(account, takes_s, rng.random())
        assert scene.turns.statistics().in_use <= 4

    async with trio.open_nursery() as nursery:
        for number in range(600):
            leaves_s = rng.choice((rng.random(), rng.random() * 10, 1_000.0))
            nursery.start_soon(run, f"account {number % 5}", rng.random() * 20, rng.random() * 0.3, leaves_s)
    assert scene.turns.statistics() == TurnStatistics(0, 0)
    assert not scene.running.total()


_LENGTHS, _BEGINS = st.sampled_from([0.3, 1.0, 4.0]), st.sampled_from([0.0, 0.0, 25.5, 50.0])
_FLOODS = st.lists(st.tuples(_LENGTHS, st.integers(1, 12), _BEGINS), min_size=2, max_size=5)


@pytest.mark.critical
@given(capacity=st.integers(1, 5), spare=st.integers(0, 1), floods=_FLOODS)
@settings(deadline=None, max_examples=25)
def test_waiting_account_gets_at_least_its_share(
    capacity: int, spare: int, floods: Sequence[tuple[float, int, float]]
) -> None:
    """Method: accounts start at any time and keep turns of any length waiting; in every window each gets its share."""
    asked = [max(at_once, 2 * capacity) for _, at_once, _ in floods]
    used = [list[tuple[float, float]]() for _ in floods]

    async def keep(turns: FairTurns, account: int, takes_s: float, begins_s: float) -> None:
        await trio.sleep(begins_s)
        while True:
            async with turns.turn(str(account)):
                began_at = trio.current_time()
                try:
                    await trio.sleep(takes_s)
                finally:
                    used[account].append((began_at, trio.current_time()))

    async def main() -> None:
        turns = FairTurns(capacity, spare=spare)
        with trio.move_on_after(100):
            async with trio.open_nursery() as nursery:
                for account, (takes_s, _, begins_s) in enumerate(floods):
                    for _ in range(asked[account]):
                        nursery.start_soon(keep, turns, account, takes_s, begins_s)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    longest_s = max(takes_s for takes_s, _, _ in floods)
    half = max(1, capacity // 2)
    share = min(half, capacity / len(floods))
    for from_s, to_s in ((0, 100), (25.5, 60), (50, 100)):
        for (_, _, begins_s), turns_of in zip(floods, used, strict=True):
            if begins_s > from_s:
                continue
            had_s = sum(max(0.0, min(end, to_s) - max(began, from_s)) for began, end in turns_of)
            slack_s = longest_s * (2 + spare)
            assert had_s >= share * (to_s - from_s) - slack_s
