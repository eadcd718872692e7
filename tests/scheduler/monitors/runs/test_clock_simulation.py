"""Hours of monitors while nodes stop and crash, the store is unavailable, upstreams fail and clocks jump.

At the end, every slot has one record. Every run has ended once, with one event and at most one delivery. No run was
charged twice, and the ledger verifies.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import trio
import trio.testing

from billing.charges.recovery import recover
from scheduler.clock.cadence import slots_between, stored_cadence
from scheduler.monitors.model.records import Monitor, Run
from scheduler.recipes import Gathered, Recipe
from storage.errors import StoreUnavailable
from tests.fakes.inline_store import InlineStore
from tests.fakes.patient_clock import VIRTUALLY
from tests.fakes.scripted_recipes import gathered
from tests.gate.matrix import sample
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk
from upstreams.model.errors import UpstreamFailed

LIVES = 12
LIFE_S = 1_500.0
LONG_S = 290.0
"""A cadence with a slot every five minutes: nodes are likely to end in the middle of such runs."""
ACCOUNTS = {"rich": 100_000, "poor": 60}
EACH = 20
CADENCE = {"cron": "*/5 * * * *"}
AWAY = StoreUnavailable("the store is away")
ENDED = {"monitor.run_completed", "monitor.run_failed", "monitor.run_skipped"}


class World:
    """One store and the nodes that use it, one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.store = InlineStore(MIGRATIONS)
        self.ahead_s = 0.0
        self.monitors: list[Monitor] = []
        self.accounts: dict[str, str] = {}

    def desk(self, life: int) -> Desk:
        desk = Desk(self.store, f"n{life:02d}")
        desk.starts_at = EPOCH + self.ahead_s
        desk.recipes.answer = self._answer
        desk.recipes.takes_s = LONG_S if life % 4 == 3 else self.rng.choice((0.0, 1.0, 20.0, 200.0))
        return desk

    def _answer(self, _recipe: Recipe) -> Gathered:
        came = self.rng.random()
        if came < 0.1:
            raise UpstreamFailed("api", "the upstream answered 500")
        if came < 0.13:
            raise RuntimeError("a bug")
        return gathered({"stars": self.rng.randrange(200)}, coverage=self.rng.choice((1.0, 1.0, 1.0, 0.5, 0.0)))

    async def settle_in(self) -> None:
        """Create accounts and monitors on a node that does not count as one of the test's nodes."""
        desk = self.desk(99)
        for name, credits in ACCOUNTS.items():  # noqa: A001 - the specification's name
            self.accounts[name] = await desk.account(credits)
        rules = [{"metric": "stars", "op": "gt", "value": 150}]
        for number in range(EACH):
            for account in self.accounts.values():
                hook = "https://example.com/hook" if number % 2 else None
                self.monitors.append(await desk.monitor(account, cadence=CADENCE, rules=rules, hook=hook))

    async def live(self, life: int) -> None:
        """Run a node until it stops or crashes; after a crash, nothing that it does reaches the store."""
        desk = self.desk(life)
        await recover(desk.store, now=desk.now)
        async with desk.clock():
            with trio.move_on_after(LIFE_S * self.rng.uniform(0.5, 1.5)):
                await self._weather(desk)
            self.store.failing = AWAY if self.rng.random() < 0.5 else None
        self.store.failing = None
        self.ahead_s += self.rng.choice((0.0, 0.0, 700.0))  # the time that the clock advances while no node runs

    async def _weather(self, desk: Desk) -> None:
        while True:
            self.store.failing = None
            await trio.sleep(self.rng.uniform(50.0, 400.0))
            event = self.rng.random()
            if event < 0.5:
                self.store.failing = AWAY
                await trio.sleep(self.rng.uniform(0.1, 60.0))
            elif event < 0.7:
                assert desk.starts_at is not None
                desk.starts_at += 400.0
                self.ahead_s += 400.0

    async def rest(self) -> Desk:
        """Run a last node without faults until every run has ended."""
        desk = self.desk(98)
        desk.recipes.takes_s = 0.0
        await recover(desk.store, now=desk.now)
        async with desk.clock():
            await trio.sleep(400.0)
        await desk.charges.finish()
        return desk


@pytest.mark.usefixtures("rare_ticks")
@pytest.mark.parametrize("seed", sample(range(1, 7)))
@VIRTUALLY
async def test_no_slot_is_run_twice_and_no_run_is_charged_twice(seed: int) -> None:
    world = World(seed)
    await world.settle_in()
    for life in range(LIVES):
        await world.live(life)
    desk = await world.rest()
    settled = await desk.settled()
    runs: list[Run] = []
    for monitor in world.monitors:
        own = await desk.all_runs(monitor.id)
        check_slots(monitor, own, desk.now())
        after = await desk.read(monitor)
        assert after.credits_spent == sum(run.credits_used for run in own)
        assert after.runs_total == sum(run.status in ("ok", "partial", "failed") for run in own)
        runs += own
    spent = Counter[str]()
    for request_id, used in settled.items():
        run_id = request_id.partition(".")[0]
        assert run_id not in spent, "only one attempt of a run settles"
        spent[run_id] = used
    assert spent == {run.id: run.credits_used for run in runs if run.credits_used}
    await check_told(desk, world, runs)
    await desk.assert_sound(*world.accounts.values())
    for name, account in world.accounts.items():
        used = sum(run.credits_used for run in runs if run.account_id == account)
        assert (await desk.money(account))[0] == ACCOUNTS[name] - used
    assert {run.status for run in runs} == {"ok", "partial", "failed", "skipped"}
    assert any(run.attempt > 1 for run in runs), "at least one run was resumed"
    assert len(runs) > 2_000
    world.store.close()


def check_slots(monitor: Monitor, runs: list[Run], now: float) -> None:
    """Check that every slot since the monitor's creation has a record, and that all have ended."""
    expected = slots_between(stored_cadence(CADENCE), EPOCH, now, created_at=monitor.created_at, limit=100_000)
    assert [run.scheduled_for for run in runs] == expected
    assert all(run.finished_at is not None for run in runs)


async def check_told(desk: Desk, world: World, runs: list[Run]) -> None:
    """Check that each run's end has one event, and that it has one delivery if it must be delivered."""
    told = Counter[str]()
    for account in world.accounts.values():
        told.update(event["data"]["run_id"] for event in await desk.events(account) if event["type"] in ENDED)
    assert told == Counter(run.id for run in runs)
    hooked = {monitor.id for place, monitor in enumerate(world.monitors) if place // 2 % 2}
    due = {run.id for run in runs if run.status in ("ok", "partial") and run.monitor_id in hooked}
    delivered = [row[0] for row in await desk.deliveries()]
    assert sorted(delivered) == sorted(due)
