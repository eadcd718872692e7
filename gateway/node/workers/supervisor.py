"""The supervisor: binds the addresses, keeps the workers running, and reloads or stops them on signals.

The supervisor serves no requests itself. The kernel distributes connections among the workers, which share the public
port.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from random import Random

import trio

from gateway.admin.app import BOUNDS, Admin, doorkeeper_of
from gateway.admin.client import AdminQuestion, AdminSilent, AdminUnreached, ask
from gateway.config import Config
from gateway.dashboard.operator_pages import OperatorPages
from gateway.http.edge_answers import plain_edge_answer
from gateway.node.listeners import bind, in_url, port_of, reserve
from gateway.node.serve import announce
from gateway.node.workers.admin import AllWorkers
from gateway.node.workers.slots import Command, Slot, WorkerSlots
from gateway.node.workers.worker import Worker, environ_of
from gateway.observability.logs import Log
from gateway.server.serve import serve_native
from storage.supervision import Supervision

SILENT_S = 10.0
ASKS = 3
"""A worker counts as hung after this many requests in a row without a response within `SILENT_S`."""


class WorkersRefused(Exception):
    """A worker refused to start. Its own messages have already reported the reason."""


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    """The values that a supervisor needs: the config, the workers' program and environment, and the log.

    The supervisor and all workers use the same `admin_token`.
    """

    config: Config
    admin_token: str
    program: Sequence[str]
    environ: Mapping[str, str]
    log: Log


async def supervise(plan: SupervisorPlan) -> None:
    """Serve with `server.workers` processes until SIGTERM or SIGINT, and reload all of them on SIGHUP.

    A second stop signal kills all workers immediately.

    Raises:
        AddressUnusable, WorkersRefused: the supervisor cannot start.
    """
    server, admin = plan.config.server, plan.config.admin
    private = await bind(admin.host, admin.port, change="admin.port or .host")
    places = await reserve(server.host, server.port, change="server.port or .host")
    port = places[0].getsockname()[1]
    admin_url = f"http://{in_url(admin.host)}:{port_of(private)}"
    line = {"event": "listening", "url": server.listening_url(port), "admin_url": admin_url}
    command = Command(
        plan.program, lambda number: environ_of(Worker(number=number, port=port, admin_url=admin_url), plan.environ)
    )
    supervision = Supervision(plan.log, Random())
    slots = WorkerSlots(server.workers, command, drain_s=server.drain_s, log=plan.log, keep=supervision.keep)
    with ExitStack() as held:
        for place in places:
            held.enter_context(closing(place))
        await _run(slots, private, line, plan, supervision)
    if slots.refused:
        raise WorkersRefused(slots.refused)


async def _run(
    slots: WorkerSlots,
    private: list[trio.SocketListener],
    line: Mapping[str, str],
    plan: SupervisorPlan,
    supervision: Supervision,
) -> None:
    gone, workers = trio.Event(), AllWorkers(slots, plan.admin_token, supervision)
    doorkeeper = doorkeeper_of(plan.config, plan.admin_token)
    pages = OperatorPages(plan.admin_token, workers.operate)
    app = Admin(doorkeeper, readiness=workers.readiness, scrape=workers.scrape, operate=workers.operate, pages=pages)
    serve_admin = partial(
        serve_native,
        app,
        private,
        shutdown=gone,
        drain_s=1.0,
        edge_answer=plain_edge_answer,
        bounds=BOUNDS,
        keep=supervision.keep,
    )
    async with trio.open_nursery() as private_side:
        await private_side.start(serve_admin)
        async with trio.open_nursery() as watching:
            watching.start_soon(supervision.keep, "signals", partial(_handle_signals, slots, plan))
            watching.start_soon(_announce, slots, line, plan.log)
            watching.start_soon(kill_hung, slots, plan.log)
            await slots.run()
            watching.cancel_scope.cancel()
        gone.set()


async def _announce(slots: WorkerSlots, line: Mapping[str, str], log: Log) -> None:
    """Print the `listening` line once, when all workers are ready."""
    await slots.all_ready.wait()
    if not slots.stopping.is_set():
        await announce(line, log)


async def _handle_signals(slots: WorkerSlots, plan: SupervisorPlan) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                slots.reload()
            elif not slots.stopping.is_set():
                plan.log.event("info", "draining", drain_s=plan.config.server.drain_s, workers=len(slots.slots))
                slots.stopping.set()
            else:
                slots.kill()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)


async def kill_hung(slots: WorkerSlots, log: Log, *, silent_s: float = SILENT_S) -> None:
    """Until the stop, poll every ready worker and kill it if it hangs. Recovery then refunds its open charges."""
    async with trio.open_nursery() as nursery:
        for slot in slots.slots:
            nursery.start_soon(slots.keep, "worker_watch", partial(_watch, slot, log, silent_s))
        await slots.stopping.wait()
        nursery.cancel_scope.cancel()


async def _watch(slot: Slot, log: Log, silent_s: float) -> None:
    unanswered = 0
    while True:
        process, next_at = slot.process, trio.current_time() + silent_s / ASKS
        is_well = not slot.admin_url or await _answers(slot.admin_url, next_at)
        await trio.sleep_until(next_at)
        unanswered = 0 if is_well or slot.process is not process else unanswered + 1
        if unanswered == ASKS and process is not None:
            log.event("error", "worker_hung", worker=slot.number, pid=process.pid, silent_s=silent_s)
            process.kill()


async def _answers(admin_url: str, until: float) -> bool:
    """Return whether the worker responds at all."""
    try:
        with trio.move_on_at(until):
            await ask(admin_url, AdminQuestion("GET", "/healthz"))
            return True
    except (AdminUnreached, AdminSilent):
        pass
    return False
