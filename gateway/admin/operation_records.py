"""Changes that were done under an operation id: each is done once, however often it is asked for.

The id, what it was used for and what came of it are one row, written in the transaction of the change itself. A repeat
is given the row's result and changes nothing. Nothing secret is in it: a new key's text is revealed from its own row.
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
    """The operation was done before under this id; `result` came of it then."""

    def __init__(self, result: Any) -> None:
        super().__init__("the operation was done before")
        self.result = result


class OperationIdTaken(Exception):
    """The id was used for another operation, or with other arguments."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(f"the operation id {operation_id} was used for something else")


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """The record of a change, but for its result; `shown` makes that ready for JSON."""

    operation_id: str
    name: str
    arguments: msgspec.Struct
    shown: Callable[[Any], Any]

    @property
    def fingerprint(self) -> str:
        """A digest of what the id stands for: the operation and all its arguments."""
        return sha256(self.name.encode() + b"\0" + msgspec.json.encode(self.arguments)).hexdigest()


def recording(store: Store, record: OperationRecord, now: Callable[[], float]) -> Write:
    """Writes to `store`, and `record` in the same transaction.

    What it gives raises OperationRepeated or OperationIdTaken where the id is known; then nothing happened.
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
    """Drop some records of long ago; how many, 0 when there are none left."""
    return tx.run(FORGET, (now - KEPT_S, now - KEPT_S, FORGET_AT_ONCE))


def forget_operations_of(tx: Tx, account_id: str) -> int:
    """Drop the records whose results name an account, and with it perhaps its name and its keys'; how many."""
    return tx.run(FORGET_ACCOUNT, (f'%"{account_id}"%',))


def m0001_operations(schema: Schema) -> None:
    """One row for each operation id that was used."""
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
