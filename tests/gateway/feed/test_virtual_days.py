"""Months of a feed in virtual time: readers that come and go, consumers that lapse, retention and long-polls.

Goal: each reader gets exactly the events that the log holds for it after its position, and a notice about the events
that it missed. Method: each page is compared with a plain list of all events written, with plans from seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import pytest
import trio
from trio.testing import MockClock

from billing.keys.cache import Key
from events.consumers.consumers import Consumers
from events.consumers.rules import DAY_S, HOUR_S, LAPSE_S, SEEN_S
from events.log.log import EventLog, Fact
from events.log.reader import open_page_reader
from events.migrations import MIGRATIONS
from events.positions import Position
from events.waking.notifier import Hub
from gateway.feed.pages import PageView
from gateway.feed.polling import Polls
from gateway.feed.queries import FeedQuery, read_query
from gateway.feed.reading import Readers, reading_of
from gateway.feed.tokens import FeedTokens
from gateway.http.errors import Refused
from gateway.http.request import Request
from limits.gate import Leases, MemoryGate
from limits.timers import TICK_S
from limits.window import Window
from tests.fakes.feeding import alert, low, revoked
from tests.fakes.inline_store import open_inline
from tests.gate.matrix import sample
from upstreams.model.cursors import CursorSigner

EPOCH = 1_750_000_000.0
ACCOUNT = "acc_1"
KEYS = ("key_one", "key_two")
DAYS = 70
RETENTION_DAYS = 30
SOON_S = 0.5
SLEEPS_S = (1.0, 60.0, HOUR_S, 6 * HOUR_S, DAY_S, 3 * DAY_S, 20 * DAY_S, 29.9 * DAY_S, 45 * DAY_S)
QUERIES = ("", "types=monitor.*", "types=key.*,credits.low", "subject_id=mon_1,key_3", "limit=3", "types=discover.*")
MAKERS = (
    lambda number: low(ACCOUNT),
    lambda number: revoked(ACCOUNT, number % 5),
    lambda number: alert(ACCOUNT, KEYS[number % 2], f"run_{number}", f"mon_{number % 3}"),
)


class Written(NamedTuple):
    """An event in the model."""

    pos: int
    at: float
    fact: Fact


@dataclass(slots=True)
class World:
    """A node's feed on one in-memory database, and the list of all events ever written to it."""

    store: Any
    hub: Hub
    log: EventLog
    readers: Readers
    polls: Polls
    tokens: FeedTokens
    written: list[Written] = field(default_factory=list)
    first_pos: int = 1
    pages: int = 0
    expiries: int = 0
    lapses: int = 0
    woken: int = 0

    async def write(self, facts: Sequence[Fact]) -> None:
        pos = len(self.written)
        self.written += [Written(pos + number, now(), fact) for number, fact in enumerate(facts, 1)]
        await self.store.write(lambda tx: self.log.append(tx, facts))

    async def retain(self) -> None:
        """Remove whole days from the model and from the tables."""
        before = now() // DAY_S * DAY_S - RETENTION_DAYS * DAY_S
        kept = [one for one in self.written if one.at >= before]
        first = kept[0].pos if kept else len(self.written) + 1
        if first > self.first_pos:
            self.first_pos = first
            await self.store.write(partial(_drop, first))

    def matching(self, query_read: FeedQuery, key_id: str, after: int) -> list[int]:
        """Return the positions after `after` that the query selects."""
        filters = query_read.filters
        found = []
        for pos, _, fact in self.written[after:]:
            visible = fact.key_id in (None, key_id)
            chosen = filters is None or (
                (filters.types is None or fact.type in filters.types)
                and (filters.subjects is None or not filters.subjects.isdisjoint({fact.subject.id, fact.parent_id}))
            )
            if visible and chosen:
                found.append(pos)
        return found

    async def read(self, key: Key, query: str) -> tuple[FeedQuery, PageView] | Refused:
        """Read once, as the route does, and return a rejection instead of raising it."""
        try:
            return await self._read(key, query)
        except Refused as refused:
            return refused

    async def _read(self, key: Key, query: str) -> tuple[FeedQuery, PageView]:
        query_read = read_query(parse_qsl(query))
        reading = await reading_of(self.readers, query_read, key, self.tokens)
        self.pages += 1
        if not query_read.wait_s:
            return query_read, await reading.read()
        request = Request("req_1", "GET", "/v1/events", b"", {}, 0.0, receive=_never)
        if self.pages % 2:  # alternate between a server that reports disconnects and one that must be read from
            request.send = _take
        polled = await self.polls.poll(
            request,
            reading,
            is_news=lambda view: bool(view.page.items or view.page.has_more or view.restarted_from),
        )
        assert request.held_s <= query_read.wait_s + TICK_S
        self.woken += bool(polled.view.page.items and request.held_s)
        return query_read, polled.view


