"""The life of an account: active, suspended and resumed, deleted.

A change counts on the very next request, on all nodes, as a change of a key does (`billing.keys.changing`): the key
look-up tells of a suspended account, and a deleted one's keys are revoked, so no request has more to read. What
needs no look-up, such as a Monitor's run, is refused by its charge, which reads the account's row anyway. What was
begun before goes on, and its charge is closed for what it cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from billing.accounts.accounts import GONE, Account, LifeState, read_account, read_kept_account
from billing.billing_events import SILENT, BillingEvents
from billing.keys.changing import KeyChanges, TouchedKey
from billing.keys.records import read_key
from storage.migrations import Schema
from storage.store import Store, Tx, Write

ADD_STATE: Final = """
ALTER TABLE accounts ADD COLUMN state TEXT NOT NULL DEFAULT 'active'
    CHECK (state IN ('active', 'suspended', 'deleting', 'deleted'))
"""
SET_STATE: Final = "UPDATE accounts SET state = ? WHERE id = ?"
ERASE_NAME: Final = "UPDATE accounts SET state = 'deleting', name = '' WHERE id = ?"
FIND_USABLE: Final = "SELECT id, account_id, hash FROM keys WHERE account_id = ? AND revoked_at IS NULL ORDER BY id"
# The hash is unique, and no text has this one.
ERASE_KEYS: Final = """
UPDATE keys SET revoked_at = COALESCE(revoked_at, ?), name = '', sealed = '', last4 = '', hash = 'erased ' || id
WHERE account_id = ?
"""
FIND_DELETING: Final = "SELECT id FROM accounts WHERE state = 'deleting' ORDER BY id"
END_DELETION: Final = "UPDATE accounts SET state = 'deleted' WHERE id = ? AND state = 'deleting' AND held = 0"


class Lifecycle:
    """Suspends, resumes and deletes accounts. Twice is as good as once."""

    def __init__(
        self,
        store: Store,
        changes: KeyChanges,
        *,
        now: Callable[[], float],
        billing_events: BillingEvents = SILENT,
    ) -> None:
        """`changes` makes those of keys, so that every node looks them up anew."""
        self._store = store
        self._changes = changes
        self._now = now
        self._billing_events = billing_events

    async def suspend(self, account_id: str, *, write: Write | None = None) -> Account:
        """Let nothing of the account begin until it is resumed; what it has stays as it is.

        Raises:
            AccountUnknown, AccountDeleted: there is no such account any more.
        """
        return await self._change_state(
            account_id, "active", "suspended", self._billing_events.account_suspended, write
        )

    async def resume(self, account_id: str, *, write: Write | None = None) -> Account:
        """Make a suspended account active again.

        Raises:
            AccountUnknown, AccountDeleted: there is no such account any more.
        """
        return await self._change_state(account_id, "suspended", "active", self._billing_events.account_resumed, write)

    async def _change_state(
        self, account_id: str, old: LifeState, new: LifeState, publish: Callable[[Tx, str], None], write: Write | None
    ) -> Account:
        """Bring an account from one state to another and publish that; one in any other stays as it is."""

        def change(tx: Tx) -> Account:
            if read_kept_account(tx, account_id).state == old:
                tx.run(SET_STATE, (new, account_id))
                publish(tx, account_id)
            return read_account(tx, account_id)

        return await self._changes.run(partial(_find_usable, account_id), change, write)

    async def delete(self, account_id: str, *, write: Write | None = None) -> Account:
        """Revoke its keys and erase its name and theirs, for good; its ledger stays, and its balance in it.

        The rest of its data is removed by whoever calls `list_deleting`, and `end_deletion` after that.

        Raises:
            AccountUnknown: there is no such account.
        """
        now = self._now()

        def change(tx: Tx) -> Account:
            if read_account(tx, account_id).state not in GONE:
                tx.run(ERASE_NAME, (account_id,))
                for key in _find_usable(account_id, tx):
                    self._billing_events.key_revoked(tx, read_key(tx, key.id))  # which ends its polls
                tx.run(ERASE_KEYS, (now, account_id))
            return read_account(tx, account_id)

        return await self._changes.run(partial(_find_usable, account_id), change, write)


def _find_usable(account_id: str, tx: Tx) -> list[TouchedKey]:
    """The account's keys that are not revoked; it is locked, so that none is made beside. Raises AccountUnknown."""
    read_account(tx, account_id)
    return [TouchedKey(*row) for row in tx.all(FIND_USABLE, (account_id,))]


def list_deleting(tx: Tx) -> list[str]:
    """The accounts that are deleted, and of which there may be data left."""
    return [row[0] for row in tx.all(FIND_DELETING)]


def end_deletion(tx: Tx, account_id: str) -> bool:
    """Say that nothing is left of a deleted account; False: a charge is open still, so something may come yet."""
    return tx.run(END_DELETION, (account_id,)) == 1


def m0009_account_states(schema: Schema) -> None:
    """Whether an account may be used; a deleted one is `deleting` until all but its ledger is removed."""
    schema.execute(ADD_STATE)
    schema.execute("CREATE INDEX accounts_deleting ON accounts (id) WHERE state = 'deleting'")
