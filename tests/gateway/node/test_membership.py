"""A node in a shared store: it sends heartbeats, recovers dead nodes, and continues after it was declared dead."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import orjson
import pytest
import trio

from billing.charges.batch_rows import Charge, ChargeRequest, Closed
from billing.charges.charges import close_request
from billing.ledger.verification import verify
from gateway.calls.idempotency import Begin, ClaimEnd, Claims
from gateway.config.ids import id_maker
from gateway.config.secrets import load_secret
from gateway.config.settings import Config, StoreSettings
from gateway.node.membership import Membership, MembershipPace, StateNotShared, open_membership
from gateway.node.stores import Stores, open_stores
from limits.idempotency import Claim, StoredReply
from storage import nodes
from storage.errors import CommitUnknown, StoreUnavailable
from tests.fakes.runtime import runtime_of
from tests.servers.cutter import open_cutter
from tests.servers.postgres import PostgresServer

NOW = 1_790_000_000.0
QUICK = MembershipPace(beat_s=0.15, dead_after_s=1.5)
PATIENT = MembershipPace(beat_s=0.6, dead_after_s=2.5)
"""After an outage a node declares no other dead for two beats. Others may need up to 0.8 s and a retry to reconnect."""
NEVER = MembershipPace(beat_s=3600.0)
"""The pace of a node that sends no heartbeat during a test."""


@dataclass
class Living:
    """A node without servers: its stores, its claims and its membership."""

    stores: Stores
    claims: Claims
    membership: Membership
    log: io.BytesIO
    number: int = 0

    @property
    def id(self) -> str:
        return self.stores.billing.charges.node

    def request(self, account: str, *, credits: int = 2) -> ChargeRequest:  # noqa: A002 - the specification's name
        self.number += 1
        return ChargeRequest(f"req_{self.id}_{self.number}", account, None, credits, "github", "profile")

    def events(self, name: str) -> list[dict[str, object]]:
        lines = [orjson.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    async def living(self) -> list[str]:
        return await self.stores.store.read(partial(nodes.living, dead_after_s=QUICK.dead_after_s))

    async def money(self, account: str) -> tuple[int, int]:
        assert await self.stores.store.read(verify) == []
        found = await self.stores.billing.accounts.get(account)
        return found.balance, found.held

    async def until(self, balance: int, held: int, account: str) -> None:
        while await self.money(account) != (balance, held):  # noqa: ASYNC110 - a database sets no event
            await trio.sleep(0.05)


@asynccontextmanager
async def open_living(
    url: str,
    pace: MembershipPace = QUICK,
    *,
    shared: bool = True,
    shares_state: bool = True,
    log: io.BytesIO | None = None,
) -> AsyncIterator[Living]:
    """A node that sends heartbeats and recovers others. Cancelling inside the block is like a clean stop."""
    make_id, log = id_maker(lambda: NOW, Random()), log or io.BytesIO()
    secrets = load_secret({"SLUICE_SECRET": "a secret of tests, long enough"}, Path())
    config = Config(store=StoreSettings(url))
    with trio.fail_after(60):
        async with (
            open_stores(config, secrets, now=lambda: NOW, make_id=make_id) as stores,
            open_membership(
                stores,
                runtime=runtime_of(now=lambda: NOW, make_id=make_id, log=log),
                is_shared=shared,
                shares_state=shares_state,
                pace=pace,
            ) as membership,
            trio.open_nursery() as nursery,
        ):
            if shared:
                nursery.start_soon(membership.keep_beating)
                nursery.start_soon(membership.keep_recovering)
            yield Living(stores, Claims(stores.store, stores.billing.charges, now=lambda: NOW), membership, log)
            nursery.cancel_scope.cancel()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.fresh()


async def test_nodes_are_alive_while_running_and_leave_on_stop(url: str) -> None:
    async with open_living(url) as one:
        async with open_living(url) as other:
            await trio.sleep(2 * QUICK.dead_after_s)
            assert await one.living() == sorted([one.id, other.id])
            assert (one.membership.living, other.membership.living) == (2, 2)
        assert await one.living() == [one.id]
        assert await one.stores.store.read(lambda tx: tx.all("SELECT id FROM nodes")) == [(one.id,)]
        assert one.events("recovered") == one.events("declared_dead") == []


async def test_clean_stop_closes_open_charges_first(url: str) -> None:
    async with open_living(url) as staying:
        account = (await staying.stores.billing.accounts.create("Ada", credits=100)).id
        async with open_living(url) as leaving:
            await leaving.stores.billing.charges.take(leaving.request(account))
        assert await staying.money(account) == (100, 0)
        assert leaving.membership.recovered_charges == 1


async def test_dead_nodes_charges_and_claims_are_closed_by_another(url: str) -> None:
    async with open_living(url) as alive, open_living(url, NEVER) as dead:
        account = (await alive.stores.billing.accounts.create("Ada", credits=100)).id
        await dead.stores.billing.charges.take(dead.request(account))
        claimed = dead.request(account, credits=5)
        claim = Claim(account, "key", "GET a/b", "print", claimed.request_id)
        await dead.claims.begin(Begin(claim, claimed))
        await alive.stores.billing.charges.take(alive.request(account, credits=10))
        assert await alive.money(account) == (83, 17)
        assert alive.stores.billing.balances.nowait(account) == 83
        await alive.until(90, 10, account)
        while alive.membership.recovered_charges != 2:  # noqa: ASYNC110 - the node sets no event
            await trio.sleep(0.01)
        assert alive.stores.billing.balances.nowait(account) == 90, "the refund did not update the balance in memory"
        again = alive.request(account)
        await alive.claims.begin(Begin(Claim(account, "key", "GET a/b", "print", again.request_id), again))
        assert alive.membership.living == 1


async def test_only_one_node_recovers_a_dead_one(url: str) -> None:
    async with open_living(url) as one, open_living(url) as other, open_living(url, NEVER) as dead:
        account = (await one.stores.billing.accounts.create("Ada", credits=1000)).id
        for _ in range(30):
            await dead.stores.billing.charges.take(dead.request(account))
        await one.until(1000, 0, account)
        await trio.sleep(3 * QUICK.beat_s)
        refunds = "SELECT COUNT(refund_place) FROM journal"
        assert await one.stores.store.read(lambda tx: tx.one(refunds)) == (30,)
        assert sorted([one.membership.recovered_charges, other.membership.recovered_charges]) == [0, 30]


async def test_node_declared_dead_gets_the_recovery_outcome_and_a_new_name(url: str) -> None:
    """Method: a node that does not send heartbeats stands for a paused one; then it sends one late heartbeat."""
    late = MembershipPace(beat_s=4.0)
    async with open_living(url) as alive, open_living(url, late) as paused:
        account = (await alive.stores.billing.accounts.create("Ada", credits=100)).id
        old, charges = paused.id, [await paused.stores.billing.charges.take(paused.request(account)) for _ in range(2)]
        claimed = paused.request(account)
        claim = Claim(account, "key", "GET a/b", "print", claimed.request_id)
        begun = await paused.claims.begin(Begin(claim, claimed))
        assert isinstance(begun, Charge)
        await alive.until(100, 0, account)
        paused.stores.billing.charges.settle_nowait(charges[0])
        assert (await paused.stores.billing.charges.close(charges[1], used=2)).credits_used == 0
        late_end = ClaimEnd(claim, close_request(begun, used=2), StoredReply(200, "late", claimed.request_id))
        assert (await paused.claims.end(late_end)).credits_used == 0
        assert await alive.money(account) == (100, 0)
        while paused.id == old:  # noqa: ASYNC110 - only tests wait for it, so it sets no event
            await trio.sleep(0.05)
        assert [event["node"] for event in paused.events("declared_dead")] == [old]
        charge = await paused.stores.billing.charges.take(paused.request(account))
        assert paused.id in await alive.living()
        assert await paused.stores.billing.charges.close(charge, used=2) == Closed(2, 98)


async def test_charges_of_a_paused_node_are_refunded(url: str) -> None:
    async with open_living(url) as alive, open_living(url, NEVER) as paused:
        account = (await alive.stores.billing.accounts.create("Ada", credits=100)).id
        is_recovered = "SELECT 1 FROM nodes WHERE recovered_at IS NOT NULL"
        while not await alive.stores.store.read(lambda tx: tx.all(is_recovered)):  # noqa: ASYNC110 - as above
            await trio.sleep(0.05)
        await paused.stores.billing.charges.take(paused.request(account))
        await alive.until(100, 0, account)


async def test_charge_of_an_unknown_node_is_refunded(url: str) -> None:
    async with open_living(url) as alive, open_living(url, NEVER) as forgotten:
        account = (await alive.stores.billing.accounts.create("Ada", credits=100)).id
        await forgotten.stores.billing.charges.take(forgotten.request(account))
        await alive.stores.store.write(lambda tx: tx.run("DELETE FROM nodes WHERE id = ?", (forgotten.id,)))
        await alive.until(100, 0, account)


async def test_no_node_is_declared_dead_after_a_store_outage(postgres: PostgresServer) -> None:
    """Goal: after an outage longer than the time after which a node is dead, all nodes keep their identity."""
    url = postgres.fresh()
    async with open_living(url, PATIENT) as one, open_living(url, PATIENT) as other:
        account = (await one.stores.billing.accounts.create("Ada", credits=100)).id
        charges = [await node.stores.billing.charges.take(node.request(account)) for node in (one, other)]
        ids = sorted([one.id, other.id])
        await trio.to_thread.run_sync(postgres.kill)
        await trio.sleep(2 * PATIENT.dead_after_s)
        await trio.to_thread.run_sync(postgres.start)
        while await _living_or_none(one) != ids:  # noqa: ASYNC110 - as above
            await trio.sleep(0.05)
        await trio.sleep(2 * PATIENT.dead_after_s)
        for node, charge in zip((one, other), charges, strict=True):
            assert (await node.stores.billing.charges.close(charge, used=2)).credits_used == 2
            assert node.events("declared_dead") == node.events("recovered") == []
            assert node.events("node_unheard")
        assert await one.money(account) == (96, 0)


async def test_claim_with_unknown_commit_is_freed_with_its_charge(postgres: PostgresServer) -> None:
    """Method: the database's response to the commit is lost, and the database is away longer than the caller waits."""
    url = postgres.fresh()
    with open_cutter(postgres.port) as cutter:
        async with (
            open_living(postgres.url(cutter.port), MembershipPace()) as node,
            open_living(url, MembershipPace()) as witness,
        ):
            account = (await node.stores.billing.accounts.create("Ada", credits=100)).id

            def lose_answer(data: bytes) -> bool:
                if b"COMMIT" not in data:
                    return True
                cutter.refuses = True
                cutter.cut()
                return False

            request = node.request(account)
            claim = Claim(account, "key", "GET a/b", "print", request.request_id)
            cutter.to_client = lose_answer
            with pytest.raises(CommitUnknown):
                await node.claims.begin(Begin(claim, request))
            cutter.to_client, cutter.refuses = lambda data: True, False
            assert await witness.money(account) == (98, 2)
            while node.stores.billing.charges.unfinished():
                try:
                    await node.stores.billing.charges.finish()
                except StoreUnavailable:
                    await trio.sleep(0.05)
            assert await witness.money(account) == (100, 0)
            assert await witness.stores.store.read(lambda tx: tx.all("SELECT id FROM claims")) == []