async def _take(_message: Any) -> None:
    await trio.lowlevel.checkpoint()


async def _never() -> Any:
    await trio.sleep_forever()


def _drop(first: int, tx: Any) -> None:
    tx.run("DELETE FROM events WHERE pos < ?", (first,))
    tx.run(
        "UPDATE feeds SET first_pos = ?, first_at = COALESCE((SELECT created_at FROM events WHERE pos = ?), last_at)",
        (first, first),
    )


def now() -> float:
    return EPOCH + trio.current_time()


@asynccontextmanager
async def open_world(rng: Random) -> AsyncIterator[World]:
    store: Any = open_inline([MIGRATIONS])
    numbers = itertools.count()
    clock = trio.lowlevel.current_clock().current_time
    gate = MemoryGate(Window(600), Leases(50), clock)
    hub = Hub()
    log = EventLog(
        now=now, make_id=lambda prefix: f"{prefix}{next(numbers)}", base_url="https://a.example", publish=hub.publish
    )
    async with open_page_reader(store, is_alone=True) as pages, trio.open_nursery() as nursery:
        nursery.start_soon(hub.deadlines.run)
        readers = Readers(store, pages, Consumers(store, now))
        polls = Polls(hub, gate, 5, clock, rng)
        yield World(store, hub, log, readers, polls, FeedTokens(CursorSigner(b"a key of tests"), ACCOUNT))
        assert len(hub) == 0
        assert all(len(leases) == 0 for leases in gate._named.values())
        nursery.cancel_scope.cancel()
    store.close()


async def produce(world: World, rng: Random) -> None:
    numbers = itertools.count()
    while True:
        await trio.sleep(rng.choice((0.0, 1.0, 20.0, HOUR_S, 5 * HOUR_S, DAY_S)) * rng.random())
        await world.write([rng.choice(MAKERS)(next(numbers)) for _ in range(rng.randint(1, 4))])


async def retain(world: World) -> None:
    while True:
        await trio.sleep(HOUR_S)
        await world.retain()


async def pause(rng: Random) -> None:
    """Sleep briefly, so that polls follow one another, and sometimes longer than the retention."""
    if rng.random() < 0.9:
        await trio.sleep(rng.random())
        return
    await trio.sleep(SLEEPS_S[min(int(rng.expovariate(0.35)), len(SLEEPS_S) - 1)] * rng.uniform(0.5, 1))


async def follow(world: World, key: Key, query: str, rng: Random) -> None:
    """Read by cursor. No event is returned twice, and missed events are reported."""
    cursor, pos = "oldest", 0
    while True:
        await pause(rng)
        wait = rng.choice(("", "&wait_s=25"))
        was_oldest, began, first_pos = cursor == "oldest", now(), world.first_pos
        result = await world.read(key, f"cursor={cursor}&{query}{wait}")
        if isinstance(result, Refused):
            cursor, pos = expired(world, result, pos)
            continue
        query_read, view = result
        if was_oldest:
            pos = max(pos, first_pos - 1)
        judge(world, query_read, key, view, after=pos, began=began)
        pos = view.page.end.pos
        cursor = world.tokens.seal(view.page.end)


