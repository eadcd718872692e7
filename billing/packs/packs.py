"""Grants, sells and lists packs of credits (decisions 22)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

from billing.accounts.accounts import CHANGE_PLAN, Accounts, Mark, read_kept_account
from billing.accounts.plans import Plan
from billing.billing_events import BillingEvents
from billing.errors import PackUnknown
from billing.packs.records import COLUMNS, Pack, Purchase
from storage.store import Store, Tx, Write

ADD: Final = """
INSERT INTO pack_purchases (id, account_id, pack, credits, price_cents, currency, plan, source, created_at, request)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FIND_BEGUN: Final = f"""
SELECT {COLUMNS} FROM pack_purchases WHERE account_id = ? AND created_at > ? AND request = ? AND paid_at IS NULL
ORDER BY created_at DESC LIMIT 1
"""  # noqa: S608 - constants
PAY: Final = "UPDATE pack_purchases SET paid_at = ?, paid_cents = ?, payment = ? WHERE id = ?"
DROP_OPEN: Final = "DELETE FROM pack_purchases WHERE id = ? AND paid_at IS NULL"
LIST: Final = f"""
SELECT {COLUMNS} FROM pack_purchases WHERE account_id = ? ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - constants
LIST_BEFORE: Final = f"""
SELECT {COLUMNS} FROM pack_purchases WHERE account_id = ? AND (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - constants
UNMARK: Final = "UPDATE accounts SET mark = NULL, mismatch = NULL WHERE id = ?"
_PLANS: Final = get_args(Plan)
RESUMED_S: Final = 72_000.0
"""For how many seconds an unpaid purchase can be resumed. Stripe stores the result of an idempotency key for a day."""


class PackGranted(NamedTuple):
    """A granted pack, with the balance after the grant."""

    account_id: str
    balance: int
    pack: str


class Unmarked(NamedTuple):
    """An account whose marks were removed, and the marks that it had before."""

    account_id: str
    removed: Mark | None
    mismatch: str | None


class Packs:
    """Grants and sells the configured packs, and reads the purchases of accounts."""

    def __init__(
        self,
        store: Store,
        accounts: Accounts,
        on_sale: Iterable[Pack],
        *,
        now: Callable[[], float],
        make_id: Callable[[str], str],
        billing_events: BillingEvents,
    ) -> None:
        self.on_sale = {pack.name: pack for pack in on_sale}
        self._store = store
        self._accounts = accounts
        self._now = now
        self._make_id = make_id
        self._billing_events = billing_events

    def get(self, name: str) -> Pack:
        """Return the pack with this name.

        Raises:
            PackUnknown: no such pack is on sale. The message suggests the nearest name.
        """
        pack = self.on_sale.get(name)
        if pack is None:
            near = get_close_matches(name.lower()[:100], self.on_sale, n=1, cutoff=0.6)
            raise PackUnknown(name, tuple(self.on_sale), near[0] if near else None)
        return pack

    async def grant(self, account_id: str, name: str, *, write: Write | None = None) -> PackGranted:
        """Add a pack that was paid for elsewhere. `write` replaces the store's own `write`.

        Raises:
            PackUnknown, AccountUnknown, AccountDeleted: the pack or the account does not exist.
        """
        purchase = self._new(account_id, self.get(name), "operator")
        return await (write or self._store.write)(partial(self._grant, purchase))

    async def begin(self, account_id: str, name: str) -> Purchase:
        """Create an unpaid purchase at the current terms.

        Raises:
            PackUnknown, AccountUnknown, AccountDeleted: the pack or the account does not exist.
        """
        purchase = self._new(account_id, self.get(name), "stripe")
        await self._store.write(partial(self._begin, purchase))
        return purchase

    def beginning(self, account_id: str, name: str, request: str | None) -> Callable[[Tx], Purchase]:
        """Return a function that writes an unpaid purchase at the current terms.

        If the same `request` already began an unpaid purchase, the function resumes that purchase, because the node may
        have stopped before it responded.

        Raises:
            PackUnknown: the pack is not on sale.

        The returned function raises AccountUnknown and AccountDeleted.
        """
        return partial(self._resume, self._new(account_id, self.get(name), "stripe"), request)

    async def forget(self, purchase_id: str) -> None:
        """Remove a purchase that can no longer be paid. A paid purchase is kept."""
        await self._store.write(partial(drop_open, purchase_id=purchase_id))

    async def unmark(self, account_id: str, *, write: Write | None = None) -> Unmarked:
        """Remove the account's marks. A later reversal or mismatched payment marks the account again.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
        """
        return await (write or self._store.write)(partial(_unmark, account_id))

    async def list(self, account_id: str, *, before: tuple[float, str] | None = None, limit: int) -> Sequence[Purchase]:
        """Return the purchases of an account, newest first, older than the time and id `before`."""
        return await self._store.read(partial(_list, account_id, before, limit))

    def pay(self, tx: Tx, purchase: Purchase, *, paid_cents: int, payment: str | None) -> Purchase:
        """Add the credits and the plan of a purchase, in the transaction of the event that reports its payment.

        Raises:
            AccountUnknown, AccountDeleted: the account can no longer receive them.
        """
        balance = self._accounts.enter_purchase(
            tx, purchase.account_id, purchase.credits, f"Credit pack {purchase.pack}"
        )
        self._raise_plan(tx, purchase)
        paid = replace(purchase, paid_at=self._now(), paid_cents=paid_cents, payment=payment)
        tx.run(PAY, (paid.paid_at, paid_cents, payment, purchase.id))
        self._billing_events.pack_purchased(tx, paid, balance)
        return paid

    def _new(self, account_id: str, pack: Pack, source: Literal["operator", "stripe"]) -> Purchase:
        terms = (pack.name, pack.credits, pack.price_cents, pack.currency, pack.plan)
        return Purchase(self._make_id("pur_"), account_id, *terms, source, self._now())

    def _begin(self, purchase: Purchase, tx: Tx, *, request: str | None = None) -> None:
        read_kept_account(tx, purchase.account_id)
        _add(tx, purchase, request)

    def _resume(self, purchase: Purchase, request: str | None, tx: Tx) -> Purchase:
        since = purchase.created_at - RESUMED_S
        begun = None if request is None else tx.one(FIND_BEGUN, (purchase.account_id, since, request))
        if begun is not None:
            return Purchase(*begun)
        self._begin(purchase, tx, request=request)
        return purchase

    def _grant(self, purchase: Purchase, tx: Tx) -> PackGranted:
        self._begin(purchase, tx)
        self.pay(tx, purchase, paid_cents=purchase.price_cents, payment=None)
        return PackGranted(purchase.account_id, read_kept_account(tx, purchase.account_id).balance, purchase.pack)

    def _raise_plan(self, tx: Tx, purchase: Purchase) -> None:
        """Set the account's plan to the plan of the largest pack that it ever bought (spec 8).

        A smaller pack later does not lower the plan.
        """
        account = read_kept_account(tx, purchase.account_id)
        if _PLANS.index(purchase.plan) > _PLANS.index(account.plan):
            tx.run(CHANGE_PLAN, (purchase.plan, purchase.account_id))


def drop_open(tx: Tx, purchase_id: str) -> int:
    """Remove a purchase unless it was paid. Return how many were removed."""
    return tx.run(DROP_OPEN, (purchase_id,))


def drop_purchase(tx: Tx, purchase: Purchase) -> int:
    """Like `drop_open`, for a purchase whose checkout page could not be created."""
    return drop_open(tx, purchase.id)


def _unmark(account_id: str, tx: Tx) -> Unmarked:
    account = read_kept_account(tx, account_id)
    unmarked = Unmarked(account_id, account.mark, account.mismatch)
    tx.run(UNMARK, (account_id,))
    return unmarked


def _add(tx: Tx, one: Purchase, request: str | None) -> None:
    terms = (one.pack, one.credits, one.price_cents, one.currency, one.plan)
    tx.run(ADD, (one.id, one.account_id, *terms, one.source, one.created_at, request))


def _list(account_id: str, before: tuple[float, str] | None, limit: int, tx: Tx) -> list[Purchase]:
    rows = tx.all(LIST, (account_id, limit)) if before is None else tx.all(LIST_BEFORE, (account_id, *before, limit))
    return [Purchase(*row) for row in rows]
