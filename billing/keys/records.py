"""Reads the records of keys, which do not contain the keys' texts."""

from dataclasses import dataclass

from billing.errors import KeyUnknown
from storage.store import Tx

COLUMNS = "id, account_id, name, last4, credit_limit, used, expires_at, revoked_at, created_at"
KEPT = "sealed <> ''"
"""SQL condition that excludes the keys of deleted accounts, of which only ids and counters remain for the ledger."""
READ = f"SELECT {COLUMNS} FROM keys WHERE id = ? AND {KEPT}"  # noqa: S608 - constants
OF_ACCOUNT = "account_id = ?"
AFTER = "(created_at, id) > (SELECT created_at, id FROM keys WHERE id = ?)"
LIST = f"SELECT {COLUMNS} FROM keys WHERE {{where}} ORDER BY created_at, id LIMIT ?"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as its owner sees it. `used` counts credits since the last reset.

    A `credit_limit` of None means no limit.
    """

    id: str
    account_id: str
    name: str
    last4: str
    credit_limit: int | None
    used: int
    expires_at: float | None
    revoked_at: float | None
    created_at: float


def read_key(tx: Tx, key_id: str) -> KeyRecord:
    """Return the key's record, inside a transaction. Raises KeyUnknown."""
    row = tx.one(READ, (key_id,))
    if row is None:
        raise KeyUnknown(key_id)
    return KeyRecord(*row)


def list_keys(account_id: str | None, after: str | None, limit: int, tx: Tx) -> list[KeyRecord]:
    """Return up to `limit` keys of one account or of all accounts, oldest first, after `after`. Raises KeyUnknown."""
    if after is not None:
        read_key(tx, after)
    bounds = {rule: value for rule, value in ((OF_ACCOUNT, account_id), (AFTER, after)) if value is not None}
    sql = LIST.format(where=" AND ".join((KEPT, *bounds)))
    return [KeyRecord(*row) for row in tx.all(sql, (*bounds.values(), limit))]
