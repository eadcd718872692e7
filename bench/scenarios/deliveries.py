"""Measures the cost and the delay of deliveries: `python -m bench.scenarios.deliveries`.

It reads a `Mail` from stdin and prints the `DeliveryFigures`. The receivers run in this process, so that no transfer
delays their observations.
"""

import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec
import trio

from bench.control.control_protocol import (
    HOOK,
    LEFT,
    PLANT,
    POST,
    POSTED,
    TRUST,
    UNHOOK,
    ControlAddress,
    ControlClient,
    Hook,
    Plant,
    Posted,
    Posting,
    PostWebhooks,
    QueuedAt,
    Trust,
    Unhook,
    Waiting,
    open_control,
)
from bench.core.process import raise_open_files, usage
from bench.load.histogram import Histogram
from bench.peers.receivers import Receivers, Urls, open_receivers
from bench.scenarios.due import EACH
from gateway.admin.operations import Nothing

ACCOUNTS = 16
ENDED_S = 60.0
POLL_EVERY_S = 0.02
HOLE_S = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mail:
    """The numbers of deliveries for the server with this `pid`, which accepts the bench's commands at `control`."""

    control: ControlAddress
    pid: int
    count: int = 5_000
    """The number of deliveries in one queue, for each kind of receiver."""
    runs: int = 2_500
    """The number of runs of monitors whose deliveries are measured."""
    runs_per_s: float = 167.0
    """The number of these runs per second, which equals 10,000 per minute."""
    held: int = 10_000
    """The number of deliveries waiting for a host that never responds."""
    per_s: float = 200.0
    """The number of deliveries a second to other hosts, in turns with and without that host."""
    seconds: float = 3.0
    """The duration of each turn in seconds, with and without the host that never responds."""
    turns: int = 8
    """The number of pairs of turns, with and without that host. They alternate, because the speed of a machine drifts.
    """
    warm_up: int = 512
    """The number of deliveries that open connections before any delivery is counted."""
    lead_s: float = 3.0
    patience_s: float = 120.0


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    """The rate at which a full queue is delivered, and the CPU time of the node's process for each delivery."""

    per_s: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class DeliveryTurn:
    """Deliveries queued one after another: a histogram of the times to their first byte, and the CPU time of each."""

    lags: dict[int, int]
    cpu_us: float


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """The figures of all receivers.

    A lag is the time from the start of the transaction that queues a delivery to the first byte of the delivery.
    """

    plain: DeliveryPace
    kept: DeliveryPace
    closed: DeliveryPace
    settled: dict[int, int]
    runs: int
    alone: tuple[DeliveryTurn, ...]
    beside: tuple[DeliveryTurn, ...]
    held: int


class UnexpectedDeliveries(Exception):
    """Deliveries did not arrive as expected, so the figures are not valid."""


