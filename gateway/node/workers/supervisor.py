"""The supervisor: takes the addresses, keeps the workers running, and obeys the signals that reload and stop them.

It serves nothing of the node's own: requests go from the kernel to the workers, which share the public port.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import trio

from gateway.admin.app import BOUNDS, Admin, doorkeeper_of
from gateway.config import Config
from gateway.http.edge_answers import plain_edge_answer
from gateway.node.listeners import bind, in_url, port_of, reserve
from gateway.node.serve import announce
from gateway.node.workers.admin import AllWorkers
from gateway.node.workers.health import kill_hung
from gateway.node.workers.slots import Command, WorkerSlots
from gateway.node.workers.worker import Worker, environ_of
from gateway.observability.logs import Log
from gateway.server.serve import serve_native


class WorkersRefused(Exception):
    """A worker refused to start before all were ready; it has said why itself."""


@dataclass(frozen=True, slots=True)
class SupervisorPlan:
    """The plan of a supervisor: the config, the program that each worker is and its environment, and the log.

    `admin_token` is the supervisor's as it is the workers'.
    """

    config: Config
    admin_token: str
    program: Sequence[str]
    environ: Mapping[str, str]
    log: Log


async def supervise(plan: SupervisorPlan) -> None:
    """Serve with `server.workers` processes until SIGTERM or SIGINT, reloading all on SIGHUP.

    A second signal to stop ends all at once.

    Raises:
        AddressUnusable, WorkersRefused: it cannot start.
    """
    server, admin = plan.config.server, plan.config.admin
    private = await bind(admin.host, admin.port, key_path="admin")
    places = await reserve(server.host, server.port, key_path="server")
    port = places[0].getsockname()[1]
    admin_url = f"http://{in_url(admin.host)}:{port_of(private)}"
    line = {"event": "listening", "url": f"http://{in_url(server.host)}:{port}", "admin_url": admin_url}
    command = Command(
        plan.program, lambda number: environ_of(Worker(number=number, port=port, admin_url=admin_url), plan.environ)
    )
    slots = WorkerSlots(server.workers, command, drain_s=server.drain_s, log=plan.log)
    with ExitStack() as held:
        for place in places:
            held.enter_context(closing(place))
        await _run(slots, private, line, plan)
    if slots.refused:
        raise WorkersRefused(slots.refused)


async def _run(
    slots: WorkerSlots, private: list[trio.SocketListener], line: Mapping[str, str], plan: SupervisorPlan
) -> None:
    gone, workers = trio.Event(), AllWorkers(slots, plan.admin_token)
    doorkeeper = doorkeeper_of(plan.config, plan.admin_token)
    app = Admin(doorkeeper, readiness=workers.readiness, scrape=workers.scrape, operate=workers.operate)
    serve_admin = partial(
        serve_native, app, private, shutdown=gone, drain_s=1.0, edge_answer=plain_edge_answer, bounds=BOUNDS
    )
    async with trio.open_nursery() as private_side:
        await private_side.start(serve_admin)
        async with trio.open_nursery() as watching:
            watching.start_soon(_obey, slots, plan)
            watching.start_soon(_announce, slots, line, plan.log)
            watching.start_soon(kill_hung, slots, plan.log)
            await slots.run()
            watching.cancel_scope.cancel()
        gone.set()


async def _announce(slots: WorkerSlots, line: Mapping[str, str], log: Log) -> None:
    """Say once that all are ready."""
    await slots.all_ready.wait()
    if not slots.stopping.is_set():
        await announce(line, log)


async def _obey(slots: WorkerSlots, plan: SupervisorPlan) -> None:
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
