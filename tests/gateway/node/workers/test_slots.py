"""Workers are started, watched, replaced and stopped. Here they are small programs with various behaviors."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from gateway.node.workers.slots import Command, WorkerSlots
from gateway.observability.logs import Log

READY = 'import os, sys, time; print(\'{"event":"listening","url":"","admin_url":"http://x"}\', flush=True); '
OBEDIENT = READY + "sys.stdin.read()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY + "time.sleep(600)"
SHORT_LIVED = READY + "sys.exit(3)"
NEVER_READY = "import time; time.sleep(600)"
TALKATIVE = "print('no JSON'); print('{}'); " + OBEDIENT


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class Supervised:
    """Running slots, and what they logged."""

    def __init__(self, code: str, *, count: int = 2, drain_s: float = 5.0, kill_after_s: float = 0.0) -> None:
        self._stream = BytesIO()
        command = Command((sys.executable, "-IS", "-c", code), lambda number: {"NUMBER": str(number)})
        self.log = Log("info", stream=self._stream)
        self.slots = WorkerSlots(count, command, drain_s=drain_s, log=self.log, kill_after_s=kill_after_s)

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [orjson.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    async def wait_events(self, name: str, count: int) -> list[dict[str, Any]]:
        while len(self.events(name)) < count:  # noqa: ASYNC110 - no event is set
            await trio.sleep(0.01)
        return self.events(name)

    def pids(self) -> list[int]:
        return [slot.process.pid for slot in self.slots.slots if slot.process is not None]


@asynccontextmanager
async def running(supervised: Supervised) -> AsyncIterator[WorkerSlots]:
    """Run the workers. Leaving the block stops all of them and waits for their end."""
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervised.slots.run)
            yield supervised.slots
            supervised.slots.stopping.set()


@pytest.mark.parametrize("code", [OBEDIENT, TALKATIVE], ids=["obedient", "talkative"])
async def test_all_workers_become_ready_and_end_when_stdin_closes(code: str) -> None:
    supervised = Supervised(code)
    async with running(supervised) as slots:
        await slots.all_ready.wait()
        assert [slot.admin_url for slot in slots.slots] == ["http://x"] * 2
        pids = supervised.pids()
    assert not supervised.events("worker_killed")
    assert not any(exists(pid) for pid in pids)


async def test_verbose_worker_is_not_blocked(tmp_path: Path) -> None:
    flag_file = tmp_path / "printed"
    code = f"{READY}print('x' * 1_000_000, flush=True); open({str(flag_file)!r}, 'w'); sys.stdin.read()"
    async with running(Supervised(code, count=1)):
        while not flag_file.exists():  # noqa: ASYNC110 - a file sets no event
            await trio.sleep(0.01)


async def test_killed_worker_is_replaced_and_counted() -> None:
    supervised = Supervised(OBEDIENT)
    async with running(supervised) as slots:
        await slots.all_ready.wait()
        killed, other = supervised.pids()
        assert slots.slots[0].process is not None
        slots.slots[0].process.kill()
        await supervised.wait_events("worker_ready", 3)
        assert [slot.deaths for slot in slots.slots] == [1, 0]
        replaced, still = supervised.pids()
        assert (still, replaced != killed) == (other, True)
        (died,) = supervised.events("worker_died")
        assert (died["worker"], died["ended"]) == (0, "was ended by SIGKILL")


async def test_crashing_worker_restarts_with_growing_pauses() -> None:
    supervised = Supervised(SHORT_LIVED, count=1)
    async with running(supervised):
        died = await supervised.wait_events("worker_died", 4)
    assert [event["pause_s"] for event in died] == [0.1, 0.2, 0.4, 0.8]
    assert {event["ended"] for event in died} == {"ended with exit code 3"}


async def test_stop_does_not_wait_for_a_restart_pause() -> None:
    supervised = Supervised(SHORT_LIVED, count=1)
    async with running(supervised):
        await supervised.wait_events("worker_died", 5)
        began_at = trio.current_time()
    assert trio.current_time() - began_at < 1


async def test_worker_that_ends_before_ready_fails_the_start() -> None:
    supervised = Supervised("import os, sys\nif os.environ['NUMBER'] == '1': sys.exit(2)\n" + OBEDIENT)
    with trio.fail_after(90):
        await supervised.slots.run()
    assert supervised.slots.refused == "worker 1 ended with exit code 2 before it was ready; see its messages above"
    assert not supervised.slots.all_ready.is_set()


async def test_missing_program_fails_the_start() -> None:
    slots = WorkerSlots(
        1, Command(("/nowhere/python",), lambda _number: {}), drain_s=1, log=Log("error", stream=BytesIO())
    )
    with trio.fail_after(90):
        await slots.run()
    assert slots.refused


async def test_starting_worker_is_ended_immediately() -> None:
    supervised = Supervised(NEVER_READY)
    async with running(supervised) as slots:
        with trio.fail_after(90):
            while len(supervised.pids()) < 2 or {one.state for one in slots.slots} != {"is starting"}:  # noqa: ASYNC110 - no event is set
                await trio.sleep(0.01)
        began_at = trio.current_time()
    assert trio.current_time() - began_at < 3
    assert not supervised.events("worker_killed")


async def test_worker_that_ignores_the_stop_is_killed_after_the_drain() -> None:
    supervised = Supervised(STUBBORN, drain_s=0.1, kill_after_s=0.2)
    async with running(supervised) as slots:
        await slots.all_ready.wait()
        began_at = trio.current_time()
    assert trio.current_time() - began_at >= 0.3
    assert len(supervised.events("worker_killed")) == 2


async def test_cancelled_supervisor_leaves_no_worker() -> None:
    supervised = Supervised(STUBBORN)
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervised.slots.run)
            await supervised.slots.all_ready.wait()
            pids = supervised.pids()
            nursery.cancel_scope.cancel()
    assert not any(exists(pid) for pid in pids)


async def test_reload_reaches_a_starting_worker_when_ready() -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGHUP, lambda *_: sys.stderr.write('') or sys.exit(0))\n"
        "time.sleep(0.5)\n" + OBEDIENT
    )
    supervised = Supervised(code, count=1)
    async with running(supervised) as slots:
        while not supervised.pids():  # noqa: ASYNC110 - no event is set
            await trio.sleep(0.01)
        slots.reload()
        (died,) = await supervised.wait_events("worker_died", 1)
    assert died["ended"] == "ended with exit code 0"
    assert len(supervised.events("worker_ready")) >= 1
