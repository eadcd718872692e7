"""Billing events are written to the account's feed in the same commit as the change that they report."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio

from billing.charges.batch_rows import Charge, ChargeRequest, CloseRequest
from billing.charges.charges import Charges
from billing.charges.recovery import recover
from billing.errors import BillingError
from events.filters import AppendedEvent, Filters
from events.instants import iso
from events.log.log import EventLog
from events.log.pages import PageQuery, read_page
from gateway.config.ids import id_maker
from gateway.config.secrets import load_secret
from gateway.config.settings import Config, ServerSettings, StoreSettings
from gateway.feed.billing_events import FeedOfBilling
from gateway.node.stores import MIGRATIONS, Stores, open_stores
from tests.billing.charges.test_batch_rows_machine import wait
from tests.billing.desk import Desk
from tests.fakes.inline_store import open_inline
from tests.fakes.outsider import admit, refuse
from tests.processes.commands import Commands
from tests.processes.place import Place
from tests.servers.postgres import PostgresServer

NOW = 1_750_000_000.0
NUMBERS = count(1)


@asynccontextmanager
async def open_node(
    url: str, publish: Callable[[Sequence[AppendedEvent]], None] = lambda _events: None
) -> AsyncIterator[Stores]:
    """The stores of one node, or of one command."""
    secrets = load_secret({"SLUICE_SECRET": "a secret of tests, long enough"}, Path())
    config = Config(server=ServerSettings(base_url="https://node.test"), store=StoreSettings(url))
    with trio.fail_after(60):
        make_id = id_maker(lambda: NOW, Random())
        async with open_stores(config, secrets, now=lambda: NOW, make_id=make_id, publish=publish) as node_stores:
            yield node_stores


@pytest.fixture
async def node_stores(store_url: str) -> AsyncIterator[Stores]:
    async with open_node(store_url) as opened:
        yield opened


async def events(node_stores: Stores, account_id: str, key_id: str = "key_of_nobody") -> list[dict[str, Any]]:
    """Return all events of the account that the key sees."""
    query = PageQuery(account_id, key_id, after=0, limit=500, filters=Filters())
    page = await node_stores.store.read(partial(read_page, query=query))
    return [orjson.loads(item.body) for item in page.items]


async def types(node_stores: Stores, account_id: str) -> list[str]:
    return [event["type"] for event in await events(node_stores, account_id)]


def request(account_id: str, credits: int = 1) -> ChargeRequest:  # noqa: A002
    return ChargeRequest(f"req_{next(NUMBERS)}", account_id, None, credits, "github", "repository")


async def spend(node_stores: Stores, account_id: str, credits: int) -> None:  # noqa: A002
    charge = await node_stores.billing.charges.take(request(account_id, credits))
    await node_stores.billing.charges.close(charge, used=credits)


async def test_key_revocation_is_reported_once_to_the_accounts_other_keys(node_stores: Stores) -> None:
    account, stranger = [(await node_stores.billing.accounts.create(name)).id for name in ("Ada", "Bob")]
    key, other = [await node_stores.billing.keys.create(account, name=name) for name in ("laptop", "server")]
    await node_stores.billing.keys.update(key.id, credit_limit=5, reset_usage=True)
    assert await events(node_stores, account, other.id) == []
    for _ in range(3):
        await node_stores.billing.keys.revoke(key.id)
    (event,) = await events(node_stores, account, other.id)
    assert event["type"] == "key.revoked"
    assert event["subject"] == {"kind": "key", "id": key.id, "name": "laptop"}
    assert event["data"] == {"key_id": key.id, "last4": key.last4}
    assert event["id"].startswith("evt_")
    assert await events(node_stores, stranger) == []


async def test_low_and_exhausted_credits_are_reported_with_links(store_url: str) -> None:
    notified: list[AppendedEvent] = []
    async with open_node(store_url, notified.extend) as node_stores:
        account = (await node_stores.billing.accounts.create("Ada")).id
        open_ = await node_stores.billing.charges.take(request(account, 3))
        await spend(node_stores, account, 80)
        await node_stores.billing.charges.close(open_, used=3)
        assert [event.type for event in notified] == ["credits.low"], "listeners are notified after the commit"
        await spend(node_stores, account, 17)
        assert notified[1:] == [AppendedEvent(account, 2, "credits.exhausted", None, account, None)]
        low, exhausted = await events(node_stores, account)
        assert (low["type"], exhausted["type"]) == ("credits.low", "credits.exhausted")
        assert low["data"] == {
            "balance": 17,
            "held": 3,
            "pack_credits": 100,
            "threshold_credits": 20,
            "credits_per_day": 24 * 80,
            "exhausted_at": iso(NOW + 20 / 80 * 3600),
        }
        assert exhausted["data"] == {"balance": 0, "pack_credits": 100}
        for event in (low, exhausted):
            assert event["subject"] == {"kind": "account", "id": account}
            assert event["links"]["balance"] == "https://node.test/v1/credits/balance"


async def test_batch_of_many_accounts_writes_the_events_of_each(node_stores: Stores) -> None:
    ids = [(await node_stores.billing.accounts.create("A", credits=5)).id for _ in range(30)]
    async with trio.open_nursery() as nursery:
        for id_ in reversed(ids):
            nursery.start_soon(spend, node_stores, id_, 5)
    assert [await types(node_stores, id_) for id_ in ids] == [["credits.low", "credits.exhausted"]] * 30


async def test_recovery_refund_writes_no_event_but_later_settlement_does(
    node_stores: Stores,
) -> None:
    account = (await node_stores.billing.accounts.create("Ada", credits=10)).id
    for _ in range(5):
        await node_stores.billing.charges.take(request(account, 2))
    assert (await recover(node_stores.store, now=lambda: NOW)).credits == 10
    assert await events(node_stores, account) == []
    charge = await node_stores.billing.charges.take(request(account, 8))
    node_stores.billing.charges.settle_nowait(charge)
    assert (await node_stores.billing.charges.close(charge, used=0)).credits_used == 8
    assert await types(node_stores, account) == ["credits.low"]


async def test_concurrent_settlements_and_revocations_report_each_step_once(postgres: PostgresServer) -> None:
    """Method: two accounts on two nodes, each spent to 0 credits and credited again, twice."""
    url = postgres.fresh()
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(open_node(url)) for _ in range(2)]
        ids = [(await nodes[0].billing.accounts.create("A", credits=40)).id for _ in range(2)]

        async def work(node: Stores, account_id: str, rng: Random) -> None:
            while True:
                try:
                    charge = await node.billing.charges.take(request(account_id))
                except BillingError:
                    return
                await node.billing.charges.close(charge, used=int(rng.random() < 0.8))

        for round_ in (1, 2):
            async with trio.open_nursery() as nursery:
                for number, id_ in enumerate(ids * 6):
                    nursery.start_soon(work, nodes[number // 2 % 2], id_, Random(number))
            for id_ in ids:
                while (await nodes[0].billing.accounts.get(id_)).balance:  # refunded after the last worker had ended
                    await spend(nodes[1], id_, 1)
                assert await types(nodes[1], id_) == ["credits.low", "credits.exhausted"] * round_
                await nodes[0].billing.accounts.grant(id_, 30)
        account = (await nodes[0].billing.accounts.create("Ada")).id
        keys = [await nodes[0].billing.keys.create(account) for _ in range(5)]
        async with trio.open_nursery() as nursery:
            for node in nodes:
                for key in keys:
                    nursery.start_soon(node.billing.keys.revoke, key.id)
        reported = [event["subject"]["id"] for event in await events(nodes[1], account)]
        assert sorted(reported) == sorted(key.id for key in keys)


async def test_command_without_a_node_writes_its_event(store_url: str, tmp_path: Path, commands: Commands) -> None:
    place = Place(tmp_path / "desk", commands, {"SLUICE_SECRET": "a secret of tests, long enough"})
    place.folder.mkdir()
    place.configure(store={"url": store_url})
    account, key = place.new_key()
    place.json_of("key", "revoke", key["id"])
    async with open_node(store_url) as node_stores:
        assert await types(node_stores, account) == ["key.revoked"]


class Inline:
    """Charges and a feed on a store without threads, which commits one batch at a time."""

    def __init__(self) -> None:
        self.store = open_inline(MIGRATIONS)
        self.desk = Desk(self.store)
        self.reported: list[AppendedEvent] = []
        make_id = id_maker(lambda: NOW, Random(1))
        billing_events = FeedOfBilling(
            EventLog(now=lambda: NOW, make_id=make_id, base_url="", publish=self.reported.extend),
            now=lambda: NOW,
        )
        self.charges = Charges(
            self.store, self.desk.balances, now=lambda: NOW, node="node-1", billing_events=billing_events
        )

    def batch(self, requests: Sequence[Charge | CloseRequest]) -> list[Any]:
        return self.store.together(self.charges.judge, requests)

    def count(self, table: str) -> int:
        (row,) = wait(self.store.read(lambda tx: tx.all(f"SELECT COUNT(*) FROM {table}")))
        return int(row[0])


@pytest.fixture
def inline() -> Iterator[Inline]:
    inline = Inline()
    yield inline
    inline.store.close()


def test_settlement_and_event_commit_together(inline: Inline) -> None:
    """Method: the commit fails, then the database rejects the event, and then both succeed."""

    def settle() -> tuple[int, int, int]:
        inline.batch([charge])
        return inline.count("events"), inline.count("charges"), len(inline.reported)

    account = wait(inline.desk.accounts.create("A", credits=1))
    charge = wait(inline.charges.take(request(account.id)))
    inline.store.failing = RuntimeError("the disk is full")
    assert settle() == (0, 1, 0)
    inline.store.failing = None
    inline.store.do(lambda tx: [tx.run(sql) for sql in refuse("events", "1 = 1")])
    assert settle() == (0, 1, 0)
    inline.store.do(lambda tx: tx.run(admit()))
    assert settle() == (1, 0, 1)
    wait(inline.desk.assert_sound())