@pytest.mark.parametrize(("one", "other"), [(False, False), (True, False), (False, True)])
async def test_node_with_private_state_cannot_join_another(url: str, one: bool, other: bool) -> None:
    async with open_living(url, shares_state=one) as alive:
        with pytest.raises(StateNotShared, match=f"another node .{alive.id}. .* give all nodes the same Redis"):
            async with open_living(url, shares_state=other):
                pytest.fail("the node has joined")
        await trio.sleep(3 * QUICK.beat_s)
        assert await alive.living() == [alive.id]
        assert alive.events("declared_dead") == []


async def test_single_node_does_not_wait_for_one_that_left(url: str) -> None:
    for _ in range(2):
        async with open_living(url, shares_state=False) as alone:
            assert await alone.living() == [alone.id]
            assert alone.events("waits_for_death") == []


async def test_single_node_restarts_when_its_killed_predecessor_counts_as_dead(url: str) -> None:
    """Goal: restart immediately after `kill -9`. Method: a node that sends no heartbeats stands for the killed one."""
    async with open_living(url, NEVER, shares_state=False) as killed:
        account = (await killed.stores.billing.accounts.create("Ada", credits=100)).id
        await killed.stores.billing.charges.take(killed.request(account))
        log = io.BytesIO()
        async with open_living(url, shares_state=False, log=log) as again:
            (waited,) = again.events("waits_for_death")
            assert waited["nodes"] == [killed.id]
            await again.until(100, 0, account)
            assert await again.living() == [again.id]


