"""Two nodes on one PostgreSQL database, with clocks ten seconds apart, charge like a single node."""

import random
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from billing.charges.batch_rows import Charge, Closed
from billing.charges.charges import Charges
from billing.charges.recovery import Recovered, recover
from billing.errors import BillingError, InsufficientCredits, TooManyKeys
from limits.idempotency import MIGRATIONS as CLAIMS
from limits.idempotency import Claim, ClaimRecord, StoredReply, free_running, judge, read_claims, save_claims
from limits.shares import StoredShare, trim
from storage.errors import CommitUnknown, StoreUnavailable
from storage.opening import open_store
from storage.store import Tx
from tests.billing.desk import Desk, open_desk
from tests.servers.cutter import open_cutter
from tests.servers.postgres import PostgresServer


@pytest.fixture
async def desks(postgres: PostgresServer) -> AsyncIterator[list[Desk]]:
    url = postgres.fresh()
    async with open_desk(url) as one, open_desk(url) as other:
        other.charges = Charges(
            other.store, other.balances, now=other.now, node="node-2", billing_events=other.published
        )
        one.time, other.time = one.time - 5, other.time + 5
        other._numbers = one._numbers
        yield [one, other]
        await one.assert_sound()


async def test_last_credit_goes_to_one_call_across_two_nodes(desks: list[Desk]) -> None:
    account = await desks[0].accounts.create("Ada", credits=1)
    key = await desks[0].keys.create(account.id)
    won: list[Charge] = []
    refused: list[InsufficientCredits] = []

    async def take(desk: Desk) -> None:
        try:
            won.append(await desk.charges.take(desk.request(account.id, key.id)))
        except InsufficientCredits as exc:
            refused.append(exc)

    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(take, desks[number % 2])
    assert (len(won), len(refused)) == (1, 999)


async def test_charge_closed_by_both_nodes_is_closed_once(desks: list[Desk]) -> None:
    account = await desks[0].accounts.create("Ada", credits=1000)
    charges = [await desks[0].charges.take(desks[0].request(account.id, credits=5)) for _ in range(40)]
    outcomes: dict[str, set[Closed]] = {}

    async def close(desk: Desk, charge: Charge, used: int) -> None:
        outcomes.setdefault(charge.request_id, set()).add(await desk.charges.close(charge, used=used))

    async with trio.open_nursery() as nursery:
        for number, charge in enumerate(charges):
            nursery.start_soon(close, desks[0], charge, number % 6)
            nursery.start_soon(close, desks[1], charge, 5 - number % 6)
    assert {len(found) for found in outcomes.values()} == {1}


async def test_charges_recovered_by_two_nodes_during_closings_are_closed_once(desks: list[Desk]) -> None:
    account = await desks[0].accounts.create("Ada", credits=5000)
    charges = [await desks[0].charges.take(desks[0].request(account.id, credits=2)) for _ in range(200)]
    recovered: list[Recovered] = []
    closed: list[Closed] = []

    async def sweep(desk: Desk) -> None:
        recovered.append(await recover(desk.store, now=desk.now, node="node-1"))

    async def close(charge: Charge) -> None:
        closed.append(await desks[0].charges.close(charge, used=2))

    async with trio.open_nursery() as nursery:
        for charge in charges[:100]:
            nursery.start_soon(close, charge)
        for desk in desks:
            nursery.start_soon(sweep, desk)
    settled = sum(one.credits_used for one in closed) // 2
    assert sum(one.charges for one in recovered) == 200 - settled
    assert sum(one.credits for one in recovered) == 2 * (200 - settled)
    assert (await desks[1].accounts.get(account.id)).balance == 5000 - 2 * settled


async def test_any_mix_of_work_on_two_nodes_is_consistent_without_deadlocks(desks: list[Desk]) -> None:
    """Method: groups of several kinds in a transaction touch many accounts in any order, on both nodes concurrently."""
    ids = [(await desks[0].accounts.create("A", credits=50_000)).id for _ in range(8)]
    keys = [(await desks[0].keys.create(id_)).id for id_ in ids]
    refused: list[str] = []

    async def work(desk: Desk, rng: random.Random) -> None:
        for _ in range(12):
            number = rng.randrange(len(ids))
            try:
                charge = await desk.charges.take(desk.request(ids[number], keys[number], credits=rng.randint(0, 9)))
            except BillingError as exc:
                refused.append(repr(exc))
                continue
            if rng.random() < 0.3:
                await desk.accounts.grant(ids[rng.randrange(len(ids))], 3)
            if rng.random() < 0.3:
                await desk.keys.update(keys[rng.randrange(len(ids))], credit_limit=10_000, reset_usage=True)
            if rng.random() < 0.5:
                desk.charges.settle_nowait(charge)
            else:
                await desk.charges.close(charge, used=rng.randint(0, charge.credits))

    with trio.fail_after(40):
        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(work, desks[number % 2], random.Random(number))
    assert refused == []
    assert [desk.store.statistics().background_errors for desk in desks] == [0, 0]


