"""The readers: walkers with their own cursor, and named consumers with one or two concurrent readers each."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio

from tests.storm.asking import Nodes
from tests.storm.judge import Filter, Given
from tests.storm.plan import fact_of

FEED = "/v1/events"
WAITS_S = (0, 1, 2, 5, 10)
IDLE_S = 0.05
MISHAP = 0.1
HICCUP_S = 0.2


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader's key and selection."""

    account_id: str
    key_id: str
    key: str
    chosen: Filter
    limit: int


async def read_page(nodes: Nodes, reader: Reader, place: str, rng: Random) -> Any:
    """Return the envelope of a read at `place`, which may be a long-poll; None if it was abandoned."""
    target = f"{FEED}?{place}&limit={reader.limit}{reader.chosen.query}"
    wait_s = 0 if nodes.is_written else rng.choice(WAITS_S)
    envelope = await (nodes.wait(target, reader.key, wait_s=wait_s) if wait_s else nodes.read(target, reader.key))
    if envelope is None:
        return None
    nodes.figures.pages += 1
    is_empty = not envelope["data"]["items"]
    nodes.figures.long_polls += wait_s > 0
    assert len(envelope["data"]["items"]) <= reader.limit
    if is_empty and not (wait_s or nodes.is_written):
        await trio.sleep(IDLE_S)
    return envelope


def numbers_of(items: Sequence[Any]) -> array[int]:
    """Return the facts of a page."""
    return array("Q", (fact_of(item["subject"]["id"]) for item in items))


@dataclass
class Walker:
    """Walks from the oldest event to the end.

    Sometimes the walker drops the rest of a page, and continues after its last remaining item.
    """

    reader: Reader
    rng: Random
    seen: array[int] = field(default_factory=lambda: array("Q"))
    seen_at: list[tuple[int, float]] = field(default_factory=list)
    """How many events each page had, and when it was seen."""

    async def walk(self, nodes: Nodes) -> None:
        """Read until no more events can arrive."""
        place = "oldest"
        while True:
            is_end = nodes.is_written
            envelope = await read_page(nodes, self.reader, f"cursor={place}", self.rng)
            if envelope is None:
                continue
            items, pagination = envelope["data"]["items"], envelope["pagination"]
            place = pagination["next_cursor"]
            if items and self.rng.random() < MISHAP:
                items = items[: self.rng.randint(1, len(items))]
                place = items[-1][self.rng.choice(("cursor", "id"))]
                nodes.figures.restarts += 1
            elif is_end and not (items or pagination["has_more"]):
                return
            self.seen.extend(numbers_of(items))
            self.seen_at.append((len(items), time.time()))

    def delays(self, committed_at: dict[int, float]) -> Iterator[float]:
        """Yield the delay from commit to first sight of each page's first event, if its commit was reported."""
        place = 0
        for count, at in self.seen_at:
            if count and (began := committed_at.get(self.seen[place] >> 8)) is not None:
                yield at - began
            place += count


@dataclass
class Consumer:
    """A named consumer: the pages that it received, and the pages that it acknowledged."""

    name: str
    reader: Reader
    rng: Random
    given: list[Given] = field(default_factory=list)
    acked: list[Given] = field(default_factory=list)

    async def read(self, nodes: Nodes) -> None:
        """Act as one reader: read, sometimes repeatedly, and acknowledge, until no more events can arrive."""
        while True:
            is_end, acked_before = nodes.is_written, len(self.acked)
            envelope = await read_page(nodes, self.reader, f"consumer={self.name}", self.rng)
            if envelope is None:
                continue
            given = Given(numbers_of(envelope["data"]["items"]), acked_before)
            assert envelope["data"]["unread"] >= len(given.items)
            if given.items:
                self.given.append(given)
            elif is_end and not envelope["pagination"]["has_more"]:
                await self._ack(nodes, envelope, given)
                return
            if await self._forgets(nodes):
                continue
            if given.items or self.rng.random() < MISHAP:
                await self._ack(nodes, envelope, given)

    async def _ack(self, nodes: Nodes, envelope: Any, given: Given) -> None:
        """Acknowledge a page, repeating that as needed."""
        place = {"cursor": envelope["pagination"]["next_cursor"]}
        told = await nodes.post(f"{FEED}/consumers/{self.name}/ack", self.reader.key, place)
        nodes.figures.acknowledged += told["data"]["advanced"]
        if given.items:
            self.acked.append(given)

    async def _forgets(self, nodes: Nodes) -> bool:
        """Return whether to read again instead: at random, or because the reader crashed before acknowledging."""
        dice = self.rng.random()
        if dice < MISHAP:
            nodes.figures.rereads += 1
        elif dice < 1.3 * MISHAP:
            nodes.figures.restarts += 1
            await trio.sleep(self.rng.random() * HICCUP_S)
        return dice < 1.3 * MISHAP
