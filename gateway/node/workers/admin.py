"""A supervisor's admin address. It combines the responses of all workers, and merges their metrics into one text."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
import trio

from gateway.admin.app import answered, refused, unsettled
from gateway.admin.client import AdminAnswer, AdminQuestion, AdminSilent, AdminUnproved, AdminUnreached, ask, ask_proved
from gateway.node.workers.slots import Slot, WorkerSlots
from storage.supervision import Supervision

READY_WITHIN_S = 3.0
METRICS_WITHIN_S = 5.0
OPERATION_WITHIN_S = 25.0
_OF_EVERY_WORKER = frozenset({"reload", "platform.isolate", "platform.reset"})
"""Operations that change only the state of one process, so every worker runs them.

All others read or change shared state, so only one worker runs them.
"""
_WATCHED = frozenset({"ledger.verify"})
"""Operations without a time limit, because an operator watches their progress."""
_NAME = re.compile(r"[a-z_.]+")
_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)$")

Ask = Callable[[str], Awaitable[AdminAnswer]]
"""Calls the worker at an admin address; see `ask` and `ask_proved`."""


class AllWorkers:
    """Runs operations for an `Admin` when several workers serve. The workers check the arguments."""

    def __init__(self, slots: WorkerSlots, token: str, supervision: Supervision | None = None) -> None:
        """`token` is the workers' admin token, which is never sent. `supervision` watches the supervisor's loops."""
        self._slots = slots
        self._supervision = supervision
        self._token = token

    async def readiness(self) -> str | None:
        """Return None if all workers are ready, otherwise a line for each worker that is not. See `Readiness`."""
        if self._slots.stopping.is_set():
            await trio.lowlevel.checkpoint()
            return "draining"
        answers = await self._ask_ready(partial(ask, question=AdminQuestion("GET", "/readyz")), within_s=READY_WITHIN_S)
        reasons = [
            f"worker {slot.number}: {reason}"
            for slot in self._slots.slots
            if (reason := _unready(slot, answers.get(slot.number)))
        ]
        if self._supervision is not None and (loops := self._supervision.fault) is not None:
            reasons.append(f"supervisor: loop down: {loops}")
        return "\n".join(reasons) or None

    async def scrape(self) -> bytes:
        """Return the samples of all workers, each labeled with its worker's number. See `Scrape`."""
        answers = await self._ask_ready(
            partial(ask, question=AdminQuestion("GET", "/metrics")), within_s=METRICS_WITHIN_S
        )
        texts = {
            number: answer.body.decode(errors="replace")
            for number, answer in sorted(answers.items())
            if answer is not None and answer.status == 200
        }
        return (merge(texts) + own_metrics(self._slots.slots, texts)).encode()

    async def operate(self, name: str, body: bytes) -> AdminAnswer:
        """Run an operation in every worker, or in one if it changes shared state. See `Operate`."""
        if not _NAME.fullmatch(name):
            return refused(400, f"unknown operation {name}")
        ask_it = partial(ask_proved, token=self._token, question=AdminQuestion("POST", f"/admin/{name}", body))
        if name not in _OF_EVERY_WORKER:
            return await self._ask_one(ask_it, within_s=math.inf if name in _WATCHED else OPERATION_WITHIN_S)
        answers = await self._ask_ready(ask_it, within_s=OPERATION_WITHIN_S)
        merged = _merged(answers)
        if name == "reload" and merged.status == 200:
            self._slots.reload(done=answers)
        return merged

    async def _ask_one(self, ask_it: Ask, *, within_s: float) -> AdminAnswer:
        """Call the first worker that can be reached.

        If it does not respond, try no other, because it may have run the operation.
        """
        for slot in self._slots.ready():
            try:
                with trio.fail_after(within_s):
                    return await ask_it(slot.admin_url)
            except (AdminUnreached, AdminUnproved):
                continue
            except (AdminSilent, trio.TooSlowError):
                return _silent(slot.number)
        return refused(503, "no worker is ready")

    async def _ask_ready(self, ask_it: Ask, *, within_s: float) -> dict[int, AdminAnswer | None]:
        """Return the response of every ready worker by its number; None for a worker that does not respond."""
        answers: dict[int, AdminAnswer | None] = {}

        async def ask_slot(slot: Slot) -> None:
            answers[slot.number] = None
            with suppress(AdminUnreached, AdminUnproved, AdminSilent), trio.move_on_after(within_s):
                answers[slot.number] = await ask_it(slot.admin_url)

        async with trio.open_nursery() as nursery:
            for slot in self._slots.ready():
                nursery.start_soon(ask_slot, slot)
        return answers


def _unready(slot: Slot, answer: AdminAnswer | None) -> str:
    """Return the reason why a worker is not ready; empty if it is."""
    if answer is None:
        return "does not respond" if slot.admin_url else slot.state
    return "" if answer.status == 200 else answer.body.decode(errors="replace").strip()


def _merged(answers: dict[int, AdminAnswer | None]) -> AdminAnswer:
    """Merge the responses of all workers: the first refusal if there is one, otherwise the union of their lists."""
    if not answers:
        return refused(503, "no worker is ready")
    for number, answer in sorted(answers.items()):
        if answer is None:
            return _silent(number)
        if answer.status != 200:
            return answer
    results: list[dict[str, Any]] = [orjson.loads(answer.body) for answer in answers.values() if answer is not None]
    together = {
        name: sorted({entry for result in results for entry in result[name]}) if isinstance(value, list) else value
        for name, value in results[0].items()
    }
    return answered(together)


def _silent(number: int) -> AdminAnswer:
    return unsettled(503, f"worker {number} does not respond; the operation may have run")


def merge(texts: Mapping[int, str]) -> str:
    """Merge the metrics of the workers. Each metric family appears once, with the samples of all workers."""
    families: dict[tuple[str, ...], list[str]] = {}
    for number, text in texts.items():
        for heading, samples in _families(text):
            families.setdefault(heading, []).extend(filter(None, (_labeled(sample, number) for sample in samples)))
    return "".join(f"{line}\n" for heading, samples in families.items() for line in (*heading, *samples))


def own_metrics(slots: Sequence[Slot], answered: Mapping[int, str]) -> str:
    """Return the supervisor's own metrics about its workers."""
    return "".join(
        (
            "# HELP sluice_worker_up Whether the worker answered this scrape.\n# TYPE sluice_worker_up gauge\n",
            *(f'sluice_worker_up{{worker="{slot.number}"}} {int(slot.number in answered)}.0\n' for slot in slots),
            "# HELP sluice_worker_deaths_total Workers that ended unexpectedly and were replaced.\n",
            "# TYPE sluice_worker_deaths_total counter\n",
            *(f'sluice_worker_deaths_total{{worker="{slot.number}"}} {slot.deaths}.0\n' for slot in slots),
        )
    )


def _families(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield each metric family: its HELP and TYPE lines, and its samples."""
    for family in re.split(r"^(?=# HELP )", text, flags=re.MULTILINE):
        lines = family.splitlines()
        heading = tuple(line for line in lines if line.startswith("#"))
        if heading:
            yield heading, lines[len(heading) :]


def _labeled(sample: str, number: int) -> str:
    """Return a sample labeled with its worker's number; empty if the line is not a sample."""
    found = _SAMPLE.match(sample)
    if found is None:
        return ""
    labels = f",{found['labels']}" if found["labels"] else ""
    return f'{found["name"]}{{worker="{number}"{labels}}} {found["value"]}'
