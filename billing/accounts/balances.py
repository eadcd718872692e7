"""Keeps in memory the last committed balance of each account in use, for responses that only report the balance.

After a commit, each changed balance is published, and other nodes receive it with their next request for the account.
If two balances differ, the one with the higher account version is newer.
"""

from collections.abc import Mapping
from functools import partial

from billing.errors import AccountUnknown
from limits.gate import BalanceUpdate, Gate
from storage.store import Store, Tx

ACCOUNTS_MAX = 100_000

READ = "SELECT version, balance FROM accounts WHERE id = ?"


class Balances:
    """The last committed balance of each account in use."""

    def __init__(self, store: Store, shared: Gate | None = None) -> None:
        """`store` supplies balances that are not in memory yet; `shared` publishes changes to other nodes, if any."""
        self._store = store
        self._shared = shared
        self._latest: dict[str, BalanceUpdate] = {}

    def nowait(self, account_id: str) -> int | None:
        """Return the balance if it is in memory, otherwise None."""
        latest = self._latest.get(account_id)
        return None if latest is None else latest.balance

    async def read(self, account_id: str) -> int:
        """Return the balance, read from the store if it is not in memory.

        Raises:
            AccountUnknown: the account does not exist.
        """
        # A commit during this read may already have stored a newer balance, which `observe` keeps.
        self.observe(account_id, await self._store.read(partial(read_balance, account_id=account_id)))
        return self._latest[account_id].balance

    def change(self, tx: Tx, balances: Mapping[str, BalanceUpdate]) -> None:
        """Store these balances in memory after `tx` is committed, and publish them to the other nodes."""
        if balances:
            tx.on_commit(partial(self._keep_and_publish, balances))

    def observe(self, account_id: str, update: BalanceUpdate) -> bool:
        """Store a balance that was read or published, unless a newer one is already in memory.

        Return whether the balance changed.
        """
        latest = self._latest.get(account_id)
        if latest is not None and latest.version >= update.version:
            return False
        self._latest[account_id] = update
        if len(self._latest) > ACCOUNTS_MAX:
            del self._latest[next(iter(self._latest))]
        return latest is None or latest.balance != update.balance

    def forget_all(self) -> None:
        """Drop all balances, because any of them may have changed on another node without being published."""
        self._latest.clear()

    def _keep_and_publish(self, balances: Mapping[str, BalanceUpdate]) -> None:
        for account_id, update in balances.items():
            if self.observe(account_id, update) and self._shared is not None:
                self._shared.publish_balance(account_id, update)


def read_balance(tx: Tx, account_id: str) -> BalanceUpdate:
    """Return the balance with its version, inside a transaction. Raises AccountUnknown."""
    row = tx.one(READ, (account_id,))
    if row is None:
        raise AccountUnknown(account_id)
    return BalanceUpdate(*row)