@dataclass(slots=True)
class DeliveryRun:
    """One run against one node. Only `measure` calls it."""

    mail: Mail
    control: ControlClient
    receivers: Receivers
    urls: Urls

    async def call(self, name: str, arguments: msgspec.Struct, kind: type[T]) -> T:
        """Send a command while the receivers continue to run, and return its response."""
        return await trio.to_thread.run_sync(partial(self.control.call, name, arguments, kind))

    async def pace(self, urls: tuple[str, ...]) -> DeliveryPace:
        """Queue deliveries in one transaction, and measure until all have arrived and ended."""
        await self.call(HOOK, Hook(urls, ACCOUNTS), dict[str, Any])
        await self._deliver(urls, self.mail.warm_up)
        return await self._deliver(urls, self.mail.count)

    async def _deliver(self, urls: tuple[str, ...], count: int) -> DeliveryPace:
        wanted = len(self.receivers.arrived) + count
        posting = await self.call(POST, PostWebhooks(urls, count), Posting)
        await self._arrived(wanted)
        last_at = max(self.receivers.arrived.values())
        await self._ended()
        return DeliveryPace(count / (last_at - posting.at), (usage(self.mail.pid).cpu_s - posting.cpu_s) * 1e6 / count)

    async def settle(self) -> Histogram:
        """Run monitors at the rate of a full minute, and measure the lag of their deliveries."""
        mail, wanted, began_at = self.mail, len(self.receivers.arrived) + self.mail.runs, time.time()
        slot = math.ceil(began_at + mail.lead_s)
        planted = Plant(mail.runs, math.ceil(mail.runs / EACH), slot, 1 / mail.runs_per_s, self.urls.plain)
        await self.call(PLANT, planted, dict[str, Any])
        if time.time() > slot:
            raise UnexpectedDeliveries("the first slot came before all monitors were made")
        await self._arrived(wanted, beyond_s=mail.runs / mail.runs_per_s)
        return await self._lags(began_at)

    async def trickle(self) -> DeliveryTurn:
        """Queue one delivery after another, and measure their lags and the CPU of each."""
        mail, arrived = self.mail, len(self.receivers.arrived)
        count = round(mail.per_s * mail.seconds)
        began_at, began = time.time(), trio.current_time()
        cpu_s = usage(mail.pid).cpu_s
        for nth in range(count):
            await trio.sleep_until(began + nth / mail.per_s)
            await self.call(POST, PostWebhooks((self.urls.plain[nth % len(self.urls.plain)],), 1), Posting)
        await self._arrived(arrived + count)
        cpu_us = (usage(mail.pid).cpu_s - cpu_s) * 1e6 / count
        return DeliveryTurn(dict((await self._lags(began_at)).counts), cpu_us)

    async def turn(self) -> tuple[DeliveryTurn, DeliveryTurn]:
        """Measure one pair of turns: without, and then with a host that never responds."""
        alone = await self.trickle()
        await self.call(HOOK, Hook((self.urls.hole,), ACCOUNTS), dict[str, Any])
        await self.call(POST, PostWebhooks((self.urls.hole,), self.mail.held), Posting)
        await trio.sleep(HOLE_S)
        beside = await self.trickle()
        await self.call(UNHOOK, Unhook(self.urls.hole), dict[str, Any])
        return alone, beside

    async def _arrived(self, wanted: int, *, beyond_s: float = 0.0) -> None:
        with trio.move_on_after(self.mail.patience_s + beyond_s):
            await self.receivers.wait_for(wanted)
            return
        raise UnexpectedDeliveries(f"{wanted - len(self.receivers.arrived)} deliveries have not arrived")

    async def _ended(self) -> None:
        """Wait until the node has recorded the end of every queued delivery."""
        with trio.move_on_after(ENDED_S):
            while (await self.call(LEFT, Nothing(), Waiting)).count:  # noqa: ASYNC110 - another process sends no event
                await trio.sleep(POLL_EVERY_S)
            return
        raise UnexpectedDeliveries("the ends of deliveries were not recorded")

    async def _lags(self, since: float) -> Histogram:
        """Return the lags of the deliveries that were queued since a given time and have arrived."""
        queued = await self.call(POSTED, Posted(since), QueuedAt)
        lags, arrived = Histogram(), self.receivers.arrived
        for id_, at in queued.at.items():
            if id_ in arrived:
                lags.record(round((arrived[id_] - at) * 1e9))
        return lags


async def measure(mail: Mail) -> DeliveryFigures:
    """Deliver full queues, then deliveries of runs, then single deliveries while a host never responds."""
    with TemporaryDirectory(prefix="sluice-bench-") as folder, open_control(mail.control) as control:
        authority = Path(folder) / "authority.pem"
        async with open_receivers(authority) as (receivers, urls):
            run = DeliveryRun(mail, control, receivers, urls)
            await run.call(TRUST, Trust(str(authority)), dict[str, Any])
            plain, kept, closed = [await run.pace(each) for each in (urls.plain, urls.kept, urls.closed)]
            settled = await run.settle()
            turns = [await run.turn() for _ in range(mail.turns)]
    alone, beside = zip(*turns, strict=True)
    return DeliveryFigures(plain, kept, closed, dict(settled.counts), mail.runs, alone, beside, mail.held)


if __name__ == "__main__":
    raise_open_files()
    found = trio.run(measure, msgspec.json.decode(sys.stdin.buffer.read(), type=Mail))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
