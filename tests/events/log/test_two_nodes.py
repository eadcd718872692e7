"""Two nodes on one PostgreSQL database, with different clocks, write one dense order that readers see in order."""

import random
from collections.abc import AsyncIterator

import pytest
import trio

from events.consumers.rows import CONSUMERS_MAX
from events.consumers.rules import LAPSE_S, SEEN_S
from events.consumers.steps import Served
from events.errors import Lapsed, TooManyConsumers
from events.positions import Position
from tests.events.desk import ACCOUNT, KEY, Desk, alert, all_rows, low, open_desk, places
from tests.servers.postgres import PostgresServer

ACCOUNTS = [f"acc_{number}" for number in range(4)]


@pytest.fixture
async def desks(postgres: PostgresServer) -> AsyncIterator[list[Desk]]:
    url = postgres.fresh()
    async with open_desk(url, "a") as one, open_desk(url, "b") as other:
        one.time, other.time = one.time - 5, other.time + 5
        yield [one, other]


class Walk:
    """Run producers on all accounts, and readers that follow each log until all written events were seen."""

    def __init__(self) -> None:
        self.written = dict.fromkeys(ACCOUNTS, 0)
        self.done = False
        self.polls = 0
        self._rng = random.Random(5)

    async def produce(self, desk: Desk) -> None:
        for _ in range(10):
            facts = [alert(account_id=self._rng.choice(ACCOUNTS)) for _ in range(self._rng.randrange(1, 6))]
            await desk.append(*facts)
            for fact in facts:
                self.written[fact.account_id] += 1

    async def follow(self, desk: Desk, account_id: str) -> None:
        after, at = 0, 0.0
        while not self.done or after < self.written[account_id]:
            page = await desk.page(after, account_id=account_id, limit=7)
            assert places(page) == list(range(after + 1, after + 1 + len(page.items)))
            assert all(item.at >= at for item in page.items)
            assert page.has_more or page.end == page.head.end
            after, at = page.end
            self.polls += 1


async def test_reader_never_sees_a_later_position_before_an_earlier_one(desks: list[Desk]) -> None:
    """Method: both nodes append to the same and to different accounts, several facts and accounts per transaction."""
    walk = Walk()
    async with trio.open_nursery() as readers:
        for desk in desks:
            for account_id in ACCOUNTS:
                readers.start_soon(walk.follow, desk, account_id)
        async with trio.open_nursery() as producers:
            for desk in desks * 8:
                producers.start_soon(walk.produce, desk)
        walk.done = True
    assert walk.polls > 20
    rows = await desks[0].store.read(all_rows)
    for account_id, number in walk.written.items():
        assert [row[1] for row in rows if row[0] == account_id] == list(range(1, number + 1))


async def test_transactions_for_several_accounts_never_deadlock(desks: list[Desk]) -> None:
    """Method: accounts without a log yet, so that their first events collide; each transaction has its own order."""
    rng = random.Random(6)
    names = [f"acc_new_{number}" for number in range(12)]

    async def append(desk: Desk) -> None:
        await desk.append(*[low(name) for name in rng.sample(names, 6)])

    with trio.fail_after(40):
        async with trio.open_nursery() as nursery:
            for number in range(120):
                nursery.start_soon(append, desks[number % 2])
    rows = await desks[1].store.read(all_rows)
    assert len(rows) == 120 * 6
    for name in names:
        kept = [row[1] for row in rows if row[0] == name]
        assert kept == list(range(1, len(kept) + 1))


async def test_lapse_is_reported_by_one_of_two_nodes_and_restarts_once(desks: list[Desk]) -> None:
    await desks[0].append(*[alert()] * 3)
    await desks[0].consumers.read(ACCOUNT, KEY, "c", limit=9)
    lapses: list[Lapsed] = []
    pages: list[Served] = []

    async def ask(desk: Desk) -> None:
        try:
            pages.append(await desk.consumers.read(ACCOUNT, KEY, "c", limit=9))
        except Lapsed as exc:
            lapses.append(exc)

    for desk in desks:
        desk.time += LAPSE_S + SEEN_S + 20
    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(ask, desks[number % 2])
    assert (len(lapses), len(pages)) == (1, 11)
    assert [page.restarted_from is None for page in pages].count(False) == 1


async def test_two_nodes_create_a_consumer_once_and_respect_the_limit(desks: list[Desk]) -> None:
    refused = 0

    async def ask(desk: Desk, name: str) -> None:
        nonlocal refused
        try:
            await desk.consumers.read(ACCOUNT, KEY, name, limit=9)
        except TooManyConsumers:
            refused += 1

    async with trio.open_nursery() as nursery:
        for number in range(CONSUMERS_MAX + 5):
            for desk in desks:
                nursery.start_soon(ask, desk, f"c{number}")
    assert len(await desks[0].consumers.list(KEY)) == CONSUMERS_MAX
    assert refused == 10


async def test_reads_and_acknowledgements_on_two_nodes_lose_and_repeat_nothing(desks: list[Desk]) -> None:
    """Method: a client alternates between the nodes while both append."""
    seen: list[int] = []

    async def produce(desk: Desk) -> None:
        for _ in range(30):
            await desk.append(alert(), low())

    async with trio.open_nursery() as nursery:
        for desk in desks:
            nursery.start_soon(produce, desk)
        turn = 0
        while len(seen) < 120:
            turn += 1
            served = await desks[turn % 2].consumers.read(ACCOUNT, KEY, "c", limit=5)
            again = await desks[(turn + 1) % 2].consumers.read(ACCOUNT, KEY, "c", limit=5)
            if served.page.items:
                assert again.page.items == served.page.items
                seen += places(served.page)
            acked = await desks[(turn + 1) % 2].consumers.ack(KEY, "c", served.page.end)
            assert acked.committed.pos == served.page.end.pos
    assert seen == list(range(1, 121))
    assert (await desks[0].consumers.ack(KEY, "c", Position(1, 0.0))).unread == 0
