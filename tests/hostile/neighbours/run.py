"""Runs a scenario: the neighbor alone, then together with the hostile account, and the results of both."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import orjson
import trio

from tests.fakes.chromium import open_chromium
from tests.hostile.neighbours.measuring import Watch
from tests.hostile.neighbours.neighbour import PATIENCE_S, Neighbour, Record
from tests.hostile.neighbours.scenarios import Scenario
from tests.processes.place import Place, Served
from tests.processes.process import Process

CREDITS = 1_000_000
SETTLES_S = 5.0
ENVIRON = {"SLUICE_SECRET": "a secret of tests, long enough"}


@dataclass(frozen=True, slots=True)
class Length:
    """The length of each phase."""

    alone_s: float
    beside_s: float
    grace_s: float
    """The extra time for the last calls of a phase. The attack continues during it."""


@dataclass(frozen=True, slots=True)
class Money:
    """The hostile account's ledger."""

    taken: int
    """Charged credits, including credits that were refunded later."""
    refunds: int
    """The number of refund entries."""
    refunded: int
    """The refunded credits."""

    @property
    def kept(self) -> int:
        """The credits that the account has paid."""
        return self.taken - self.refunded


@dataclass(frozen=True, slots=True)
class Phase:
    """The results of one phase."""

    records: dict[str, Record]
    seconds: float
    cpu_s: float
    peaks_mb: dict[str, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of a scenario."""

    alone: Phase
    beside: Phase
    tally: dict[str, Any]
    money: Money

    @property
    def unpaid_s(self) -> float:
        """CPU seconds that the hostile account used for calls that were refunded.

        The attack's CPU time is what the node, its workers and the browser used beyond their use with the neighbor
        alone. The refunded calls have the same share of it as of the time in flight. Calls that the account
        disconnected from count as refunded in the proportion of refunds in its ledger.
        """
        extra_s = max(0.0, self.beside.cpu_s - self.alone.cpu_s / self.alone.seconds * self.beside.seconds)
        in_flight_s: dict[str, float] = self.tally["in_flight_s"]
        answered_s = sum(in_flight_s.values())
        left_s = in_flight_s.get("left", 0.0) * (self.money.refunded / self.money.taken if self.money.taken else 0.0)
        return extra_s * (in_flight_s.get("refunded", 0.0) + left_s) / answered_s if answered_s else 0.0


async def run_scenario(scenario: Scenario, place: Place, length: Length) -> Figures:
    """Start all processes, run both phases, and return the figures. The processes end when it returns."""
    place = replace(place, environ={**ENVIRON, **place.environ})
    with ExitStack() as stack:
        pages = stack.enter_context(_program(place, "page_server", "pages"))
        web: dict[str, object] = {}
        pids = {}
        if scenario.has_browser:
            chromium = stack.enter_context(open_chromium())
            web, pids = {"browser_url": chromium.url}, {"browser": chromium.pid}
        place.configure(
            upstreams={"egress": orjson.loads(pages.first_line)["url"], "defaults": {"retries": 0}},
            web=web,
            log={"access": False},
        )
        key = place.new_key(balance=CREDITS)[1]["key"]
        account, hostile_key = place.new_key(balance=CREDITS)
        ledger_key = place.json_of("key", "create", "--account", account)["key"]  # the other account may be throttled
        node = stack.enter_context(place.serve())
        watch = Watch({"node": node.pid, **pids})
        hostile = stack.enter_context(_program(place, "hostile", scenario.name, node.url, hostile_key["key"]))
        async with _client(node, key) as client, _client(node, ledger_key) as other, trio.open_nursery() as nursery:
            neighbour = Neighbour(client, scenario.kinds)
            await neighbour.warm_up()
            nursery.start_soon(watch.run)
            alone = await _phase(neighbour, watch, length.alone_s, length.grace_s)
            hostile.signal(signal.SIGUSR1)
            beside = await _phase(neighbour, watch, length.beside_s, length.grace_s)
            hostile.signal(signal.SIGTERM)
            tally = orjson.loads(await trio.to_thread.run_sync(hostile.read_first_line))
            money = await _money(other)
            nursery.cancel_scope.cancel()
        return Figures(alone, beside, tally, money)


@contextmanager
def _program(place: Place, module: str, *arguments: str) -> Iterator[Process]:
    """Run a program of this package. The block is entered when the program has printed its first line."""
    words = (sys.executable, "-m", f"tests.hostile.neighbours.{module}")
    with replace(place, program=words).start(*arguments) as process:
        yield process


@asynccontextmanager
async def _client(node: Served, key: str) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(
        base_url=node.url, headers={"x-api-key": key}, timeout=PATIENCE_S, limits=limits, verify=False
    ) as client:
        yield client


async def _phase(neighbour: Neighbour, watch: Watch, seconds: float, grace_s: float) -> Phase:
    watch.begin()
    began = trio.current_time()
    records = await neighbour.work(seconds, grace_s)
    watch.sample()
    return Phase(records, trio.current_time() - began, watch.cpu_s, dict(watch.peaks_mb))


async def _money(client: httpx.AsyncClient) -> Money:
    """Return the account's ledger as soon as no credits are reserved, or after `SETTLES_S`."""
    with trio.move_on_after(SETTLES_S):
        while (await client.get("/v1/credits/balance")).json()["data"]["held"]:  # noqa: ASYNC110 - the node's
            await trio.sleep(0.2)
    taken, refunds, refunded, cursor = 0, 0, 0, ""
    while True:
        page = (await client.get(f"/v1/credits/transactions?limit=100{cursor}")).json()
        for entry in page["data"]["items"]:
            if entry["type"] == "deduction":
                taken -= entry["amount"]
            elif entry["type"] == "refund":
                refunds, refunded = refunds + 1, refunded + entry["amount"]
        if not page["pagination"]["has_more"]:
            return Money(taken, refunds, refunded)
        cursor = f"&cursor={page['pagination']['next_cursor']}"