def expired(world: World, refused: Refused, pos: int) -> tuple[str, int]:
    """Continue at the oldest kept event, and check that events were really missed."""
    assert refused.code.name == "CURSOR_EXPIRED"
    assert pos < world.first_pos - 1, "the cursor expired although no unread event was removed"
    details = refused.details
    assert details is not None
    world.expiries += 1
    assert world.tokens.open(details["oldest_cursor"]).pos == world.first_pos - 1
    return details["oldest_cursor"], world.first_pos - 1


def judge(world: World, query_read: FeedQuery, key: Key, view: PageView, *, after: int, began: float) -> None:
    """Check that the page matches the model, and that a poll was woken as soon as there was an event."""
    found, page = world.matching(query_read, key.id, after), view.page
    assert [item.pos for item in page.items] == [pos for pos in found if pos <= page.end.pos][: query_read.limit]
    if query_read.consumer is not None:
        return  # the page was fixed at an earlier read, so it may end anywhere
    if page.has_more:
        assert len(page.items) == query_read.limit
    else:
        assert page.end.pos >= len([one for one in world.written if one.at < now()])
    if page.items and page.items[0].at > began:
        assert now() - page.items[0].at <= SOON_S, "an event did not wake the poll"


async def consume(world: World, key: Key, name: str, query: str, rng: Random) -> None:
    """Read as a named consumer that sometimes acknowledges, in whole or in part, and sometimes stays away too long."""
    committed, seen_at, frozen = Position(0, 0.0), 0.0, list[int]()
    is_new, is_reported = True, False
    while True:
        await pause(rng)
        wait = rng.choice(("", "&wait_s=25"))
        began, idle_s = now(), now() - seen_at
        result = await world.read(key, f"consumer={name}&{query}{wait}")
        if isinstance(result, Refused):
            assert result.code.name == "CURSOR_EXPIRED"
            assert not is_new
            assert not is_reported, "the lapse is reported twice"
            assert idle_s > LAPSE_S or committed.pos < world.first_pos - 1
            is_reported = True
            world.lapses += 1
            continue
        query_read, view = result
        if is_new:
            committed, is_new = view.after, False
        elif is_reported:
            assert view.restarted_from is not None
            assert view.restarted_from.pos == committed.pos
            assert view.dropped == view.after.pos - committed.pos or view.dropped == 0
            committed, is_reported, frozen = view.after, False, []
        else:
            assert view.restarted_from is None
            assert view.after.pos == committed.pos
            assert idle_s <= LAPSE_S + 2 * SEEN_S
        seen_at = now()
        judge(world, query_read, key, view, after=committed.pos, began=began)
        given = [item.pos for item in view.page.items]
        assert not frozen or given == frozen, "an unacknowledged page changed"
        frozen = given
        assert view.unread is not None
        assert abs(view.unread - len(world.matching(query_read, key.id, committed.pos))) <= len(
            [one for one in world.written if one.at >= now()]
        )
        if rng.random() < 0.7:
            place = view.page.end
            if view.page.items and rng.random() < 0.3:
                item = rng.choice(view.page.items)
                place = Position(item.pos, item.at)
            acked = await world.readers.consumers.ack(key.id, name, place)
            assert acked.advanced == (place.pos > committed.pos)
            committed, frozen = acked.committed, []


@pytest.mark.parametrize("seed", sample(range(6)))
def test_readers_miss_no_event_in_months_of_appends_and_retention(seed: int) -> None:
    """The plans are seeded. Trio's order of tasks differs from run to run, and must not matter."""
    trio.run(partial(live, seed), clock=MockClock(autojump_threshold=0))


async def live(seed: int) -> None:
    rng = Random(seed)
    with trio.fail_after(2 * DAYS * DAY_S):
        async with open_world(rng) as world:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce, world, Random(rng.random()))
                nursery.start_soon(retain, world)
                for number, query in enumerate(QUERIES):
                    key = Key(KEYS[number % 2], ACCOUNT, "", None)
                    nursery.start_soon(follow, world, key, query, Random(rng.random()))
                    nursery.start_soon(consume, world, key, f"c{number}", query, Random(rng.random()))
                await trio.sleep(DAYS * DAY_S)
                nursery.cancel_scope.cancel()
            assert world.pages > 100
            assert world.lapses + world.expiries, "no reader stayed away too long"
            assert world.woken
