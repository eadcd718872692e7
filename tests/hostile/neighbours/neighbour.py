"""The other account: calls of several kinds at a steady rate, and how long each took.

The load is open: a call begins at its time whether or not earlier ones have ended, as with many users. A node that
stalls for a while therefore delays all calls of that time. At most `IN_FLIGHT_MAX` calls of a kind are in progress;
further ones are not made and count as skipped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx
import trio

from tests.hostile.neighbours.measuring import percentile

IN_FLIGHT_MAX = 20
PATIENCE_S = 90.0
WARM_UP_TRIES = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of call. `target` may contain `{n}`, which makes each address new."""

    name: str
    target: str
    every_s: float
    floor_s: float
    """The p95 without an attack counts as at least this much, because smaller values are noise."""
    most_s: float
    """The p95 must not exceed this, whatever it is without an attack."""
    small_s: float
    """In the gate, where runs are short and the machine is busy, a median up to this value always passes."""


def scrape(page: str, number: str, **params: str) -> str:
    """Return a target that reads a page at a new address."""
    address = quote(f"https://{number}.example.com/{page}/{number}", safe="")
    return f"web/scrape?url={address}" + "".join(f"&{name}={quote(value)}" for name, value in params.items())


_CALM = "https%3A%2F%2Fcalm.example.com%2Fsmall%2F"
WEB = Kind("web read", f"web/scrape?url={_CALM}{{n}}", 0.5, 0.1, 2.0, 3.0)
RENDERING = Kind("rendering", f"web/scrape?url={_CALM}{{n}}&wait_for=50", 2.0, 0.5, 8.0, 18.0)
DATA = Kind("data read", "github/profile/repos?handle=calm{n}", 0.5, 0.1, 2.0, 3.0)
CACHE_HIT = Kind("cache hit", f"web/scrape?url={_CALM}same", 0.5, 0.015, 0.05, 1.0)
BALANCE = Kind("balance", "credits/balance", 0.5, 0.015, 0.05, 1.0)
JOBS = Kind("jobs", "web/jobs", 1.0, 0.015, 0.05, 1.0)
CATALOG = Kind("catalog", "utility/endpoints", 1.0, 0.015, 0.05, 1.0)
FREE = (CACHE_HIT, BALANCE, JOBS, CATALOG)


@dataclass(slots=True)
class Record:
    """The results of the calls of one kind in one phase."""

    waits_s: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, status: str, wait_s: float) -> None:
        """Count one call."""
        self.statuses[status] += 1
        self.waits_s.append(wait_s)

    @property
    def p50_s(self) -> float:
        return percentile(self.waits_s, 0.5)

    @property
    def p95_s(self) -> float:
        return percentile(self.waits_s, 0.95)

    @property
    def max_s(self) -> float:
        return max(self.waits_s, default=0.0)


@dataclass(slots=True)
class Neighbour:
    """An account that uses the node for its own work."""

    client: httpx.AsyncClient
    kinds: tuple[Kind, ...]
    _number: int = 0

    async def warm_up(self) -> None:
        """Make each call four times without counting it: all workers start, and the repeated page is stored."""

        async def one(kind: Kind) -> None:
            for _ in range(WARM_UP_TRIES):
                if (status := await self._call(kind)) != "503":
                    break
                await trio.sleep(1)  # the workers of a slow machine are still starting
            assert status == "200", (kind.name, status)

        for kind in self.kinds:
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(one, kind)

    async def work(self, seconds: float, grace_s: float) -> dict[str, Record]:
        """Make calls for this time, and wait up to `grace_s` for the last of them. Return the records by kind.

        A call that has not ended by then counts as `unanswered`, with the time that it has waited.
        """
        records = {kind.name: Record() for kind in self.kinds}
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + seconds + grace_s
            async with trio.open_nursery() as nursery:
                for at, kind in enumerate(self.kinds):
                    first_s = kind.every_s * at / len(self.kinds)  # staggered, so that they do not all start together
                    nursery.start_soon(self._pace, kind, records[kind.name], first_s, seconds)
        return records

    async def _pace(self, kind: Kind, record: Record, first_s: float, seconds: float) -> None:
        """Start calls of a kind at their times. Return when the last one has ended."""
        began, in_flight = trio.current_time() + first_s, 0

        async def one() -> None:
            nonlocal in_flight
            in_flight += 1
            start, status = trio.current_time(), "unanswered"
            try:
                status = await self._call(kind)
            finally:
                in_flight -= 1
                record.add(status, trio.current_time() - start)

        async with trio.open_nursery() as nursery:
            for at in range(max(2, int(seconds / kind.every_s))):
                await trio.sleep_until(began + at * kind.every_s)
                if in_flight < IN_FLIGHT_MAX:
                    nursery.start_soon(one)
                else:
                    record.statuses["skipped"] += 1

    async def _call(self, kind: Kind) -> str:
        """Make a call. Return the status of its answer, or the reason why there is none."""
        self._number += 1
        try:
            answer = await self.client.get(f"/v1/{kind.target.format(n=self._number)}")
        except httpx.HTTPError as exc:
            return type(exc).__name__
        return str(answer.status_code)
