"""The clients of a simulated world: their requests, rate, patience and retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlencode

import trio

from tests.simulation.platform import COSTS
from tests.simulation.requests import Holder, Sent

KINDS = {"read": 36, "fresh": 8, "claimed": 26, "page": 8, "odd": 14, "account": 4}
ENDPOINTS = {"thing": 6, "things": 2, "overview": 2, "mirrored": 3, "elsewhere": 1, "gathered": 4}
LISTS = ("things", "gathered")
STREAMS = 0.3
HANGS_UP = 0.15
BURSTS = 0.15
AGAIN = 0.6
IMPATIENT = 0.2
"""How often the latest request with an idempotency key is repeated, usually before it has ended."""


@dataclass
class Client:
    """One account's program. `send` delivers a request, and waits until it ends or the client gives up."""

    name: str
    rng: Random
    holders: list[Holder]
    send: Callable[[Sent, float], Awaitable[None]]
    pause_s: float
    _count: int = 0
    _claimed: list[Sent] = field(default_factory=list)
    _cursors: list[tuple[str, str]] = field(default_factory=lambda: [("/v1/sim/things", "cur_none")])

    async def run(self, is_open: Callable[[], bool]) -> None:
        """Send requests while the node accepts them. Requests of a burst run concurrently."""
        async with trio.open_nursery() as nursery:
            while is_open():
                await trio.sleep(self.rng.expovariate(1 / self.pause_s))
                for _ in range(self.rng.randint(2, 6) if self.rng.random() < BURSTS else 1):
                    nursery.start_soon(self._one, self._draw())
                if self._claimed and self.rng.random() < IMPATIENT:
                    await trio.sleep(self.rng.uniform(0.0, 0.3))
                    nursery.start_soon(self._one, self._again(self._claimed[-1]))

    async def _one(self, sent: Sent) -> None:
        if sent.claim is not None:
            self._claimed.append(sent)
        patience_s = self.rng.expovariate(0.8) if self.rng.random() < HANGS_UP else float("inf")
        await self.send(sent, patience_s)
        if sent.is_told and sent.status == 200 and sent.method == "GET":
            page = sent.body.get("pagination")
            if page and page["next_cursor"]:
                self._cursors.append((sent.path, page["next_cursor"]))

    def _draw(self) -> Sent:
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "claimed":
            return self._claimed_one()
        if kind == "page":
            path, cursor = self.rng.choice(self._cursors[-4:])
            return self._sent(path, {"cursor": cursor})
        if kind == "odd":
            return self._odd()
        if kind == "account":
            return self._sent(f"/v1/{self.rng.choice(('credits/balance', 'credits/transactions', 'status'))}", {})
        return self._read(**({"cache-control": "no-cache"} if kind == "fresh" else {}))

    def _read(self, query: dict[str, str] | None = None, **headers: str) -> Sent:
        """Return a read that many clients make at the same time."""
        name = self.rng.choices(list(ENDPOINTS), list(ENDPOINTS.values()))[0]
        asked = {} if name in LISTS else {"id": str(self.rng.randint(1, 4))}
        if name == "gathered":
            asked = {"limit": str(self.rng.choice((1, 3, 4, 8)))}
            if self.rng.random() < STREAMS and "idempotency-key" not in headers:
                headers["accept"] = "text/event-stream"
        return self._sent(f"/v1/sim/{name}", {**asked, **(query or {})}, **headers)

    def _claimed_one(self) -> Sent:
        """Return a read with an idempotency key: a new one, a used one, or a used one with another payload."""
        if not self._claimed or self.rng.random() > AGAIN:
            fresh = {"cache-control": "no-cache"} if self.rng.random() < 0.5 else {}
            return self._read(**{"idempotency-key": f"{self.name}-{self._count}", **fresh})
        earlier = self.rng.choice(self._claimed[-4:])
        if self.rng.random() < 0.15:
            return self._read(**{"idempotency-key": earlier.headers["idempotency-key"]})
        return self._again(earlier)

    def _again(self, earlier: Sent) -> Sent:
        again = self._sent(earlier.path, {}, **earlier.headers)
        again.query = earlier.query
        return again

    def _odd(self) -> Sent:
        """Return a query that is refused, or has a different price."""
        path = f"/v1/sim/{self.rng.choice(list(COSTS))}"
        choices = (
            lambda: self._sent(path, {"id": "1", "idd": "2"}),
            lambda: self._sent("/v1/sim/thing", {}),
            lambda: self._sent("/v1/sim/nothing", {}),
            lambda: self._sent("/v1/sim/things", {"cursor": self.rng.choice(self._cursors)[1][:-1] + "x"}),
            lambda: self._read({"max_credits": "3"}),
            lambda: self._read({"dry_run": "1"}),
            lambda: self._read(**{"idempotency-key": "two words"}),
            lambda: self._keyless("sl_" + "x" * 43),
            lambda: self._keyless(""),
        )
        return self.rng.choice(choices)()

    def _keyless(self, key: str) -> Sent:
        sent = self._read(**({"x-api-key": key} if key else {}))
        sent.holder = None
        return sent

    def _sent(self, path: str, query: dict[str, str], **headers: str) -> Sent:
        self._count += 1
        return Sent(f"{self.name}{self._count}", self.rng.choice(self.holders), path, urlencode(query), headers)
