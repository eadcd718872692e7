"""The hostile account: a program that attacks a node with a limited number of calls in flight, and counts the results.

The program prepares the attack (`Attack.prepare`), prints `{"ready": true}`, begins on SIGUSR1, ends on SIGTERM, and
prints its `Tally`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import orjson
import trio

from tests.processes.children import lower_priority

NICENESS = 5
"""A real attacker runs on another machine, so this one takes less of the node's CPU time."""
PATIENCE_S = 90.0
BACK_OFF_S = 0.05
"""The pause after a refusal. Without it, the number of refusals would only measure this program's speed."""
_CREDITS = re.compile(rb'"credits_used":(\d+),"credits_remaining"')
_READ = 65_536


@dataclass(slots=True)
class Tally:
    """The calls of the attack, by outcome."""

    statuses: Counter[str] = field(default_factory=Counter)
    charged_calls: int = 0
    credits_used: int = 0
    refunded_calls: int = 0
    """Calls that failed after the node had done work for them: 404, and 5xx except 503."""
    refused_calls: int = 0
    """Calls that were refused for free before any work: other 4xx, and 503."""
    free_calls: int = 0
    """Calls that were answered for free, such as cache hits and free reads."""
    left_calls: int = 0
    """Calls that this account aborted by disconnecting."""
    cut_calls: int = 0
    """Calls in progress at the end."""
    in_flight_s: dict[str, float] = field(default_factory=dict)
    """How many seconds calls were in flight, by kind.

    The node's work is divided between the kinds in this proportion.
    """

    def add(self, status: int, credits_used: int, took_s: float) -> None:
        """Count an answered call."""
        self.statuses[str(status)] += 1
        kind = _kind_of(status, credits_used)
        self.count(kind, took_s)
        self.credits_used += credits_used

    def count(self, kind: str, took_s: float) -> None:
        """Count a call of this kind."""
        name = f"{kind}_calls"
        setattr(self, name, getattr(self, name) + 1)
        self.in_flight_s[kind] = self.in_flight_s.get(kind, 0.0) + took_s


def _kind_of(status: int, credits_used: int) -> str:
    if credits_used:
        return "charged"
    if status < 400:
        return "free"
    return "refunded" if status == 404 or (status >= 500 and status != 503) else "refused"


@dataclass(slots=True)
class Hostile:
    """The client of an attack, its tally, and numbers for new addresses."""

    client: httpx.AsyncClient
    tally: Tally = field(default_factory=Tally)
    state: Any = None
    """The result of `prepare` for the attack, such as a job's id."""
    numbers: count[int] = field(default_factory=count)

    async def call(
        self, target: str, method: str = "GET", body: Any = None, *, leaves_s: float = PATIENCE_S
    ) -> httpx.Response | None:
        """Make one call and count it. Return None if it has no answer after `leaves_s`.

        Only the beginning and the end of a long body are kept.
        """
        began = trio.current_time()
        with trio.move_on_after(leaves_s):
            try:
                answer = await self._answer(target, method, body)
            except BaseException:
                took_s = trio.current_time() - began
                self.tally.count("left" if took_s >= leaves_s else "cut", took_s)
                raise
            found = _CREDITS.findall(answer.content)
            self.tally.add(answer.status_code, int(found[-1]) if found else 0, trio.current_time() - began)
            if answer.status_code >= 400:
                await trio.sleep(BACK_OFF_S)
            return answer
        return None

    async def _answer(self, target: str, method: str, body: Any) -> httpx.Response:
        """Receive a complete answer. The middle of a long body is discarded."""
        async with self.client.stream(method, f"/v1/{target}", json=body) as answer:
            head, tail = b"", b""
            async for piece in answer.aiter_raw():
                if len(head) < _READ:
                    head += piece
                else:
                    tail = (tail + piece)[-_READ:]
        answer._content = head + tail
        return answer

    async def read(self, target: str, method: str = "GET", body: Any = None) -> Any:
        """Return the `data` of an uncounted call's answer; None if it is refused."""
        answer = await self.client.request(method, f"/v1/{target}", json=body)
        return answer.json()["data"] if answer.status_code < 300 else None


async def attack(name: str, url: str, key: str) -> Tally:
    """Prepare, wait for the start signal, and attack until the stop signal."""
    from tests.hostile.neighbours.scenarios import SCENARIOS  # noqa: PLC0415 - they import this module

    plan = SCENARIOS[name].attack
    limits = httpx.Limits(max_connections=plan.lanes + 1)
    client = httpx.AsyncClient(
        base_url=url, headers={"x-api-key": key, "accept-encoding": "identity"}, timeout=PATIENCE_S, limits=limits
    )
    with trio.open_signal_receiver(signal.SIGUSR1, signal.SIGTERM) as signals:
        async with client:
            hostile = Hostile(client)
            if plan.prepare is not None:
                hostile.state = await plan.prepare(hostile)
            print('{"ready": true}', flush=True)
            async for number in signals:
                if number == signal.SIGUSR1:
                    break
            async with trio.open_nursery() as nursery:
                for lane in range(plan.lanes):
                    nursery.start_soon(_lane, hostile, plan.step, lane)
                async for number in signals:
                    if number == signal.SIGTERM:
                        break
                nursery.cancel_scope.cancel()
            return hostile.tally


async def _lane(hostile: Hostile, step: Any, lane: int) -> None:
    """Repeat a step of the attack, with one call in flight at a time."""
    while True:
        try:
            await step(hostile, lane)
        except httpx.HTTPError as exc:
            hostile.tally.statuses[type(exc).__name__] += 1
            await trio.sleep(BACK_OFF_S)


def main() -> None:
    """Run the program. Its arguments are the scenario's name, the node's address and a key."""
    lower_priority(os.getpid(), NICENESS)
    name, url, key = sys.argv[1:4]
    tally = trio.run(attack, name, url, key)
    print(orjson.dumps(tally).decode(), flush=True)


if __name__ == "__main__":
    main()
