"""The proof reads the journal in steps while it grows: no fault is missed, and concurrent traffic raises no alarm."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
import trio

from billing.accounts.accounts import Account
from billing.archive.archiver import Archiver
from billing.charges.batch_rows import Charge, ChargeRequest
from billing.errors import InsufficientCredits
from billing.ledger.rules import COMPLETE, Violation
from billing.ledger.verification import Proof, prove
from billing.migrations import MIGRATIONS
from storage.store import Tx
from tests.billing.desk import EPOCH, Desk
from tests.billing.ledger.test_verification import TAMPERING, fill
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import InlineStore, open_inline

T = TypeVar("T")
DAY_S = 86_400
PIECE = 5


class Traffic:
    """All operations that move credits, in random order, with some ids far older than the previous ones."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self._desk = desk
        self._rng = Random(seed)
        self._owners: list[tuple[Account, str]] = []
        self._open: list[Charge] = []

    async def begin(self) -> None:
        await self._add_owner()
        await self.go_on(80)

    async def renew(self) -> None:
        """Continue with other accounts only."""
        self._open.clear()
        self._owners.clear()
        await self._add_owner()

    async def go_on(self, steps: int) -> None:
        moves = (self._take, self._take, self._take, self._close, self._close, self._settle, self._grant)
        for _ in range(steps):
            await self._rng.choice(moves)()
        if self._rng.random() < 0.2:
            await self._add_owner()

    async def _add_owner(self) -> None:
        account = await self._desk.accounts.create("Eve", credits=30, unlimited=self._rng.random() < 0.3)
        self._owners.append((account, (await self._desk.keys.create(account.id)).id))

    async def _take(self) -> None:
        account, key = self._rng.choice(self._owners)
        made_at = EPOCH + self._rng.uniform(-20, 20)
        request_id = f"req_{int(made_at * 1000):012x}{self._rng.getrandbits(80):020x}"
        request = ChargeRequest(request_id, account.id, key, self._rng.randrange(9), "github", "repository")
        try:
            self._open.append(await self._desk.charges.take(request))
        except InsufficientCredits:
            await self._desk.accounts.grant(account.id, 50)

    async def _close(self) -> None:
        if charge := self._pick():
            await self._desk.charges.close(charge, used=self._rng.randint(0, charge.credits))

    async def _settle(self) -> None:
        if charge := self._pick():
            self._desk.charges.settle_nowait(charge)

    async def _grant(self) -> None:
        await self._desk.accounts.grant(self._rng.choice(self._owners)[0].id, 5)

    def _pick(self) -> Charge | None:
        return self._open.pop(self._rng.randrange(len(self._open))) if self._open else None


@pytest.fixture
def store() -> Iterator[InlineCalls]:
    store = open_inline([MIGRATIONS])
    yield store
    store.close()


async def prove_during_traffic(store: InlineCalls, traffic: Traffic) -> list[Violation]:
    """Run the steps with traffic in between, and return every violation that they find."""
    proof, steps = Proof(piece=PIECE), 0
    goes_on = await store.read(proof.begin)
    while goes_on:
        await traffic.go_on(4)
        goes_on = await store.read(proof.step)
        steps += 1
    assert steps > 5
    await traffic.go_on(4)
    return await store.read(proof.finish)


@pytest.mark.parametrize("seed", range(20))
async def test_traffic_between_steps_causes_no_violation(store: InlineCalls, seed: int) -> None:
    traffic = Traffic(Desk(store), seed)
    await traffic.begin()
    assert await prove_during_traffic(store, traffic) == []


@pytest.mark.sqlite
@pytest.mark.parametrize(("rule", "sql"), TAMPERING)
async def test_stepwise_proof_finds_tampering_during_traffic(store: InlineStore, rule: str, sql: str) -> None:
    """Goal: many transactions find the same as a single one. Method: accounts with tampering have no traffic."""
    await fill(store)
    desk = Desk(store)
    for _ in range(100):
        desk.make_id("")
    traffic = Traffic(desk, 1)
    await traffic.begin()
    for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
        store.connection.execute(f"PRAGMA {pragma}")
    for trigger in ("update", "delete"):
        store.connection.execute(f"DROP TRIGGER journal_refuses_{trigger}")
    assert store.connection.execute(sql).rowcount > 0
    await traffic.renew()
    assert rule in {one.rule for one in await prove_during_traffic(store, traffic)}


@pytest.mark.sqlite
async def test_row_deleted_before_the_proof_reads_it_is_found(store: InlineStore) -> None:
    """Method: during the proof, delete a row of the account with the most traffic; the proof must report it."""
    traffic = Traffic(Desk(store), 2)
    await traffic.begin()
    store.connection.execute("DROP TRIGGER journal_refuses_delete")

    async def read(fn: Callable[[Tx], T]) -> T:
        result = await store.read(fn)
        store.connection.execute("DELETE FROM journal WHERE id = (SELECT MAX(id) FROM journal WHERE kind = 0)")
        return result

    proof = Proof(piece=PIECE)
    goes_on = await read(proof.begin)
    while goes_on:
        goes_on = await store.read(proof.step)
    assert COMPLETE in {one.rule for one in await store.read(proof.finish)}
    assert COMPLETE in {one.rule for one in await prove(store.read)}


@pytest.mark.sqlite
async def test_days_archived_during_the_proof_cause_no_violation(store: InlineStore, tmp_path: Path) -> None:
    """Method: all old rows are archived after the first step, so the steps miss them. A final transaction decides."""
    desk = Desk(store)
    account = await desk.accounts.create("Ada", credits=1_000)
    for day in range(3):
        desk.time = EPOCH + day * DAY_S
        for number in range(20):
            request_id = f"req_{int(desk.time * 1000):012x}{number:020x}"
            request = ChargeRequest(request_id, account.id, None, 2, "github", "repository")
            await desk.charges.close(await desk.charges.take(request), used=1)
    archived: list[int] = []

    async def read(fn: Callable[[Tx], T]) -> T:
        result = await store.read(fn)
        if not archived:
            run = await Archiver(store, tmp_path / "archive", detail_days=1).run(EPOCH + 10 * DAY_S)
            archived.append(run.rows)
        return result

    with trio.fail_after(60):
        proof = Proof(piece=PIECE)
        goes_on = await read(proof.begin)
        while goes_on:
            goes_on = await store.read(proof.step)
        assert archived[0] > 40
        assert await store.read(proof.finish) != []
        archived.clear()
        assert await prove(read) == []
