"""Workers that hang: one that answers nothing any more is killed, so that it is replaced."""

from __future__ import annotations

import trio

from gateway.admin.asking import AdminQuestion, AdminSilent, AdminUnreached, ask
from gateway.node.workers.slots import Slot, WorkerSlots
from gateway.observability.logs import Log

SILENT_S = 10.0
ASKS = 3
"""The questions in a row that go unanswered in that time: one that came at a bad moment kills nobody."""


async def kill_hung(slots: WorkerSlots, log: Log, *, silent_s: float = SILENT_S) -> None:
    """Ask every ready worker again and again until the stop; what a killed one had open, recovery refunds."""
    async with trio.open_nursery() as nursery:
        for slot in slots.slots:
            nursery.start_soon(_watch, slot, log, silent_s)
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
    """Whether it says anything, whatever that is."""
    try:
        with trio.move_on_at(until):
            await ask(admin_url, AdminQuestion("GET", "/healthz"))
            return True
    except (AdminUnreached, AdminSilent):
        pass
    return False
