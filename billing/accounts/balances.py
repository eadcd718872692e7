"""Balances in memory, for answers that only report them: the last committed value of each account in use.

Whoever changes a balance says so after the commit, and tells the other nodes, if there are any; they hear of it with
their next request of the account. Of two values the one with the account's higher version is the newer.
"""

from collections.abc import Mapping
from functools import partial

from billing.errors import AccountUnknown
from limits.gate import BalanceUpdate, Gate
from storage.store import Store, Tx

ACCOUNTS_MAX = 100_000

READ = "SELECT version, balance FROM accounts WHERE id = ?"


class Balances:
    """The last committed balances."""

    def __init__(self, store: Store, shared: Gate | None = None) -> None:
        """Balances that are not known yet are read from `store`; `shared` tells the other nodes, if there are any."""
        self._store = store
        self._shared = shared
        self._known: dict[str, BalanceUpdate] = {}

    def nowait(self, account_id: str) -> int | None:
        """The balance, if it is in memory."""
        known = self._known.get(account_id)
        return None if known is None else known.balance

    async def read(self, account_id: str) -> int:
        """The balance, from the store when it is not in memory.

        Raises:
            AccountUnknown: there is no such account.
        """
        # What was committed while the store was being read is newer than what was read, and may stand already.
        self.hear(account_id, await self._store.read(partial(read_balance, account_id=account_id)))
        return self._known[account_id].balance

    def change(self, tx: Tx, balances: Mapping[str, BalanceUpdate]) -> None:
        """Know these balances as soon as `tx` is committed, and tell the other nodes."""
        if balances:
            tx.on_commit(partial(self._note, balances))

    def hear(self, account_id: str, told: BalanceUpdate) -> bool:
        """Know what was read or told elsewhere, unless something newer is known; whether the balance is another."""
        known = self._known.get(account_id)
        if known is not None and known.version >= told.version:
            return False
        self._known[account_id] = told
        if len(self._known) > ACCOUNTS_MAX:
            del self._known[next(iter(self._known))]
        return known is None or known.balance != told.balance

    def forget_all(self) -> None:
        """Any balance may have been changed elsewhere without a word."""
        self._known.clear()

    def _note(self, balances: Mapping[str, BalanceUpdate]) -> None:
        for account_id, told in balances.items():
            if self.hear(account_id, told) and self._shared is not None:
                self._shared.tell_balance(account_id, told)


def read_balance(tx: Tx, account_id: str) -> BalanceUpdate:
    """The balance with its version, inside a transaction. Raises AccountUnknown."""
    row = tx.one(READ, (account_id,))
    if row is None:
        raise AccountUnknown(account_id)
    return BalanceUpdate(*row)
