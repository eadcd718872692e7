"""Idempotency claims: one key of an account, one outcome (spec 7.2 and 8, decisions 7).

A claim is running until its owner either finishes it with an outcome, which is replayed for a day, or frees it. The
owner is identified by a request id. After a takeover of the claim, the previous owner cannot change it any more. The
text of an outcome is stored separately (`limits/stored_replies.py`), in the same transaction.

Instances are never changed after creation. The classes are not frozen, because each replay creates one of each, and
frozen instances cost more to create.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from limits.errors import ClaimConflict, ClaimInProgress, ClaimMismatch, LimitError, ReplayUnavailable
from limits.stored_replies import KEPT_S, add_replies, put_replies, reply_id
from storage.migrations import MigrationSet, Schema
from storage.store import Tx

UNFINISHED_S = 300.0
REPLAY_BYTES_MAX = 65_536
FORGET_AT_ONCE = 200


@dataclass(slots=True)
class Claim:
    """A request's claim on its key. `place` is the method and path; `fingerprint` also covers parameters and body."""

    account_id: str
    key: str
    place: str
    fingerprint: str
    owner: str

    @property
    def id(self) -> str:
        """The id of the claim's row: a text of fixed length, derived from the account and the key."""
        return sha256(f"{self.account_id}\0{self.key}".encode()).hexdigest()


@dataclass(slots=True)
class StoredReply:
    """A finished outcome: status, text (None if it was too long or is no longer stored), and request id (`owner`)."""

    status: int
    text: str | None
    owner: str
    cached: bool = False
    """Whether the answer came from the cache and was marked as such."""


@dataclass(slots=True)
class ClaimRecord:
    """The stored state of a claim. Without a `reply`, it has been running since `at` (Unix seconds)."""

    account_id: str
    place: str
    fingerprint: str
    owner: str
    at: float
    reply: StoredReply | None = None
    free: bool = False
    """Whether the outcome cost nothing."""


def judge(held: ClaimRecord | None, claim: Claim, now: float) -> ClaimRecord | StoredReply | LimitError:
    """Return a new `ClaimRecord` if the key is free, the `StoredReply` to replay, or the error to raise."""
    if held is None or now - held.at >= (UNFINISHED_S if held.reply is None else KEPT_S):
        return ClaimRecord(claim.account_id, claim.place, claim.fingerprint, claim.owner, now)
    if held.fingerprint != claim.fingerprint:
        if held.reply is None and held.place != claim.place:
            return ClaimConflict()
        return ClaimMismatch()
    if held.reply is None:
        return ClaimInProgress()
    return ReplayUnavailable() if held.reply.text is None else held.reply


def finished(held: ClaimRecord, reply: StoredReply, now: float, *, free: bool) -> ClaimRecord:
    """Return the claim with its outcome. If the text exceeds 64 KB, only the status is stored."""
    text = reply.text if reply.text is not None and len(reply.text.encode()) <= REPLAY_BYTES_MAX else None
    return replace(held, reply=replace(reply, text=text), at=now, free=free)


READ = """
SELECT claims.id, claims.account_id, place, fingerprint, owner, at, free, status, body, cached
FROM claims LEFT JOIN replies ON replies.id = claims.reply WHERE claims.id IN {in}
"""
SAVE = """
INSERT INTO claims (id, account_id, place, fingerprint, owner, at, free, status, reply, cached) VALUES {rows}
ON CONFLICT (id) DO UPDATE SET place = excluded.place, fingerprint = excluded.fingerprint, owner = excluded.owner,
    at = excluded.at, free = excluded.free, status = excluded.status, reply = excluded.reply, cached = excluded.cached
"""
DROP = """
WITH freed (id) AS (VALUES {rows})
DELETE FROM claims WHERE id IN (SELECT id FROM freed)
"""
DROP_RUNNING = "DELETE FROM claims WHERE status IS NULL"
DROP_RUNNING_OF = """
WITH dead (request_id) AS (VALUES {rows})
DELETE FROM claims WHERE status IS NULL AND owner IN (SELECT request_id FROM dead)
"""
DROP_OLD = "DELETE FROM claims WHERE at < ? AND id IN (SELECT id FROM claims WHERE at < ? ORDER BY at LIMIT ?)"


def read_claims(tx: Tx, ids: Sequence[str]) -> dict[str, ClaimRecord]:
    """Return the claims with these ids and lock them against other writers."""
    tx.lock(ids)
    return {
        id_: ClaimRecord(
            account_id,
            place,
            fingerprint,
            owner,
            at,
            None if status is None else StoredReply(status, body, owner, bool(cached)),
            bool(free),
        )
        for id_, account_id, place, fingerprint, owner, at, free, status, body, cached in tx.all_in(READ, ids)
    }


