"""The nodes as readers use them: requests go to any live node, and are repeated until one answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
import orjson
import trio

from tests.processes.process import Process
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.transport.origin import Origin

PATIENCE_S = 90.0
AGAIN_S = 0.02


@dataclass(slots=True)
class Living:
    """A serving node. Set `is_killed` before killing it."""

    process: Process
    public: Origin
    is_killed: bool = False


@dataclass(slots=True)
class Figures:
    """Counts of the exceptional events that readers met."""

    pages: int = 0
    lost_connections: int = 0
    refused_503: Counter[str] = field(default_factory=Counter)
    """Counted by error message."""
    long_polls: int = 0
    polls_hung_up: int = 0
    polls_full: int = 0
    rereads: int = 0
    restarts: int = 0
    acknowledged: int = 0


@dataclass
class Nodes:
    """The nodes that serve now, by their number."""

    exchange: Exchange
    rng: Random
    living: dict[int, Living] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    is_written: bool = False
    """Whether all events were appended, and all nodes are up."""
    _waiting: set[trio.CancelScope] = field(default_factory=set)

    async def read(self, target: str, key: str) -> Any:
        """Return an envelope."""
        return await self._ask("GET", target, key, b"")

    async def post(self, target: str, key: str, body: object) -> Any:
        """Return the envelope after a POST that may be repeated."""
        return await self._ask("POST", target, key, orjson.dumps(body))

    async def wait(self, target: str, key: str, *, wait_s: int) -> Any:
        """Return the envelope of a long-poll, or None if the reader disconnected (sometimes, and at the end)."""
        is_hasty = self.rng.random() < 0.05
        with self._open_wait(self.rng.random() if is_hasty else PATIENCE_S) as scope:
            return await self.read(f"{target}&wait_s={wait_s}", key)
        self.figures.polls_hung_up += scope.cancelled_caught
        return None

    @contextmanager
    def _open_wait(self, patience_s: float) -> Iterator[trio.CancelScope]:
        with trio.move_on_after(patience_s) as scope:
            self._waiting.add(scope)
            try:
                yield scope
            finally:
                self._waiting.discard(scope)

    def end_writing(self) -> None:
        """Let readers finish. Readers that wait in a long-poll disconnect."""
        self.is_written = True
        for scope in self._waiting:
            scope.cancel()

    async def _ask(self, method: str, target: str, key: str, body: bytes) -> Any:
        while True:
            answer = await self._ask_once(method, target, key, body)
            if answer is not None and answer.status == 200:
                return await self._taken(answer)
            if answer is not None:
                assert answer.status == 503, (target, answer)
                self.figures.refused_503[orjson.loads(answer.body)["error"]["message"]] += 1
            await trio.sleep(AGAIN_S)

    async def _ask_once(self, method: str, target: str, key: str, body: bytes) -> HttpAnswer | None:
        """Return an answer, or None if the node was killed before it arrived, or if no node is alive."""
        if not self.living:
            return None
        node = self.rng.choice(list(self.living.values()))
        headers = (("x-api-key", key), ("content-type", "application/json"))
        try:
            return await self.exchange(
                HttpCall(method, node.public, target, headers, body), trio.current_time() + PATIENCE_S
            )
        except httpx.TransportError:
            if not node.is_killed:
                raise
            self.figures.lost_connections += 1
            return None

    async def _taken(self, answer: HttpAnswer) -> Any:
        """Return the envelope.

        If all of the key's polls are in use, it arrives immediately; then wait as long as it says.
        """
        told = answer.headers.get("x-poll-interval")
        if told is not None:
            self.figures.polls_full += 1
            await trio.sleep(float(told))
        return orjson.loads(answer.body)
