"""All of billing on one store, with a predictable clock and predictable ids."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from billing.accounts.accounts import WELCOME_CREDITS, Account, Accounts
from billing.accounts.balances import Balances
from billing.accounts.lifecycle import Lifecycle
from billing.charges.batch_rows import ChargeRequest
from billing.charges.charges import Charges
from billing.charges.low_balance import LowBalance
from billing.keys.keys import Keys, NewKey
from billing.keys.records import KeyRecord
from billing.keys.sealing import Cipher
from billing.ledger.transactions import Ledger
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from billing.packs.records import Purchase, Reversal
from limits.gate import Gate
from storage.opening import open_store
from storage.store import Store, Tx

EPOCH = 1_750_000_000.0


class PublishedEvents:
    """The events of billing, once they are committed."""

    def __init__(self) -> None:
        self.keys: list[KeyRecord] = []
        self.low_balances: list[LowBalance] = []
        self.accounts: list[tuple[str, str]] = []
        self.purchases: list[tuple[Purchase, int]] = []
        self.reversals: list[Reversal] = []

    def key_revoked(self, tx: Tx, key: KeyRecord) -> None:
        tx.on_commit(partial(self.keys.append, key))

    def account_suspended(self, tx: Tx, account_id: str) -> None:
        tx.on_commit(partial(self.accounts.append, ("suspended", account_id)))

    def account_resumed(self, tx: Tx, account_id: str) -> None:
        tx.on_commit(partial(self.accounts.append, ("resumed", account_id)))

    def credits_fell(self, tx: Tx, low_balances: Sequence[LowBalance]) -> None:
        tx.on_commit(partial(self.low_balances.extend, low_balances))

    def pack_purchased(self, tx: Tx, purchase: Purchase, balance: int) -> None:
        tx.on_commit(partial(self.purchases.append, (purchase, balance)))

    def pack_reversed(self, tx: Tx, reversal: Reversal) -> None:
        tx.on_commit(partial(self.reversals.append, reversal))

    def steps(self, account_id: str) -> list[str]:
        """Return the levels that the account's credits have fallen to, in order."""
        return [fall.to for fall in self.low_balances if fall.account_id == account_id]


class Desk:
    """Billing as a node sets it up, with a `shared` gate if there are many nodes. Tests move the clock `time`."""

    def __init__(self, store: Store, shared: Gate | None = None) -> None:
        self.time = EPOCH
        self.published = PublishedEvents()
        self.store = store
        self._numbers = itertools.count(1)
        self.balances = Balances(store, shared)
        self.accounts = Accounts(store, self.balances, now=self.now, make_id=self.make_id)
        self.keys = Keys(
            store, Cipher(b"k" * 32), now=self.now, make_id=self.make_id, shared=shared, billing_events=self.published
        )
        self.lifecycle = Lifecycle(store, self.keys.changes, now=self.now, billing_events=self.published)
        self.charges = Charges(store, self.balances, now=self.now, node="node-1", billing_events=self.published)
        self.ledger = Ledger(store, now=self.now)

    def restarted(self) -> "Desk":
        """Return the desk of the next process on the same store."""
        desk = Desk(self.store)
        desk.time, desk._numbers = self.time, self._numbers
        return desk

    def now(self) -> float:
        return self.time

    def make_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):08d}"

    async def customer(
        self,
        credits: int = WELCOME_CREDITS,  # noqa: A002 - the specification's name
        *,
        credit_limit: int | None = None,
    ) -> tuple[Account, NewKey]:
        """Create an account with a key."""
        account = await self.accounts.create("Ada", credits=credits)
        return account, await self.keys.create(account.id, credit_limit=credit_limit)

    def request(self, account_id: str, key_id: str | None = None, *, credits: int = 1) -> ChargeRequest:  # noqa: A002
        return ChargeRequest(self.make_id("req_"), account_id, key_id, credits, "github", "repository")

    async def assert_sound(self) -> None:
        assert await self.store.read(verify) == []


@asynccontextmanager
async def open_desk(url: str) -> AsyncIterator[Desk]:
    with trio.fail_after(60):
        async with open_store(url, [MIGRATIONS]) as store:
            yield Desk(store)
