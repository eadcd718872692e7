"""The database server dies under load and returns: confirmed results remain, and nothing else is charged."""

import random

import trio

from billing.charges.batch_rows import Charge, Closed
from storage.errors import StoreUnavailable
from tests.billing.desk import Desk, open_desk
from tests.fakes.entries import nets, read_entries
from tests.servers.postgres import PostgresServer
from tests.servers.waiting import until

ROUNDS = 2
TASKS = 12


class Load:
    """Tasks that take and close charges, and record the responses."""

    def __init__(self, desk: Desk, account_id: str) -> None:
        self._desk = desk
        self._account_id = account_id
        self.closed: dict[str, Closed] = {}
        self.failed = 0

    async def work(self, rng: random.Random) -> None:
        while True:
            await trio.sleep(rng.random() * 0.02)
            try:
                charge = await self._desk.charges.take(self._desk.request(self._account_id, credits=rng.randint(1, 5)))
            except StoreUnavailable:
                self.failed += 1
                continue
            await self._close(charge, rng)

    async def close_more(self, count: int) -> None:
        """Wait until this many more charges have been closed."""
        goal = len(self.closed) + count
        await until(lambda: len(self.closed) >= goal)

    async def _close(self, charge: Charge, rng: random.Random) -> None:
        try:
            self.closed[charge.request_id] = await self._desk.charges.close(charge, used=rng.randint(0, charge.credits))
        except StoreUnavailable:
            self.failed += 1  # `finish` closes this charge


async def finish(desk: Desk) -> None:
    while desk.charges.unfinished():
        try:
            await desk.charges.finish()
        except StoreUnavailable:
            await trio.sleep(0.02)


async def test_killed_server_neither_loses_nor_repeats_charges(
    postgres: PostgresServer,
) -> None:
    async with open_desk(postgres.fresh()) as desk:
        account = await desk.accounts.create("Ada", credits=1_000_000)
        load = Load(desk, account.id)
        async with trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(load.work, random.Random(number))
            for _ in range(ROUNDS):
                await load.close_more(50)
                await trio.to_thread.run_sync(postgres.kill)
                await trio.sleep(0.2)
                await trio.to_thread.run_sync(postgres.start)
            await load.close_more(50)
            nursery.cancel_scope.cancel()
        await finish(desk)
        assert load.failed > 0
        costs = nets(await desk.store.read(lambda tx: read_entries(tx.all)))
        told = {request_id: closed.credits_used for request_id, closed in load.closed.items()}
        assert {request_id: costs[request_id] for request_id in told} == told
        found = await desk.accounts.get(account.id)
        assert (found.balance, found.held) == (1_000_000 - sum(costs.values()), 0)
        await desk.assert_sound()
