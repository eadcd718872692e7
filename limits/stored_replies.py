"""The texts that idempotency keys replay, each kept once for an account however many of its keys name it.

A reply is named by a digest of its account and its text. It is needed until the newest claim that names it has
expired, so its `kept_at` follows that claim and its age alone says when it goes: no count of references could be wrong.
A claim whose reply has gone before it, since the account keeps too much (`limits/shares.py`), cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from storage.migrations import Schema
from storage.store import Tx

KEPT_S: Final = 86_400.0
"""For how long a claim is replayed."""
TOUCH_S: Final = 300.0
"""The most that `kept_at` may lag behind the newest claim: a text that is named again and again is not written anew."""
ROW_BYTES: Final = 512
"""A reply counts for so much beside its text: about what its row and its places in the indexes take."""
FORGET_AT_ONCE: Final = 50

# On a conflict nothing is written but a late `kept_at`.
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
    """The name of a reply."""
    return sha256(f"{account_id}\0{text}".encode()).hexdigest()


def put_replies(tx: Tx, replies: Iterable[tuple[str, str, str, float]]) -> None:
    """Keep replies, given as id, account, text, and the instant of the claim that names it.

    They are written in the order of their ids, so that two nodes do not wait for each other.
    """
    rows = {id_: (id_, account_id, len(text.encode()) + ROW_BYTES, at, text) for id_, account_id, text, at in replies}
    tx.run_many(PUT, [rows[id_] for id_ in sorted(rows)])


def forget_old_replies(tx: Tx, now: float) -> int:
    """Drop some replies that no claim can name any more; how many, 0 when there are none left."""
    before = now - KEPT_S - TOUCH_S
    return tx.run(DROP_OLD, (before, before, FORGET_AT_ONCE))


def forget_replies_of(tx: Tx, account_id: str) -> int:
    """Drop some replies of an account, whose claims replay nothing any more; how many, 0 when none are left."""
    return tx.run(DROP_OF_ACCOUNT, (account_id, FORGET_AT_ONCE))


def add_replies(schema: Schema) -> None:
    """The table. The text stands last, so that the rest of a row is read without it."""
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
