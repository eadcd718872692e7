"""Records of changes with an operation id, so that a change is applied once, even if it is requested several times.

One row contains the id, a digest of the request, and the result. The row is written in the same transaction as the
change. A repeated request returns the stored result and changes nothing. The row contains no secrets: the text of a new
key is read from the key's own row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from storage.migrations import MigrationSet, Schema
from storage.store import Store, T, Tx, Write

KEPT_S = 30 * 86_400.0
FORGET_AT_ONCE = 200

READ = "SELECT fingerprint, result FROM operations WHERE id = ?"
ADD = "INSERT INTO operations (id, fingerprint, result, at) VALUES (?, ?, ?, ?)"
FORGET = """
DELETE FROM operations
WHERE at < ? AND id IN (SELECT id FROM operations WHERE at < ? ORDER BY at LIMIT ?)
"""
FORGET_ACCOUNT = "DELETE FROM operations WHERE result LIKE ?"


class OperationRepeated(Exception):
    """The operation has already run with this id. `result` is its stored result."""

    def __init__(self, result: Any) -> None:
        super().__init__("the operation was already run")
        self.result = result


class OperationIdTaken(Exception):
    """The id was already used for another operation, or with other arguments."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(f"the operation id {operation_id} was used for another operation")


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """The record of a change, except for its result. `shown` converts the result for JSON."""

    operation_id: str
    name: str
    arguments: msgspec.Struct
    shown: Callable[[Any], Any]

    @property
    def fingerprint(self) -> str:
        """Return a digest of the operation and all of its arguments."""
        return sha256(self.name.encode() + b"\0" + msgspec.json.encode(self.arguments)).hexdigest()


def recording(store: Store, record: OperationRecord, now: Callable[[], float]) -> Write:
    """Return a write function for `store` that also stores `record` in the same transaction.

    If the id is already known, the function raises OperationRepeated or OperationIdTaken, and changes nothing.
    """

    async def write(fn: Callable[[Tx], T], /) -> T:
        return await store.write(partial(_run_once, fn, record, now))

    return write


def _run_once(fn: Callable[[Tx], T], record: OperationRecord, now: Callable[[], float], tx: Tx) -> T:
    tx.lock([record.operation_id])
    done = tx.one(READ, (record.operation_id,))
    if done is not None:
        fingerprint, result = done
        if fingerprint != record.fingerprint:
            raise OperationIdTaken(record.operation_id)
        raise OperationRepeated(msgspec.json.decode(result))
    given = fn(tx)
    result = msgspec.json.encode(record.shown(given)).decode()
    tx.run(ADD, (record.operation_id, record.fingerprint, result, now()))
    return given


def forget_operations(tx: Tx, now: float) -> int:
    """Delete some expired records. Return how many were deleted; 0 if none are left."""
    return tx.run(FORGET, (now - KEPT_S, now - KEPT_S, FORGET_AT_ONCE))


def forget_operations_of(tx: Tx, account_id: str) -> int:
    """Delete the records about an account, and return how many there were.

    They may contain the names of the account and of its keys.
    """
    return tx.run(FORGET_ACCOUNT, (f'%"{account_id}"%',))


def m0001_operations(schema: Schema) -> None:
    """Create a table with one row for each used operation id."""
    schema.execute("""
    CREATE TABLE operations (
        id TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        result TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL
    )
    """)
    schema.execute("CREATE INDEX operations_by_age ON operations (at)")


MIGRATIONS = MigrationSet("operations", (m0001_operations,))
