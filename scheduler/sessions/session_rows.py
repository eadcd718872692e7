"""The SQL of sessions. Each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import orjson

from billing.charges.batch_rows import CloseRequest
from billing.charges.charge_rows import READ_ACCOUNTS
from billing.charges.charges import Charges
from billing.journal import identify
from scheduler.errors import SessionUnknown
from scheduler.rows import values_of
from scheduler.sessions.records import SessionRecord, used_by
from storage.store import Tx

if TYPE_CHECKING:
    from upstreams.web.browser.page import PageIds

# `charges` contains the reservations as JSON: one from the opening, and one from each extension.
WEB_SESSIONS = """
CREATE TABLE web_sessions (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL,
    url TEXT NOT NULL,
    mobile INTEGER NOT NULL CHECK (mobile IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('opening', 'open', 'closed')),
    closed_because TEXT,
    charges TEXT NOT NULL,
    held_credits BIGINT NOT NULL CHECK (held_credits >= 0),
    used_credits BIGINT NOT NULL CHECK (used_credits BETWEEN 0 AND held_credits),
    ttl_s BIGINT NOT NULL CHECK (ttl_s > 0),
    idle_s BIGINT CHECK (idle_s > 0),
    context_id TEXT,
    target_id TEXT,
    node TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    opened_at DOUBLE PRECISION,
    active_at DOUBLE PRECISION NOT NULL,
    closed_at DOUBLE PRECISION,
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK ((status = 'closed') = (closed_because IS NOT NULL)),
    CHECK (status <> 'open' OR (opened_at IS NOT NULL AND target_id IS NOT NULL)),
    CHECK (used_credits = 0 OR status = 'closed')
)
"""
SESSION_INDEXES = (
    "CREATE INDEX web_sessions_of_account ON web_sessions (account_id, created_at, id)",
    "CREATE INDEX web_sessions_live ON web_sessions (lease_until) WHERE status <> 'closed'",
    "CREATE INDEX web_sessions_closed ON web_sessions (closed_at) WHERE closed_at IS NOT NULL",
)
LEASE_S: Final = 8.0
"""How many seconds a lease lasts. The session of a dead node is closed after this time plus one polling interval."""
COLUMNS: Final = """
id, account_id, key_id, url, mobile, status, closed_because, charges, held_credits, used_credits, ttl_s, idle_s,
context_id, target_id, node, lease_until, created_at, opened_at, active_at, closed_at
"""
_values = values_of(SessionRecord)
ADD = f"INSERT INTO web_sessions ({COLUMNS}) VALUES {{rows}}"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM web_sessions WHERE id = ?"  # noqa: S608 - made of constants
LOCKED = READ + " {lock}"
LIST = f"""
SELECT {COLUMNS} FROM web_sessions WHERE account_id = ? AND (created_at < ? OR (created_at = ? AND id < ?))
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
LIVE = "SELECT COUNT(*) FROM web_sessions WHERE account_id = ? AND status <> 'closed'"
LIVE_OF_ACCOUNT = "SELECT id FROM web_sessions WHERE account_id = ? AND status <> 'closed' LIMIT 1"
OURS = f"SELECT {COLUMNS} FROM web_sessions WHERE id IN {{in}} ORDER BY id"  # noqa: S608 - made of constants
RENEW = "UPDATE web_sessions SET lease_until = ? WHERE node = ? AND status <> 'closed' AND id IN {in}"
ORPHANED = "UPDATE web_sessions SET lease_until = ? WHERE status <> 'closed'"
LOST = "SELECT id FROM web_sessions WHERE status <> 'closed' AND lease_until < ? ORDER BY lease_until LIMIT ?"
REVOKED = "SELECT id FROM keys WHERE revoked_at IS NOT NULL AND id IN {in}"
OPENED = """
UPDATE web_sessions SET status = 'open', context_id = ?, target_id = ?, opened_at = ?, active_at = ?
WHERE id = ? AND status = 'opening' AND node = ?
"""
TOUCH = "UPDATE web_sessions SET active_at = ? WHERE id = ? AND status = 'open'"
CHANGE = "UPDATE web_sessions SET ttl_s = ?, charges = ?, held_credits = ? WHERE id = ?"
CLOSE = "UPDATE web_sessions SET status = 'closed', closed_because = ?, used_credits = ?, closed_at = ? WHERE id = ?"
IS_RESERVED = "SELECT 1 FROM charges WHERE id = ?"
DROP_OLD = """
DELETE FROM web_sessions WHERE id IN (SELECT id FROM web_sessions WHERE closed_at < ? ORDER BY closed_at LIMIT ?)
"""
DROP_OF_ACCOUNT = "DELETE FROM web_sessions WHERE account_id = ? AND status = 'closed'"