async def test_later_of_two_simultaneously_started_nodes_ends(url: str) -> None:
    """Method: add the row of a living node after the other has started, as if both had started at the same time."""

    async def add_living_node(node: Living, started: str) -> None:
        await node.stores.store.write(partial(nodes.join, node_id=started, shares_state=False))
        sql = "UPDATE nodes SET started_at = started_at + ? WHERE id = ?"
        await node.stores.store.write(lambda tx: tx.run(sql, (-60.0 if started == "earlier" else 60.0, started)))

    async with open_living(url, shares_state=False) as staying:
        await add_living_node(staying, "later")
        for _ in range(6):
            await trio.sleep(QUICK.beat_s)
            await staying.stores.store.write(partial(nodes.beat, node_id="later"))
        await staying.stores.store.write(partial(nodes.leave, node_id="later"))

    async def run_with_an_earlier_node() -> None:
        async with open_living(url, shares_state=False) as leaving:
            await add_living_node(leaving, "earlier")
            await trio.sleep_forever()

    with pytest.RaisesGroup(pytest.RaisesExc(StateNotShared, match="earlier"), flatten_subgroups=True):
        await run_with_an_earlier_node()


async def test_paused_node_that_was_replaced_ends(url: str) -> None:
    """Method: a node that does not send heartbeats stands for a paused one; then it sends one late heartbeat."""
    late = MembershipPace(beat_s=4.0)

    async def wake_up() -> None:
        async with open_living(url, late, shares_state=False), open_living(url, shares_state=False):
            await trio.sleep_forever()

    with pytest.RaisesGroup(StateNotShared, flatten_subgroups=True):
        await wake_up()


@pytest.mark.sqlite
async def test_owner_of_a_file_closes_old_charges_before_serving(tmp_path: Path) -> None:
    """Goal: a file has one owner at a time, so open charges in it belong to a dead process."""
    url = f"sqlite:///{tmp_path / 'sluice.db'}"
    async with open_living(url, shared=False) as dead:
        account = (await dead.stores.billing.accounts.create("Ada", credits=100)).id
        claimed = dead.request(account)
        await dead.claims.begin(Begin(Claim(account, "key", "GET a/b", "print", claimed.request_id), claimed))
    async with open_living(url, shared=False) as next_one:
        assert await next_one.money(account) == (100, 0)
        assert next_one.membership.recovered_charges == 1
        assert await next_one.stores.store.read(lambda tx: tx.all("SELECT id FROM claims")) == []


async def _living_or_none(node: Living) -> list[str]:
    try:
        return await node.living()
    except StoreUnavailable:
        return []
