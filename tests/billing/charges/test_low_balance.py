"""Low and exhausted credits are published once per fall, however settlements are grouped into batches."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import billing.migrations
from billing.charges.batch_rows import AccountState, Charge, CloseRequest, Request
from billing.charges.low_balance import LowBalance, judge_low_balances
from billing.charges.recovery import Recovered, recover
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Tx
from tests.billing.charges.test_batch_rows_machine import wait
from tests.billing.desk import Desk
from tests.fakes.entries import EntryRow, read_entries
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.inline_store import InlineStore, open_inline
from tests.servers.postgres import PostgresServer

LOW, EXHAUSTED = "low", "exhausted"
Step: TypeAlias = tuple[Any, ...]


async def spend(desk: Desk, account_id: str, amount: int) -> None:
    """Take and use credits, with one batch per charge."""
    charge = await desk.charges.take(desk.request(account_id, credits=amount))
    await desk.charges.close(charge, used=amount)


def together(desk: Desk, requests: Sequence[Request]) -> None:
    """Run requests in one batch."""
    store = desk.store
    assert isinstance(store, InlineCalls)
    store.together(desk.charges.judge, requests)


async def test_welcome_bonus_becomes_low_and_then_exhausted(
    desk: Desk,
) -> None:
    account = await desk.accounts.create("Ada")
    for amount, published in ((79, []), (1, [LOW]), (1, [LOW]), (18, [LOW]), (1, [LOW, EXHAUSTED])):
        await spend(desk, account.id, amount)
        assert desk.published.steps(account.id) == published
    assert desk.published.low_balances == [
        LowBalance(account.id, "low", balance=20, held=0, pack=100, threshold=20),
        LowBalance(account.id, "exhausted", balance=0, held=0, pack=100, threshold=20),
    ]


async def test_purchase_sets_the_pack_and_allows_another_low_event(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=10)
    await spend(desk, account.id, 9)
    await desk.accounts.grant(account.id, 5)
    await spend(desk, account.id, 4)
    assert desk.published.steps(account.id) == [LOW], "2 of 6 credits are left, and the threshold is 1"
    await spend(desk, account.id, 1)
    await desk.accounts.grant(account.id, 1000)
    await spend(desk, account.id, 1001)
    await desk.accounts.grant(account.id, 1)
    await spend(desk, account.id, 1)
    assert desk.published.steps(account.id) == [LOW, LOW, LOW, EXHAUSTED, EXHAUSTED]
    assert [fall.threshold for fall in desk.published.low_balances] == [2, 1, 200, 200, 0]


async def test_reserved_credits_publish_no_low_event(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    charges = [await desk.charges.take(desk.request(account.id, credits=50)) for _ in range(2)]
    assert (await desk.accounts.get(account.id)).balance == 0
    assert desk.published.low_balances == []
    await desk.charges.close(charges[0], used=0)
    assert desk.published.low_balances == [], "refunded credits were never spent"
    await desk.charges.close(charges[1], used=50)
    assert desk.published.low_balances == []
    walk = await desk.charges.take(desk.request(account.id, credits=50))
    await desk.charges.close(walk, used=31)
    assert desk.published.low_balances == [LowBalance(account.id, "low", balance=19, held=0, pack=100, threshold=20)]


async def test_recovery_of_open_charges_publishes_nothing(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    await spend(desk, account.id, 79)
    for _ in range(21):
        await desk.charges.take(desk.request(account.id))
    after = desk.restarted()
    assert await recover(desk.store, now=desk.now) == Recovered(21, 21)
    assert desk.published.low_balances == []
    await spend(after, account.id, 1)
    assert after.published.steps(account.id) == [LOW], "the next settled charge publishes the event"


async def test_unlimited_account_and_account_without_pack_are_never_low(desk: Desk) -> None:
    unlimited = await desk.accounts.create("Ada", credits=10, unlimited=True)
    for _ in range(3):
        await spend(desk, unlimited.id, 10)
    bare = await desk.accounts.create("Bob", credits=0)
    await spend(desk, bare.id, 0)
    assert desk.published.low_balances == []
    await desk.accounts.grant(bare.id, 4)
    await spend(desk, bare.id, 3)
    await spend(desk, bare.id, 1)
    assert desk.published.steps(bare.id) == [EXHAUSTED], "a fifth of 4 credits is less than one credit"


@pytest.fixture
def inline() -> Iterator[InlineCalls]:
    """A store that runs the batches given by a test."""
    store = open_inline([billing.migrations.MIGRATIONS])
    yield store
    store.close()


def test_batch_of_many_settlements_publishes_low_and_exhausted_once(inline: InlineCalls) -> None:
    desk = Desk(inline)
    ids = [wait(desk.accounts.create("A", credits=20)).id for _ in range(2)]
    charges = [wait(desk.charges.take(desk.request(id_))) for id_ in ids for _ in range(20)]
    together(desk, [*charges[:10], *charges[20:37]])
    assert [(fall.account_id, fall.to) for fall in desk.published.low_balances] == [(ids[1], LOW)]
    together(desk, [*charges[10:20], *charges[37:]])
    assert [desk.published.steps(id_) for id_ in ids] == [[LOW, EXHAUSTED]] * 2, (
        "one fall below both levels publishes both"
    )


def test_failed_batch_publishes_nothing_and_its_retry_once(inline: InlineCalls) -> None:
    desk = Desk(inline)
    account = wait(desk.accounts.create("A", credits=1))
    charge = wait(desk.charges.take(desk.request(account.id)))
    inline.failing = RuntimeError("the disk is full")
    together(desk, [charge])
    assert desk.published.low_balances == []
    inline.failing = None
    together(desk, [charge])
    together(desk, [charge])
    assert desk.published.steps(account.id) == [EXHAUSTED]


@given(balance=st.integers(0, 30), held=st.integers(0, 30), used=st.integers(0, 60), pack=st.integers(0, 100))
def test_batch_publishes_the_same_events_as_single_settlements(balance: int, held: int, used: int, pack: int) -> None:
    whole = balance + held
    left = max(0, whole - used)
    pieces: list[str] = []
    for now in range(whole - 1, left - 1, -1):
        state = AccountState(now, 0, unlimited=False, pack=pack, whole=now + 1)
        pieces += [fall.to for fall in judge_low_balances({"acc": state})]
    state = AccountState(left, 0, unlimited=False, pack=pack, whole=whole)
    assert [fall.to for fall in judge_low_balances({"acc": state})] == pieces


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(0, 1), st.integers(1, 30)),
        st.tuples(
            st.just("batch"),
            st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9)), max_size=5),
            st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 2)), max_size=6),
        ),
        st.just(("restart",)),
    ),
    max_size=25,
)


class History:
    """The entries of some accounts, in the order in which the steps wrote them."""

    def __init__(self, desk: Desk, ids: Sequence[str]) -> None:
        self._desk = desk
        self._ids = ids
        self.entries: dict[EntryRow, None] = {}
        self.look()

    def look(self) -> None:
        """Record a step."""
        for entry in wait(self._desk.store.read(lambda tx: read_entries(tx.all))):
            if entry.account in self._ids:
                self.entries.setdefault(entry)

    def steps(self, account_id: str) -> list[str]:
        """The brute-force model goes from entry to entry, regardless of batches."""
        whole = pack = 0
        steps: list[str] = []
        for _id, account, kind, amount, *_rest in self.entries:
            before = whole
            if account != account_id:
                continue
            if kind in ("purchase", "bonus"):
                whole, pack = whole + amount, amount
            elif kind == "settlement":
                whole -= amount
            if pack // 5 > 0 and whole <= pack // 5 < before:
                steps.append(LOW)
            if whole == 0 < before:
                steps.append(EXHAUSTED)
        return steps


def play(desk: Desk, ids: Sequence[str], steps: Sequence[Step], history: History) -> None:
    """Runs grants, restarts with recovery, and batches that take and close in any combination."""
    open_: list[Charge] = []
    for step in steps:
        history.look()
        if step[0] == "grant":
            wait(desk.accounts.grant(ids[step[1]], step[2]))
        elif step[0] == "restart":
            wait(recover(desk.store, now=desk.now))
            open_.clear()
        else:
            closing = [close_randomly(open_.pop(at % len(open_)), used, way) for at, used, way in step[2] if open_]
            taking = [desk.request(ids[which], credits=price) for which, price in step[1]]
            store = desk.store
            assert isinstance(store, InlineCalls)
            outcomes = store.together(desk.charges.judge, [*taking, *closing])
            open_ += [one for one in outcomes[: len(taking)] if isinstance(one, Charge)]
    history.look()


def close_randomly(charge: Charge, used: int, way: int) -> Request:
    if way == 0:
        return charge
    used = min(used, charge.credits)
    return CloseRequest(charge.request_id, charge.account_id, None, used, charge=charge if way == 1 else None)


def check(desk: Desk, welcome: int, steps: Sequence[Step]) -> None:
    ids = [wait(desk.accounts.create("A", credits=welcome)).id for _ in range(2)]
    history = History(desk, ids)
    play(desk, ids, steps, history)
    for id_ in ids:
        assert desk.published.steps(id_) == history.steps(id_)
    wait(desk.assert_sound())


@given(welcome=st.integers(0, 40), steps=STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_low_events_match_the_ledger_for_any_batches(
    welcome: int,
    steps: Sequence[Step],
) -> None:
    store = InlineStore([billing.migrations.MIGRATIONS])
    check(Desk(store), welcome, steps)
    store.close()


def test_low_events_match_the_ledger_on_postgresql(postgres: PostgresServer) -> None:
    store = InlinePostgres(postgres.fresh(), [billing.migrations.MIGRATIONS])
    desk = Desk(store)

    @given(welcome=st.integers(0, 40), steps=STEPS)
    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
    def run(welcome: int, steps: Sequence[Step]) -> None:
        check(desk.restarted(), welcome, steps)

    run()
    store.close()


async def test_migration_sets_the_pack_of_existing_accounts(store_url: str) -> None:
    name, migrations = billing.migrations.MIGRATIONS.name, billing.migrations.MIGRATIONS.migrations
    before, with_packs = MigrationSet(name, migrations[:2]), MigrationSet(name, migrations[:3])
    rows = [
        ("bought", "bonus", 100, None),
        ("bought", "purchase", 900, None),
        ("bought", "purchase", 500, None),
        ("new", "bonus", 100, None),
        ("unlimited", "bonus", 70, None),
        ("unlimited", "bonus", 3, "req_1"),
    ]
    account = "INSERT INTO accounts (id, name, plan, unlimited, balance, held, created_at) VALUES {rows}"
    entry = """
    INSERT INTO ledger_entries (account_id, kind, amount, request_id, debit, credit, balance_after, description,
                                created_at)
    VALUES {rows}
    """
    ids = ("bought", "new", "unlimited", "bare")

    def fill(tx: Tx) -> None:
        tx.run_many(account, [(id_, "A", "free", 0, 7, 0, 1.0) for id_ in ids])
        tx.run_many(entry, [(*row, "issued", "available", 7, "x", 1.0) for row in rows])

    async with open_store(store_url, [before]) as store:
        await store.write(fill)
    async with open_store(store_url, [with_packs]) as store:
        packs = await store.read(lambda tx: tx.all("SELECT id, pack FROM accounts"))
    assert dict(packs) == {"bought": 500, "new": 100, "unlimited": 70, "bare": 0}


@pytest.mark.parametrize("times", [1, 2])
async def test_revocation_is_published_once(desk: Desk, times: int) -> None:
    account = await desk.accounts.create("Ada")
    key = await desk.keys.create(account.id, name="laptop")
    for _ in range(times):
        await desk.keys.revoke(key.id)
        desk.time += 1
    (published,) = desk.published.keys
    assert (published.id, published.account_id, published.name, published.last4) == (
        key.id,
        account.id,
        "laptop",
        key.last4,
    )
    assert published.revoked_at == desk.time - times, "the current state of the key"
