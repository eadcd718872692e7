"""Accounts, which own credits, and the operations that create accounts and add credits."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, get_args

from billing.accounts.balances import Balances
from billing.accounts.plans import Plan
from billing.errors import AccountDeleted, AccountUnknown, TermsInvalid
from billing.journal import BONUS, PURCHASE, add_rows, issue, micros
from billing.names import Names
from limits.gate import BalanceUpdate
from storage.store import Row, Store, Tx, Write

LifeState: TypeAlias = Literal["active", "suspended", "deleting", "deleted"]
"""The state of an account. A `deleting` account is already unusable; its data is still being removed."""
Mark: TypeAlias = Literal["refund", "dispute"]
"""Why a payment for one of the account's packs was reversed. If there are several reasons, the most serious one."""

WELCOME_CREDITS = 100
PAGE_MAX = 1_000
NAME_MAX = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
GRANT_MAX = 1_000_000_000_000  # low enough that no sum can exceed 64 bits

MADE = "id, name, plan, unlimited, balance, held, created_at"
COLUMNS = f"{MADE}, state, mark, mismatch"
ADD = f"""
INSERT INTO accounts ({MADE}, pack, number, place) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?)
"""  # noqa: S608 - constants
NEXT_NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 FROM accounts"
NUMBERS_LOCK = "numbers of accounts"
READ = f"SELECT {COLUMNS} FROM accounts WHERE id = ? {{lock}}"  # noqa: S608 - constants
LIST = f"SELECT {COLUMNS} FROM accounts ORDER BY created_at, id LIMIT ?"  # noqa: S608 - constants
LIST_AFTER = f"""
SELECT {COLUMNS} FROM accounts WHERE (created_at, id) > (SELECT created_at, id FROM accounts WHERE id = ?)
ORDER BY created_at, id LIMIT ?
"""  # noqa: S608 - constants
CHANGE_PLAN = "UPDATE accounts SET plan = ? WHERE id = ?"
GRANT = """
UPDATE accounts SET balance = balance + ?, place = place + 1, version = version + 1 WHERE id = ?
"""
SET_PACK = "UPDATE accounts SET pack = ? WHERE id = ?"
READ_GRANTED = "SELECT number, place, version, balance FROM accounts WHERE id = ?"
GONE: tuple[LifeState, ...] = ("deleting", "deleted")


@dataclass(frozen=True, slots=True)
class Account:
    """A snapshot of an account. `balance` can be spent; `held` credits are reserved by open charges."""

    id: str
    name: str
    plan: Plan
    unlimited: bool
    balance: int
    held: int
    created_at: float
    state: LifeState = "active"
    mark: Mark | None = None
    mismatch: str | None = None
    """Describes the latest pack payment that was not credited because it did not match the pack's price."""


def check_name(name: str) -> None:
    """Check that the name of an account or key fits on one line of a list. Raises TermsInvalid if not."""
    if len(name) > NAME_MAX or _CONTROL.search(name):
        raise TermsInvalid(f"a name has at most {NAME_MAX} characters and no line breaks or other control characters")