def add_session(tx: Tx, session: SessionRecord) -> None:
    """Store a new session."""
    tx.run_many(ADD, [_values(session)])


def read_session(tx: Tx, session_id: str, *, locked: bool = False) -> SessionRecord | None:
    """Return the session with this id, or None."""
    row = tx.one(LOCKED if locked else READ, (session_id,))
    return None if row is None else SessionRecord(*row)


def owned(tx: Tx, account_id: str, session_id: str, *, locked: bool = False) -> SessionRecord:
    """Return the account's session.

    Raises:
        SessionUnknown: the account has no such session.
    """
    session = read_session(tx, session_id, locked=locked)
    if session is None or session.account_id != account_id:
        raise SessionUnknown(session_id)
    return session


def sessions_page(tx: Tx, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[SessionRecord]:
    """Return at most `limit` sessions of an account that are older than `before`, newest first."""
    at, id_ = before or (9e15, "")
    return [SessionRecord(*row) for row in tx.all(LIST, (account_id, at, at, id_, limit))]


def live_sessions(tx: Tx, account_id: str) -> int:
    """Return the number of an account's sessions that are not closed."""
    row = tx.one(LIVE, (account_id,))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def mark_opened(tx: Tx, session: SessionRecord, opened: PageIds, now: float) -> bool:
    """Record that the session's page is open. Return False if the session was closed before."""
    return tx.run(OPENED, (opened.context_id, opened.target_id, now, now, session.id, session.node)) == 1


def touch(tx: Tx, session_id: str, now: float) -> bool:
    """Record an action in the session. Return False if it is not open."""
    return tx.run(TOUCH, (now, session_id)) == 1


def change_time(tx: Tx, session: SessionRecord, *, ttl_s: int, charges: str, held_credits: int) -> None:
    """Save a session's new time limit and its reservations."""
    tx.run(CHANGE, (ttl_s, charges, held_credits, session.id))


def renew(tx: Tx, session_ids: Sequence[str], node: str, leases_at: float) -> list[SessionRecord]:
    """Extend the leases of these sessions of a node, and return all of them in their current state."""
    tx.run_in(RENEW, session_ids, (leases_at + LEASE_S, node))
    return [SessionRecord(*row) for row in tx.all_in(OURS, session_ids)]


def revoked_keys(tx: Tx, key_ids: Sequence[str]) -> set[str]:
    """Return the given keys that are revoked."""
    return {row[0] for row in tx.all_in(REVOKED, key_ids)}


def orphan_sessions(tx: Tx, leases_at: float) -> int:
    """Expire all leases, and return their number. Only for a store that one process owns and has just opened."""
    return tx.run(ORPHANED, (leases_at - LEASE_S,))


def lost_sessions(tx: Tx, leases_at: float, limit: int) -> list[str]:
    """Return sessions whose lease has expired."""
    return [row[0] for row in tx.all(LOST, (leases_at, limit))]


def settle(tx: Tx, charges: Charges, session_id: str, *, ended_at: float, because: str) -> SessionRecord | None:
    """Close a session in the caller's transaction: charge its time, and refund the rest of its reservations.

    Return None if the session was closed before.
    """
    known = read_session(tx, session_id)
    if known is None:
        return None
    tx.all_in(READ_ACCOUNTS, [known.account_id])  # lock the account before its rows
    session = read_session(tx, session_id, locked=True)
    if session is None or session.is_over:
        return None
    used = left = used_by(session, ended_at, because)
    for request_id, credits_, key_id in orjson.loads(session.charges):
        if tx.one(IS_RESERVED, (identify(request_id)[1],)) is not None:
            part = min(left, credits_)
            charges.release(tx, CloseRequest(request_id, session.account_id, key_id, part))
            left -= part
    tx.run(CLOSE, (because, used - left, ended_at, session.id))
    return replace(session, status="closed", closed_because=because, used_credits=used - left, closed_at=ended_at)


def close_sessions_of(tx: Tx, account_id: str, *, charges: Charges, now: float) -> int:
    """Close one session of a deleted account. Return 0 if the account has no open sessions left."""
    row = tx.one(LIVE_OF_ACCOUNT, (account_id,))
    if row is None:
        return 0
    settle(tx, charges, row[0], ended_at=now, because="account_deleted")
    return 1


def forget_sessions_of(tx: Tx, account_id: str) -> int:
    """Delete the closed sessions of a deleted account. Return 0 once none are left."""
    return tx.run(DROP_OF_ACCOUNT, (account_id,))


def drop_old_sessions(tx: Tx, before: float, limit: int) -> int:
    """Delete a batch of sessions that were closed before the time `before`, and return their number."""
    return tx.run(DROP_OLD, (before, limit))
