"""The storm of slots: accelerated time, killed nodes, an upstream that counts its calls, and the checks at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from bench.core.settings import Setting, toml
from billing.ledger.verification import verify
from gateway.node.stores import MIGRATIONS
from scheduler.clock.cadence import read_cadence, slots_between
from scheduler.clock.catch_up import SPREAD_MAX_S
from storage.opening import open_store
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, json_answer, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import open_fleet
from tests.storm.slots.clock import SharedClock
from tests.storm.slots.judge import Found, MonitorRow, judge
from tests.storm.slots.lives import Lives
from tests.storm.slots.monitors import CADENCE, PAGE_ROWS, PERIOD_S, handle_of, is_missing, make_monitors
from tests.storm.slots.tables import Tables, open_tables

SETTINGS: Final[dict[str, Setting]] = {
    "server.port": 0,
    "admin.port": 0,
    "log.access": False,
    "upstreams.defaults.retries": 0,
    "upstreams.defaults.max_connections": 100,
    "breaker.failures": 100_000,
}
ENVIRON: Final = {"PATH": "/usr/bin:/bin", "SLUICE_SECRET": "a secret of tests, long enough"}
UPSTREAM_S: Final = 0.1
"""The duration of a call. It is long enough that a kill interrupts runs in progress."""
TAGGED: Final = "/questions?"


def _page(first: int, *, has_more: bool) -> ScriptedAnswer:
    rows = [{"question_id": row, "title": "A question", "score": row} for row in range(first, first + PAGE_ROWS)]
    return replace(json_answer({"items": rows, "has_more": has_more}), delay_s=UPSTREAM_S)


PAGES: Final = (_page(0, has_more=True), _page(PAGE_ROWS, has_more=False))
"""Every tag has two pages."""
CHECK_S: Final = 0.02
STEP_S: Final = 1.0
BEHIND_MAX: Final = 200
"""The clock stops while at least this many past slots have not ended."""
UNDER_WAY_S: Final = 2.0
"""How long a kill waits for runs that it can interrupt."""
DOWNTIME: Final = 0.1
DOWNTIME_S: Final = 700.0
"""The share of kills after which all nodes are down for long, and the seconds that the shared clock then advances.
Slots are missed meanwhile."""
SETTLED_S: Final = 60.0


class Broken(AssertionError):
    """The faults found by the judge."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a storm: it continues for this many slots, kills and runs taken over, or for this many seconds."""

    slots: int
    kills: int = 0
    resumed: int = 0
    accounts: int = 20
    monitors: int = 1_000
    kill_every_s: float = 5.0
    seed: int = 1
    seconds: float = inf


@dataclass
class Storm:
    """One store, its nodes and their clock."""

    size: Size
    lives: Lives
    clock: SharedClock
    tables: Tables
    rng: Random
    began_at: float
    """The time on the shared clock at the start of the storm."""

    async def run(self) -> float:
        """Run until every run has ended and every node is gone. Return the seconds until the last slot."""
        await self.lives.start_all()
        began = trio.current_time()
        async with trio.open_nursery() as killing:
            killing.start_soon(self._kill)
            while not self._is_enough(trio.current_time() - began):
                await self._pass_time()
            elapsed_s = trio.current_time() - began
            killing.cancel_scope.cancel()
        with trio.fail_after(SETTLED_S):
            await self._settle()
        self.lives.kill_all()
        return elapsed_s

    async def _pass_time(self) -> None:
        """Advance as fast as the nodes keep up: in small steps while runs are active, otherwise to the next slot."""
        behind = self.tables.behind(now := self.clock.now())
        if behind == 0:
            self.clock.advance(max(STEP_S, (self.tables.coming() or now) - now))
        elif behind < BEHIND_MAX:
            self.clock.advance(STEP_S)
        await trio.sleep(CHECK_S)

    async def _kill(self) -> None:
        while True:
            await trio.sleep(self.size.kill_every_s * self.rng.uniform(0.5, 1.5))
            with trio.move_on_after(UNDER_WAY_S):
                await self._until_runs_are_under_way()
            with trio.CancelScope(shield=True):  # otherwise a node would still be starting
                await self.lives.kill_nodes()
            if self.rng.random() < DOWNTIME:
                self.clock.advance(DOWNTIME_S)

    async def _until_runs_are_under_way(self) -> None:
        while not self.tables.running():  # noqa: ASYNC110 - other processes set no event
            await trio.sleep(CHECK_S)

    async def _settle(self) -> None:
        """Stop the clock, and wait until all past slots have ended."""
        while self.tables.behind(self.clock.now()) or not self.tables.is_settled():  # noqa: ASYNC110 - not an event
            await trio.sleep(CHECK_S)

    def _is_enough(self, passed_s: float) -> bool:
        """Return whether the storm is done.

        It ends only at a time when all monitors may have started, long before the next slot.
        """
        if not SPREAD_MAX_S < self.clock.now() % PERIOD_S < PERIOD_S / 2:
            return False
        slots = (self.clock.now() - self.began_at) / PERIOD_S * self.size.monitors
        if passed_s > self.size.seconds:
            return True
        is_blown = slots > self.size.slots and self.lives.kills >= self.size.kills
        return is_blown and self.tables.resumed() >= self.size.resumed