def save_claims(tx: Tx, claims: dict[str, ClaimRecord | None]) -> None:
    """Write the claims with the texts of their outcomes. None frees the key."""
    replies, rows = [], []
    for id_, one in claims.items():
        if one is None:
            continue
        status, reply, cached = None, None, 0
        if one.reply is not None:
            status, cached = one.reply.status, int(one.reply.cached)
            if (text := one.reply.text) is not None:
                reply = reply_id(one.account_id, text)
                replies.append((reply, one.account_id, text, one.at))
        row = (one.account_id, one.place, one.fingerprint, one.owner, one.at, int(one.free))
        rows.append((id_, *row, status, reply, cached))
    put_replies(tx, replies)
    tx.run_many(SAVE, rows)
    tx.run_many(DROP, [(id_,) for id_, one in claims.items() if one is None])


def forget_running(tx: Tx) -> int:
    """Drop all running claims. Their requests died with the previous process and were refunded. Return how many."""
    return tx.run(DROP_RUNNING)


def free_running(tx: Tx, owners: Sequence[str]) -> None:
    """Free the unfinished claims of these requests, whose node is dead."""
    tx.run_many(DROP_RUNNING_OF, [(owner,) for owner in owners])


def forget_old(tx: Tx, now: float) -> int:
    """Drop some expired claims. Return how many; 0 if none are left."""
    return tx.run(DROP_OLD, (now - KEPT_S, now - KEPT_S, FORGET_AT_ONCE))


def m0001_claims(schema: Schema) -> None:
    """Create `claims`, with one row per claim.

    A row with a status is finished. If it has a status but no body, the body was too long to keep.
    """
    schema.execute("""
    CREATE TABLE claims (
        id TEXT PRIMARY KEY,
        place TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        owner TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        status BIGINT CHECK (status BETWEEN 200 AND 499),
        body TEXT,
        CHECK (body IS NULL OR status IS NOT NULL)
    )
    """)
    schema.execute("CREATE INDEX claims_by_age ON claims (at)")


def m0002_cached(schema: Schema) -> None:
    """Add the column `cached`, so that the replay of an answer from the cache is also marked as cached."""
    schema.execute("ALTER TABLE claims ADD COLUMN cached BIGINT NOT NULL DEFAULT 0 CHECK (cached IN (0, 1))")


def m0003_running(schema: Schema) -> None:
    """Add the index that finds the claims of a dead node's requests."""
    schema.execute("CREATE INDEX claims_running ON claims (owner) WHERE status IS NULL")


CLAIMS = """
CREATE TABLE claims (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    place TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    owner TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    free BIGINT NOT NULL CHECK (free IN (0, 1)),
    status BIGINT CHECK (status BETWEEN 200 AND 499),
    reply TEXT,
    cached BIGINT NOT NULL CHECK (cached IN (0, 1)),
    CHECK (status IS NOT NULL OR (reply IS NULL AND free = 0))
)
"""
# The account of an old claim is unknown, and is not needed because old claims expire within a day.
MOVE_CLAIMS = """
INSERT INTO claims (id, account_id, place, fingerprint, owner, at, free, status, reply, cached)
SELECT id, '', place, fingerprint, owner, at, 0, status, CASE WHEN body IS NULL THEN NULL ELSE id END, cached
FROM old_claims
"""
MOVE_REPLIES = """
INSERT INTO replies (id, account_id, bytes, kept_at, body)
SELECT id, '', LENGTH(body) + 512, at, body FROM old_claims WHERE body IS NOT NULL
"""


def m0004_replies(schema: Schema) -> None:
    """Move the texts to a table of their own. Add the account, the id of the text, and `free` to `claims`."""
    add_replies(schema)
    schema.execute("DROP INDEX claims_by_age")
    schema.execute("DROP INDEX claims_running")
    schema.execute("ALTER TABLE claims RENAME TO old_claims")
    for statement in (CLAIMS, MOVE_CLAIMS, MOVE_REPLIES):
        schema.execute(statement)
    schema.execute("DROP TABLE old_claims")
    schema.execute("CREATE INDEX claims_by_age ON claims (at)")
    schema.execute("CREATE INDEX claims_running ON claims (owner) WHERE status IS NULL")
    schema.execute("CREATE INDEX claims_free ON claims (account_id, at, id) WHERE free = 1")


MIGRATIONS = MigrationSet("limits", (m0001_claims, m0002_cached, m0003_running, m0004_replies))
