"""The nodes as readers meet them: any one that lives is asked, and asked again until there is an answer."""

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
    """A node that serves. Whoever kills it says so first."""

    process: Process
    public: Origin
    is_killed: bool = False


@dataclass(slots=True)
class Figures:
    """What happened to readers."""

    pages: int = 0
    lost_connections: int = 0
    refused_503: Counter[str] = field(default_factory=Counter)
    """How often with which words."""
    long_polls: int = 0
    polls_hung_up: int = 0
    polls_full: int = 0
    rereads: int = 0
    restarts: int = 0
    acknowledged: int = 0


@dataclass
class Nodes:
    """Those that serve now, by their place."""

    exchange: Exchange
    rng: Random
    living: dict[int, Living] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    is_written: bool = False
    """Nothing more will be appended, and all nodes are up."""
    _waiting: set[trio.CancelScope] = field(default_factory=set)

    async def read(self, target: str, key: str) -> Any:
        """An envelope."""
        return await self._ask("GET", target, key, b"")

    async def post(self, target: str, key: str, body: object) -> Any:
        """The envelope after a POST that may be sent again."""
        return await self._ask("POST", target, key, orjson.dumps(body))

    async def wait(self, target: str, key: str, *, wait_s: int) -> Any:
        """The envelope of a long-poll, or None when this side has hung up: now and then, and when all is written."""
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
        """Tell readers that they may come to an end; who waits for more hangs up."""
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
        """An answer, or None when the node was killed before it came, or none lives."""
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
        """A key whose polls are all held is answered at once, and told when to come again."""
        told = answer.headers.get("x-poll-interval")
        if told is not None:
            self.figures.polls_full += 1
            await trio.sleep(float(told))
        return orjson.loads(answer.body)