async def storm(
    folder: Path, size: Size, commands: Commands, *, store_url: str, state_url: str = "memory:"
) -> dict[str, Any]:
    """Run a storm on an empty store with files in `folder`: three nodes if they share state, otherwise one.

    Return its figures. Raises Broken.
    """
    clock, upstream = SharedClock(folder / "clock"), Upstream()
    upstream.script = _answer
    upstream.behaviour.latency_s = UPSTREAM_S
    await make_monitors(store_url, clock, accounts=size.accounts, monitors=size.monitors)
    count, rng = 1 if state_url == "memory:" else 3, Random(size.seed)
    config = folder / "config.toml"
    with open_fleet(commands) as fleet, open_tables(store_url) as tables:

        def expire_leases(keeping: Sequence[str]) -> None:
            """Expire leases, unless there is a single node, which takes over its own runs when it starts."""
            if count > 1:
                tables.expire_leases(keeping)

        async with open_upstream(upstream) as url:
            where = {"store.url": store_url, "state.url": state_url, "upstreams.egress": url}
            config.write_text(toml({**SETTINGS, **where}))
            environ = {**ENVIRON, "TMPDIR": str(folder), "STORM_CLOCK": str(folder / "clock")}
            lives = Lives(fleet, config, environ, rng, count, expire_leases)
            elapsed_s = await Storm(size, lives, clock, tables, rng, clock.now()).run()
        found = tables.found()
    await _check(found, upstream, clock.now(), store_url=store_url)
    return _figures(size, lives, found, upstream, elapsed_s=elapsed_s)


async def _check(found: Found, upstream: Upstream, now: float, *, store_url: str) -> None:
    asked = Counter(_wanted(text) for text in upstream.requests)
    calls = {monitor.id: asked[handle_of(monitor)] for monitor in found.monitors}

    def slots_of(monitor: MonitorRow) -> Sequence[float]:
        at = monitor.created_at
        return slots_between(read_cadence(CADENCE, at), at, now, created_at=at, limit=10**9)

    verdicts = list(judge(found, slots_of=slots_of, calls=calls))
    async with open_store(store_url, MIGRATIONS) as store:
        verdicts += [str(violation) for violation in await store.read(verify)]
    if verdicts:
        raise Broken(f"{len(verdicts)} verdicts\n" + "\n".join(verdicts[:50]))


def _wanted(asked: str) -> str:
    """Return the subject that a run requests once: a profile, or the last page of a tag.

    Return "" for other requests.
    """
    if TAGGED not in asked:
        return asked.rpartition("/")[2]
    query = parse_qs(asked.partition("?")[2])
    return query["tagged"][0] if query["page"] == ["2"] else ""


def _answer(asked: str) -> ScriptedAnswer | None:
    if TAGGED in asked:
        return PAGES["page=2" in asked]
    handle = asked.rpartition("/")[2]
    return replace(json_answer({"message": "Not Found"}, 404), delay_s=UPSTREAM_S) if is_missing(handle) else None


def _figures(size: Size, lives: Lives, found: Found, upstream: Upstream, *, elapsed_s: float) -> dict[str, Any]:
    ran = sum(run.attempt > 0 for run in found.runs)
    reasons = Counter((run.skip_reason or "").partition(",")[0] for run in found.runs if run.status == "skipped")
    return {
        **asdict(size),
        "slots": len(found.runs),
        "nodes": lives.count,
        "kills": lives.kills,
        "kills_in_start": lives.kills_in_start,
        "statuses": dict(Counter(run.status for run in found.runs)),
        "skipped": dict(reasons),
        "attempts": dict(sorted(Counter(run.attempt for run in found.runs).items())),
        "resumed": sum(run.attempt > 1 for run in found.runs),
        "upstream_calls": len(upstream.requests),
        "cut_between_pages": sum(1 if "page=1" in text else -1 for text in upstream.requests if TAGGED in text),
        "credits": sum(run.credits_used for run in found.runs),
        "took_s": round(elapsed_s, 1),
        "runs_per_s": round(ran / elapsed_s),
    }