async def test_account_gets_at_most_five_keys_from_two_nodes(desks: list[Desk]) -> None:
    account = await desks[0].accounts.create("Ada")
    made: list[str] = []

    async def create(desk: Desk) -> None:
        try:
            made.append((await desk.keys.create(account.id)).id)
        except TooManyKeys:
            return

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(create, desks[number % 2])
    assert len(made) == 5


async def test_charge_with_an_unknown_commit_is_refunded_if_it_happened(
    postgres: PostgresServer,
) -> None:
    """Goal: a caller that got an error has not paid.

    Method: the server's response to the commit is lost, and the server is unreachable for longer than the caller waits.
    """
    url = postgres.fresh()
    with open_cutter(postgres.port) as cutter:
        async with open_desk(postgres.url(cutter.port)) as desk, open_desk(url) as witness:
            account = await desk.accounts.create("Ada")

            def lose_answer(data: bytes) -> bool:
                cutter.refuses = True
                cutter.cut()
                return False

            # Charges that are taken but not confirmed when the connection ends are in the same transaction as its
            # commit.
            cutter.to_client = lambda data: lose_answer(data) if b"COMMIT" in data else True
            with pytest.raises(CommitUnknown):
                await desk.charges.take(desk.request(account.id, credits=7))
            cutter.to_client, cutter.refuses = lambda data: True, False
            assert desk.charges.unfinished() == 1
            held = (await witness.accounts.get(account.id)).held
            assert held == 7
            with trio.fail_after(5):
                while desk.charges.unfinished():
                    try:
                        await desk.charges.finish()
                    except StoreUnavailable:
                        await trio.sleep(0.02)
            found = await witness.accounts.get(account.id)
            assert (found.balance, found.held) == (100, 0)
            await witness.assert_sound()


async def test_key_claimed_on_two_nodes_concurrently_has_one_owner(postgres: PostgresServer) -> None:
    """Goal: only one of the two claims succeeds, although there is no row to lock yet."""
    url = postgres.fresh()
    now = 1_750_000_000.0

    def claim(owner: str, number: int, tx: Tx) -> str:
        asked = Claim("acc_1", f"key {number}", "GET a/b", "print", owner)
        before = read_claims(tx, [asked.id])
        verdict = judge(before.get(asked.id), asked, now)
        if isinstance(verdict, ClaimRecord):
            save_claims(tx, {asked.id: verdict})
            return owner
        return "refused"

    with trio.fail_after(30):
        async with open_store(url, [CLAIMS]) as one, open_store(url, [CLAIMS]) as other:
            owners: dict[int, list[str]] = {}

            async def run(store_number: int, number: int) -> None:
                store = (one, other)[store_number]
                owner = f"req {store_number}"
                owners.setdefault(number, []).append(await store.write(partial(claim, owner, number)))

            async with trio.open_nursery() as nursery:
                for number in range(60):
                    for store_number in (0, 1):
                        nursery.start_soon(run, store_number, number)
            assert all(found.count("refused") == 1 for found in owners.values())
            await one.write(partial(free_running, owners=["req 0"]))
            left = await other.read(lambda tx: tx.all("SELECT DISTINCT owner FROM claims"))
            assert left in ([("req 1",)], [])


async def test_two_nodes_store_the_same_texts_once_without_deadlock(
    postgres: PostgresServer,
) -> None:
    """Method: commits of both nodes hold several texts each, in any order, while a third task trims the account."""
    url = postgres.fresh()
    rng, texts = random.Random(1), [f"text {number}" for number in range(6)]

    def finish(number: int, tx: Tx) -> None:
        chosen = rng.sample(texts, 4)
        asked = [Claim("acc_1", f"{number} {text}", "GET a/b", "print", f"req {number}") for text in chosen]
        save_claims(
            tx,
            {
                one.id: ClaimRecord(
                    "acc_1", one.place, one.fingerprint, one.owner, float(number), StoredReply(200, text, one.owner)
                )
                for one, text in zip(asked, chosen, strict=True)
            },
        )

    with trio.fail_after(60):
        async with open_store(url, [CLAIMS]) as one, open_store(url, [CLAIMS]) as other:
            async with trio.open_nursery() as nursery:
                for number in range(0, 60_000, 400):
                    nursery.start_soon((one, other)[number // 400 % 2].write, partial(finish, number))
                nursery.start_soon(partial(trim, one, "acc_1", StoredShare(bytes=1_000), pause_s=0))
            assert [store.statistics().failed_commits for store in (one, other)] == [0, 0]
            await one.write(partial(finish, 60_400))
            await other.write(partial(finish, 60_800))
            kept = await other.read(lambda tx: tx.all("SELECT body FROM replies ORDER BY body"))
            assert len(kept) == len(set(kept)) >= 4


async def test_open_charge_of_a_dead_node_is_refunded_and_its_claim_freed(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with open_desk(url) as desk:
        account = await desk.accounts.create("Ada")
        freed: list[str] = []
        request = desk.request(account.id)
        await desk.charges.take(request)
        found = await recover(desk.store, now=desk.now, node="node-1", also=lambda tx, ids: freed.extend(ids))
        assert found == Recovered(1, 1)
        assert freed == [request.request_id]
