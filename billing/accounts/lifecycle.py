"""The life cycle of an account: active, suspended, resumed, deleted.

A change takes effect with the very next request on all nodes, like a change to a key (`billing.keys.changing`). The key
look-up reports a suspended account, and the keys of a deleted account are revoked, so requests need no extra read. Work
without a key look-up, such as a Monitor's run, is refused by its charge, which reads the account's row anyway. Work
that began before the change continues, and its charge is settled for what the work cost.
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
# The hash column is unique, and no key text hashes to this value.
ERASE_KEYS: Final = """
UPDATE keys SET revoked_at = COALESCE(revoked_at, ?), name = '', sealed = '', last4 = '', hash = 'erased ' || id
WHERE account_id = ?
"""
FIND_DELETING: Final = "SELECT id FROM accounts WHERE state = 'deleting' ORDER BY id"
END_DELETION: Final = "UPDATE accounts SET state = 'deleted' WHERE id = ? AND state = 'deleting' AND held = 0"


class Lifecycle:
    """Suspends, resumes and deletes accounts. All operations are idempotent."""

    def __init__(
        self,
        store: Store,
        changes: KeyChanges,
        *,
        now: Callable[[], float],
        billing_events: BillingEvents = SILENT,
    ) -> None:
        """`changes` makes every node look up the affected keys again."""
        self._store = store
        self._changes = changes
        self._now = now
        self._billing_events = billing_events

    async def suspend(self, account_id: str, *, write: Write | None = None) -> Account:
        """Block new work of the account until it is resumed. Its data, keys and credits stay unchanged.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
        """
        return await self._change_state(
            account_id, "active", "suspended", self._billing_events.account_suspended, write
        )

    async def resume(self, account_id: str, *, write: Write | None = None) -> Account:
        """Make a suspended account active again.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
        """
        return await self._change_state(account_id, "suspended", "active", self._billing_events.account_resumed, write)

    async def _change_state(
        self, account_id: str, old: LifeState, new: LifeState, publish: Callable[[Tx, str], None], write: Write | None
    ) -> Account:
        """Change the account's state from `old` to `new` and publish the change.

        Accounts in other states stay unchanged.
        """

        def change(tx: Tx) -> Account:
            if read_kept_account(tx, account_id).state == old:
                tx.run(SET_STATE, (new, account_id))
                publish(tx, account_id)
            return read_account(tx, account_id)

        return await self._changes.run(partial(_find_usable, account_id), change, write)

    async def delete(self, account_id: str, *, write: Write | None = None) -> Account:
        """Revoke the account's keys and erase its name and theirs, permanently. Its ledger and its balance remain.

        The caller removes the rest of the account's data: it finds the accounts with `list_deleting` and completes each
        one with `end_deletion`.

        Raises:
            AccountUnknown: the account does not exist.
        """
        now = self._now()

        def change(tx: Tx) -> Account:
            if read_account(tx, account_id).state not in GONE:
                tx.run(ERASE_NAME, (account_id,))
                for key in _find_usable(account_id, tx):
                    self._billing_events.key_revoked(tx, read_key(tx, key.id))  # ends the long polls that use the key
                tx.run(ERASE_KEYS, (now, account_id))
            return read_account(tx, account_id)

        return await self._changes.run(partial(_find_usable, account_id), change, write)


def _find_usable(account_id: str, tx: Tx) -> list[TouchedKey]:
    """Lock the account, so that no key can be added, and return its unrevoked keys. Raises AccountUnknown."""
    read_account(tx, account_id)
    return [TouchedKey(*row) for row in tx.all(FIND_USABLE, (account_id,))]


def list_deleting(tx: Tx) -> list[str]:
    """Return the deleted accounts that may still have data to remove."""
    return [row[0] for row in tx.all(FIND_DELETING)]


def end_deletion(tx: Tx, account_id: str) -> bool:
    """Mark the deletion as complete and return True, or return False while an open charge could still produce data."""
    return tx.run(END_DELETION, (account_id,)) == 1


def m0009_account_states(schema: Schema) -> None:
    """Add a state to accounts. A deleted account is `deleting` until everything except its ledger is removed."""
    schema.execute(ADD_STATE)
    schema.execute("CREATE INDEX accounts_deleting ON accounts (id) WHERE state = 'deleting'")