class Accounts:
    """Creates, reads and credits accounts."""

    def __init__(
        self, store: Store, balances: Balances, *, now: Callable[[], float], make_id: Callable[[str], str]
    ) -> None:
        """`make_id` returns a new id that begins with the given prefix."""
        self._store = store
        self._balances = balances
        self._now = now
        self._make_id = make_id

    async def create(
        self,
        name: str,
        *,
        plan: Plan = "free",
        credits: int = WELCOME_CREDITS,  # noqa: A002 - named as in the spec
        unlimited: bool = False,
        write: Write | None = None,
    ) -> Account:
        """Create an account and record its first credits as a bonus. `write` replaces the store's own `write`.

        Raises:
            TermsInvalid: unknown plan, invalid name, or credits below 0 or above the maximum.
        """
        if plan not in get_args(Plan):
            raise TermsInvalid(f"the plan must be one of {', '.join(get_args(Plan))}")
        if not 0 <= credits <= GRANT_MAX:
            raise TermsInvalid(f"the first credits of an account must be from 0 to {GRANT_MAX}")
        if not name.strip():
            raise TermsInvalid("an account needs a name")
        check_name(name)
        account = Account(self._make_id("acc_"), name, plan, unlimited, credits, 0, self._now())
        return await (write or self._store.write)(partial(self._add, account))

    async def get(self, account_id: str) -> Account:
        """Return the account. Raises AccountUnknown."""
        return await self._store.read(partial(read_account, account_id=account_id))

    async def grant(
        self, account_id: str, amount: int, description: str = "Credit pack", *, write: Write | None = None
    ) -> int:
        """Record a purchase and return the balance after it. `write` replaces the store's own `write`.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
            TermsInvalid: the amount is not positive, or above the maximum.
        """
        if not 0 < amount <= GRANT_MAX:
            raise TermsInvalid(f"the amount must be from 1 to {GRANT_MAX} credits")
        return await (write or self._store.write)(partial(self._grant, account_id, amount, description))

    def enter_purchase(self, tx: Tx, account_id: str, amount: int, description: str) -> int:
        """Like `grant`, but inside the transaction that records the payment."""
        return self._grant(account_id, amount, description, tx)

    def enter_return(self, tx: Tx, account_id: str, amount: int, description: str) -> int:
        """Give back credits that `Charges.take_back` took. The account's last pack does not change."""
        return self._grant(account_id, amount, description, tx, is_pack=False)

    async def change_plan(self, account_id: str, plan: Plan, *, write: Write | None = None) -> Account:
        """Change the plan, effective from the account's next request. Raises AccountUnknown, AccountDeleted."""
        return await (write or self._store.write)(partial(_change_plan, account_id, plan))

    async def list(self, *, after: str | None = None, limit: int = PAGE_MAX) -> list[Account]:
        """Return up to `limit` accounts, oldest first, starting after the account `after`. Raises AccountUnknown."""
        return await self._store.read(partial(_list, after, limit))

    def _add(self, account: Account, tx: Tx) -> Account:
        tx.lock([NUMBERS_LOCK])
        number: int = tx.all(NEXT_NUMBER)[0][0]
        unlimited, credits_, at = int(account.unlimited), account.balance, account.created_at
        row = (account.id, account.name, account.plan, unlimited, credits_, at, credits_, number, int(credits_ > 0))
        tx.run(ADD, row)
        if credits_:
            welcome = _Issue(BONUS, credits_, "Welcome credits", number, 1)
            self._enter(tx, account.id, welcome, BalanceUpdate(0, credits_))
        return account

    def _grant(self, account_id: str, amount: int, description: str, tx: Tx, *, is_pack: bool = True) -> int:
        read_kept_account(tx, account_id)
        if is_pack:
            tx.run(SET_PACK, (amount, account_id))
        tx.run(GRANT, (amount, account_id))
        row = tx.one(READ_GRANTED, (account_id,))
        assert row is not None, "it is locked"
        number, place, version, balance = row
        current = BalanceUpdate(version, balance)
        self._enter(tx, account_id, _Issue(PURCHASE, amount, description, number, place), current)
        return current.balance

    def _enter(self, tx: Tx, account_id: str, issued: "_Issue", current: BalanceUpdate) -> None:
        note = Names().notes(tx, {issued.description})[issued.description]
        row = issue(
            issued.kind,
            issued.amount,
            account=issued.account,
            place=issued.place,
            balance_after=current.balance,
            note=note,
            at=micros(self._now()),
        )
        add_rows(tx, [row])
        self._balances.change(tx, {account_id: current})


class _Issue(NamedTuple):
    """Credits to add to an account. `account` is the account's number in the journal."""

    kind: int
    amount: int
    description: str
    account: int
    place: int


def read_account(tx: Tx, account_id: str) -> Account:
    """Return the account and lock it against other writers in this transaction. Raises AccountUnknown."""
    row = tx.one(READ, (account_id,))
    if row is None:
        raise AccountUnknown(account_id)
    return _account(row)


def read_kept_account(tx: Tx, account_id: str) -> Account:
    """Like `read_account`, for changes to an existing account. Raises AccountUnknown, AccountDeleted."""
    account = read_account(tx, account_id)
    if account.state in GONE:
        raise AccountDeleted(account_id)
    return account


def _change_plan(account_id: str, plan: Plan, tx: Tx) -> Account:
    read_kept_account(tx, account_id)
    tx.run(CHANGE_PLAN, (plan, account_id))
    return read_account(tx, account_id)


def _list(after: str | None, limit: int, tx: Tx) -> list[Account]:
    if after is None:
        return [_account(row) for row in tx.all(LIST, (limit,))]
    read_account(tx, after)
    return [_account(row) for row in tx.all(LIST_AFTER, (after, limit))]


def _account(row: Row) -> Account:
    id_, name, plan, unlimited, balance, held, created_at, state, mark, mismatch = row
    return Account(id_, name, plan, bool(unlimited), balance, held, created_at, state, mark, mismatch)
