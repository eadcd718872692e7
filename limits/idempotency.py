"""Idempotency claims: one key of an account, one outcome (spec 7.2 and 8, decisions 7).

A claim is running until its owner finishes it with an outcome, which is replayed for a day, or frees it. Whoever holds
it is named by a request id: a late owner whose claim was taken over changes nothing. The text of an outcome is kept
beside the claims (`limits/stored_replies.py`), in the same transaction.

Nothing here is changed once made; the classes are not frozen, since each replay makes one of each.
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
    """A request's claim on its key: `place` is its method and path, `fingerprint` covers parameters and body too."""

    account_id: str
    key: str
    place: str
    fingerprint: str
    owner: str

    @property
    def id(self) -> str:
        """The claim's row: the account and the key, in a fixed length."""
        return sha256(f"{self.account_id}\0{self.key}".encode()).hexdigest()


@dataclass(slots=True)
class StoredReply:
    """A finished outcome: its status, its text (None: too long to keep, or kept no longer), and whose it was."""

    status: int
    text: str | None
    owner: str
    cached: bool = False
    """It came from the cache, and said so."""


@dataclass(slots=True)
class ClaimRecord:
    """A claim as it stands; without a `reply` it is running since `at` (Unix seconds)."""

    account_id: str
    place: str
    fingerprint: str
    owner: str
    at: float
    reply: StoredReply | None = None
    free: bool = False
    """Its outcome cost nothing."""


def judge(held: ClaimRecord | None, claim: Claim, now: float) -> ClaimRecord | StoredReply | LimitError:
    """Judge a claim: it is taken (a new `ClaimRecord`), replays a `StoredReply`, or is refused."""
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
    """The claim with its outcome; a text over 64 KB leaves only the mark that there was one."""
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
    """The claims of these rows, as far as there are any; no other writer takes, changes or frees them meanwhile."""
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
    """Write claims as they now stand, with the texts of their outcomes; None frees the key."""
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
    """At the start of the process that owns the store: whoever ran has died, and its charges were refunded before."""
    return tx.run(DROP_RUNNING)


def free_running(tx: Tx, owners: Sequence[str]) -> None:
    """Free what these requests claimed and have not finished: the node that served them is dead."""
    tx.run_many(DROP_RUNNING_OF, [(owner,) for owner in owners])


def forget_old(tx: Tx, now: float) -> int:
    """Drop some claims whose time has passed; how many, 0 when there are none left."""
    return tx.run(DROP_OLD, (now - KEPT_S, now - KEPT_S, FORGET_AT_ONCE))


def m0001_claims(schema: Schema) -> None:
    """One row a claim; a status tells that it is finished, a status without a body that the body was too long."""
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
    """A replay says `cached` as the answer did that it repeats."""
    schema.execute("ALTER TABLE claims ADD COLUMN cached BIGINT NOT NULL DEFAULT 0 CHECK (cached IN (0, 1))")


def m0003_running(schema: Schema) -> None:
    """Add the index by which the claims of a dead node's requests are found."""
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
# Of an old claim nobody knows the account. It goes within a day, and until then nothing is gained by knowing it.
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
    """Texts stand once in a table of their own; a claim names its account, its text, and whether it was free."""
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
