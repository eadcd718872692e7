"""The texts that idempotency keys replay, each stored once per account, no matter how many keys refer to it.

A reply is identified by a digest of its account and text. It is needed until the newest claim that refers to it has
expired. The reply's `kept_at` follows the time of that claim, so a reply's age alone decides when it is removed. A
reference count, which could be wrong, is not needed. A claim cannot be replayed if its reply was removed earlier
because the account stores too much (`limits/shares.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from storage.migrations import Schema
from storage.store import Tx

KEPT_S: Final = 86_400.0
"""For how many seconds a claim can be replayed."""
TOUCH_S: Final = 300.0
"""How far `kept_at` may lag behind the newest claim, so that a frequently used text is rarely rewritten."""
ROW_BYTES: Final = 512
"""The bytes added to each reply's text: about the size of its row and index entries."""
FORGET_AT_ONCE: Final = 50

# On a conflict, only an outdated `kept_at` is written.
PUT = f"""
INSERT INTO replies (id, account_id, bytes, kept_at, body) VALUES {{rows}}
ON CONFLICT (id) DO UPDATE SET kept_at = excluded.kept_at WHERE replies.kept_at < excluded.kept_at - {TOUCH_S}
"""  # noqa: S608 - constants
DROP_OLD = """
DELETE FROM replies
WHERE kept_at < ? AND id IN (SELECT id FROM replies WHERE kept_at < ? ORDER BY kept_at LIMIT ?)
"""
DROP_OF_ACCOUNT = """
DELETE FROM replies WHERE id IN (SELECT id FROM replies WHERE account_id = ? ORDER BY kept_at, id LIMIT ?)
"""


def reply_id(account_id: str, text: str) -> str:
    """Return the id of a reply."""
    return sha256(f"{account_id}\0{text}".encode()).hexdigest()


def put_replies(tx: Tx, replies: Iterable[tuple[str, str, str, float]]) -> None:
    """Store replies, given as id, account, text, and the time of the claim that refers to it.

    They are written in the order of their ids, so that two nodes cannot deadlock.
    """
    rows = {id_: (id_, account_id, len(text.encode()) + ROW_BYTES, at, text) for id_, account_id, text, at in replies}
    tx.run_many(PUT, [rows[id_] for id_ in sorted(rows)])


def forget_old_replies(tx: Tx, now: float) -> int:
    """Drop some replies that no claim can use any more. Return how many; 0 if none are left."""
    before = now - KEPT_S - TOUCH_S
    return tx.run(DROP_OLD, (before, before, FORGET_AT_ONCE))


def forget_replies_of(tx: Tx, account_id: str) -> int:
    """Drop some replies of an account, which makes their claims unreplayable. Return how many; 0 if none are left."""
    return tx.run(DROP_OF_ACCOUNT, (account_id, FORGET_AT_ONCE))


def add_replies(schema: Schema) -> None:
    """Create the table `replies`. The text is the last column, so that the other columns can be read without it."""
    schema.execute("""
    CREATE TABLE replies (
        id TEXT PRIMARY KEY,
        account_id TEXT NOT NULL,
        bytes BIGINT NOT NULL CHECK (bytes > 0),
        kept_at DOUBLE PRECISION NOT NULL,
        body TEXT NOT NULL
    )
    """)
    schema.execute("CREATE INDEX replies_by_age ON replies (kept_at)")
    schema.execute("CREATE INDEX replies_of_account ON replies (account_id, kept_at, id, bytes)")
