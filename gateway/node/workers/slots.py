"""Starts and watches a supervisor's workers, and replaces a worker that ends unexpectedly."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

from gateway.observability.logs import Log
from storage.supervision import Keep, unsupervised

KILL_AFTER_S = 5.0
"""Seconds after the drain time until a running worker is killed."""
STEADY_S = 10.0
"""A worker that ran for at least this many seconds is replaced immediately.

Any other is replaced after a pause, which doubles each time.
"""
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 10.0
_LINE_BYTES_MAX = 65_536
_UNSTARTABLE = 127


class _Listening(msgspec.Struct, frozen=True, tag_field="event", tag="listening"):
    """The line that a worker prints when it is ready."""

    admin_url: str


@dataclass(slots=True)
class Slot:
    """One worker's slot. Only the task that runs the worker changes it."""

    number: int
    process: trio.Process | None = None
    admin_url: str = ""
    """The admin address of the ready worker; empty while no worker is ready."""
    state: str = "starting"
    """Why no worker is ready."""
    deaths: int = 0
    is_stale: bool = False
    """Whether the worker may have read its config before the last reload."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command that starts a worker: the program, and the environment for each number."""

    arguments: Sequence[str]
    environ: Callable[[int], Mapping[str, str]]


class WorkerSlots:
    """Runs `count` workers until `stopping` is set.

    Sets `all_ready` as soon as all workers are ready at the same time.
    """

    def __init__(
        self,
        count: int,
        command: Command,
        *,
        drain_s: float,
        log: Log,
        kill_after_s: float = KILL_AFTER_S,
        keep: Keep = unsupervised,
    ) -> None:
        self.slots = [Slot(number) for number in range(count)]
        self.stopping = trio.Event()
        self.all_ready = trio.Event()
        self.refused = ""
        """Why the start failed: how a worker ended before all workers were ready.

        Empty if the start has not failed.
        """
        self._command = command
        self._stop_within_s = drain_s + kill_after_s
        self._log = log
        self.keep = keep
        """Runs the supervisor's own loops."""

    async def run(self) -> None:
        """Keep the workers running. After `stopping` is set, return when every worker has ended or was killed."""
        async with trio.open_nursery() as nursery:
            for slot in self.slots:
                nursery.start_soon(self.keep, "worker", partial(self._keep_running, slot))
            await self.stopping.wait()
            nursery.cancel_scope.deadline = trio.current_time() + self._stop_within_s

    def ready(self) -> list[Slot]:
        """Return the slots with ready workers."""
        return [slot for slot in self.slots if slot.admin_url]

    def reload(self, *, done: Collection[int] = ()) -> None:
        """Make all workers except those in `done` reload their config. A starting worker reloads when it is ready."""
        for slot in self.slots:
            if slot.number in done:
                continue
            if slot.admin_url:
                _reload(slot)
            else:
                slot.is_stale = True

    def kill(self) -> None:
        """Kill every worker immediately."""
        for slot in self.slots:
            if slot.process is not None:
                slot.process.kill()

    async def _keep_running(self, slot: Slot) -> None:
        pause_s = 0.0
        while not self.stopping.is_set():
            began_at = trio.current_time()
            exit_code = await self._run_one(slot)
            if self.stopping.is_set():
                return
            slot.deaths += 1
            if exit_code > 0 and not self.all_ready.is_set():
                self._give_up(slot, exit_code)
                return
            lasted_s = trio.current_time() - began_at
            pause_s = 0.0 if lasted_s >= STEADY_S else min(max(2 * pause_s, _PAUSE_S_MIN), _PAUSE_S_MAX)
            slot.state = f"{_ended(exit_code)}, restarting"
            self._log.event(
                "error", "worker_died", worker=slot.number, ended=_ended(exit_code), lasted_s=lasted_s, pause_s=pause_s
            )
            with trio.move_on_after(pause_s):
                await self.stopping.wait()
                return

    async def _run_one(self, slot: Slot) -> int:
        """Run one worker until it exits. Return its exit code, or the negative signal number if a signal ended it."""
        slot.is_stale = False
        try:
            process = await trio.lowlevel.open_process(
                self._command.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._command.environ(slot.number),
            )
        except OSError as exc:
            self._log.event("error", "worker_unstartable", worker=slot.number, error=str(exc))
            return _UNSTARTABLE
        slot.process = process
        try:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch_start, slot, process)
                watching.start_soon(self._forward_stop, slot, process)
                await process.wait()
                watching.cancel_scope.cancel()
        finally:
            slot.process, slot.admin_url = None, ""
            with trio.CancelScope(shield=True):  # shielded, but short, because a killed process ends at once
                await self._clean_up(slot, process)
        return await process.wait()

    async def _clean_up(self, slot: Slot, process: trio.Process) -> None:
        if process.returncode is None:
            self._log.event("warning", "worker_killed", worker=slot.number, pid=process.pid)
            process.kill()
            await process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            await pipe.aclose()

    async def _watch_start(self, slot: Slot, process: trio.Process) -> None:
        """Detect when the worker is ready.

        There is no deadline, because migrations may take a long time. Meanwhile `/readyz` reports that the worker is
        starting.
        """
        slot.state = "is starting"
        assert process.stdout is not None
        listening = await _wait_listening(process.stdout)
        if listening is not None:
            self._note_ready(slot, process, listening)
        async for _ in process.stdout:  # read and drop further output, because a full pipe would block the worker
            pass

    def _note_ready(self, slot: Slot, process: trio.Process, listening: _Listening) -> None:
        slot.admin_url = listening.admin_url
        if slot.is_stale:
            slot.is_stale = False
            _reload(slot)
        self._log.event("info", "worker_ready", worker=slot.number, pid=process.pid)
        if len(self.ready()) == len(self.slots):
            self.all_ready.set()

    async def _forward_stop(self, slot: Slot, process: trio.Process) -> None:
        await self.stopping.wait()
        assert process.stdin is not None
        await process.stdin.aclose()
        if not slot.admin_url:
            process.terminate()  # a signal, because a starting worker does not watch its input yet

    def _give_up(self, slot: Slot, exit_code: int) -> None:
        if not self.refused:
            self.refused = f"worker {slot.number} {_ended(exit_code)} before it was ready; see its messages above"
        self.stopping.set()


async def _wait_listening(stdout: trio.abc.ReceiveStream) -> _Listening | None:
    """Return the line that a ready worker prints, skipping other output. None if the output ends without this line."""
    text = b""
    while len(text) < _LINE_BYTES_MAX and (more := await stdout.receive_some()):
        *lines, text = (text + more).split(b"\n")
        for line in lines:
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=_Listening)
    return None


def _reload(slot: Slot) -> None:
    assert slot.process is not None
    slot.process.send_signal(signal.SIGHUP)


def _ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    return f"was ended by {signal.Signals(-exit_code).name}"
