"""Balances in memory, for answers that only report them: the last committed value of each account in use.

It is exact because one process owns the store: whoever changes a balance says so after the commit, in commit order.
"""

from collections.abc import Mapping
from functools import partial

from billing.errors import AccountUnknown
from storage.store import Store, Tx

ACCOUNTS_MAX = 100_000


class Balances:
    """The last committed balances."""

    def __init__(self, store: Store) -> None:
        """Balances that are not known yet are read from `store`."""
        self._store = store
        self._known: dict[str, int] = {}

    def nowait(self, account_id: str) -> int | None:
        """The balance, if it is in memory."""
        return self._known.get(account_id)

    async def read(self, account_id: str) -> int:
        """The balance, from the store when it is not in memory.

        Raises:
            AccountUnknown: there is no such account.
        """
        row = await self._store.read(lambda tx: tx.one("SELECT balance FROM accounts WHERE id = ?", (account_id,)))
        if row is None:
            raise AccountUnknown(account_id)
        # What was committed while the store was being read is newer than what was read.
        balance = self._known.get(account_id, int(row[0]))
        self._note({account_id: balance})
        return balance

    def change(self, tx: Tx, balances: Mapping[str, int]) -> None:
        """Know these balances as soon as `tx` is committed."""
        if balances:
            tx.on_commit(partial(self._note, balances))

    def _note(self, balances: Mapping[str, int]) -> None:
        self._known.update(balances)
        while len(self._known) > ACCOUNTS_MAX:
            del self._known[next(iter(self._known))]
