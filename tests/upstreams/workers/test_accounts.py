"""Two accounts with real worker processes. A busy account neither delays the other one nor causes its refusal."""

from __future__ import annotations

import sys

import pytest
import trio

from limits.fair_turns import FairTurn, TurnStatistics
from tests.servers.waiting import until
from tests.upstreams.workers.tasks import open_workers, run
from upstreams.model.errors import UpstreamFailed, WorkersBusy
from upstreams.workers.line import SPARE
from upstreams.workers.pool import PROCESSES_MAX, _counted

HOSTILE_S = 90.0
"""How long each hostile task runs, which is far longer than the other account waits, even on the busiest machine."""
WAIT_S_MAX = 30.0
"""The longest wait of the other account. Starting a process takes most of it."""


@pytest.mark.critical
@pytest.mark.trio(run=trio.run)
async def test_busy_account_does_not_delay_others() -> None:
    with open_workers(PROCESSES_MAX) as workers:
        refused = 0

        async def attack() -> None:
            nonlocal refused
            try:
                await run(workers, "spin", account="hostile", within_s=HOSTILE_S)
            except (UpstreamFailed, WorkersBusy):
                refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(attack)
            await until(lambda: workers.statistics().in_use + workers.statistics().waiting + refused == 6)
            assert workers.statistics().in_use <= PROCESSES_MAX
            for _ in range(3):
                workers.check_room("victim")
                began_at = trio.current_time()
                await run(workers, "spin", 0.02, account="victim", within_s=HOSTILE_S)
                assert trio.current_time() - began_at < WAIT_S_MAX
            assert workers.started_total <= PROCESSES_MAX + SPARE
            nursery.cancel_scope.cancel()
        assert workers.statistics() == TurnStatistics(0, 0)


async def test_account_does_not_take_another_accounts_process() -> None:
    with open_workers(PROCESSES_MAX) as workers:
        pids = {account: await run(workers, "echo", account=account) for account in "ab"}
        assert pids["a"] != pids["b"]
        for account in "abab":
            assert await run(workers, "echo", account=account) == pids[account]


async def test_account_that_kills_processes_does_not_affect_other_accounts() -> None:
    """Method: a cancelled task ends its process, but the other account's process stays."""
    with open_workers(PROCESSES_MAX) as workers:

        async def attack() -> None:
            with trio.move_on_after(0.3):
                await run(workers, "spin", account="hostile")

        async def attack_with_all() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(PROCESSES_MAX):
                    nursery.start_soon(attack)

        await attack_with_all()
        started = await run(workers, "echo", account="victim")
        for _ in range(2):
            await attack_with_all()
            assert await run(workers, "echo", account="victim") == started


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has a CPU clock of another process")
async def test_turn_costs_the_cpu_time_of_its_task() -> None:
    with open_workers() as workers:
        await run(workers, "echo")  # the process is already running
        used_s = []
        for name in ("spin", "nap"):
            turn = FairTurn("a", 0.0, 0.0)
            with _counted(workers._idle[0], turn):
                await run(workers, name, 0.3)
            assert turn.used_s is not None
            used_s.append(turn.used_s)
    assert 0.3 <= used_s[0] < 0.6
    assert used_s[1] < 0.1
