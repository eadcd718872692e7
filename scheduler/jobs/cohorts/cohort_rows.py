"""The SQL of cohorts, their keys and members; each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.errors import CohortUnknown
from scheduler.jobs.cohorts.sealing import ZEROS
from storage.store import Tx

COLUMNS: Final = """
id, account_id, name, retention_days, member_count, created_at, updated_at, expires_at
"""
ADD = f"INSERT INTO cohorts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - made of constants
ADD_KEY = "INSERT INTO cohort_keys (cohort_id, kept) VALUES (?, ?)"
READ = f"""
SELECT {COLUMNS} FROM cohorts WHERE id = ? AND account_id = ? AND destroyed_at IS NULL AND expires_at > ?
"""  # noqa: S608 - made of constants
LOCKED = READ + " {lock}"
LIST = f"""
SELECT {COLUMNS} FROM cohorts WHERE account_id = ? AND destroyed_at IS NULL AND expires_at > ?
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
READ_KEY = "SELECT kept FROM cohort_keys WHERE cohort_id = ?"
READ_KEYS = "SELECT cohort_id, kept FROM cohort_keys WHERE cohort_id IN {in}"
COUNT = "SELECT COUNT(*) FROM cohorts WHERE account_id = ? AND destroyed_at IS NULL AND expires_at > ?"
RENEW = "UPDATE cohorts SET member_count = member_count + ?, updated_at = ?, expires_at = ? WHERE id = ?"

FIND_MEMBERS = "SELECT identity, external FROM cohort_members WHERE identity IN {in}"
ADD_MEMBERS = """
INSERT INTO cohort_members (cohort_id, number, id, platform, identity, external, sealed) VALUES {rows}
"""
NAME_MEMBER = "UPDATE cohort_members SET external = ?, sealed = ? WHERE identity = ?"
PLATFORMS = "SELECT number, platform FROM cohort_members WHERE cohort_id = ? ORDER BY number"
MEMBERS = """
SELECT number, id, platform, identity, sealed FROM cohort_members
WHERE cohort_id = ? AND number BETWEEN ? AND ? ORDER BY number
"""

EXPIRED = (
    "SELECT id, account_id FROM cohorts WHERE destroyed_at IS NULL AND expires_at <= ? ORDER BY expires_at LIMIT 1"
)
OF_ACCOUNT = "SELECT id FROM cohorts WHERE account_id = ? AND destroyed_at IS NULL LIMIT 1"
LOCK_ANY = "SELECT id FROM cohorts WHERE id = ? AND destroyed_at IS NULL {lock}"
# There are as many zeros as bytes in the key, so that they overwrite it in place before its row is deleted.
ZERO_KEY = "UPDATE cohort_keys SET kept = ? WHERE cohort_id = ?"
DROP_KEY = "DELETE FROM cohort_keys WHERE cohort_id = ?"
DESTROY = "UPDATE cohorts SET destroyed_at = ?, name = NULL WHERE id = ?"
DESTROYED = "SELECT id FROM cohorts WHERE destroyed_at IS NOT NULL ORDER BY destroyed_at, id LIMIT ?"
DROP_MEMBERS = """
DELETE FROM cohort_members WHERE cohort_id = ?
AND number IN (SELECT number FROM cohort_members WHERE cohort_id = ? ORDER BY number LIMIT ?)
"""
DROP = "DELETE FROM cohorts WHERE destroyed_at IS NOT NULL AND id IN {in}"


class CohortRecord(NamedTuple):
    """The stored row of a cohort."""

    id: str
    account_id: str
    name: bytes | None
    retention_days: int
    member_count: int
    created_at: float
    updated_at: float
    expires_at: float


class MemberRecord(NamedTuple):
    """The stored row of a member."""

    number: int
    id: str
    platform: str
    identity: bytes
    sealed: bytes


class NewMember(NamedTuple):
    """A member to store: its platform, the digests of its account and its external id, and both ids in sealed form."""

    platform: str
    identity: bytes
    external: bytes | None
    sealed: bytes


def add_cohort(tx: Tx, cohort: CohortRecord, kept: bytes) -> None:
    """Store a new cohort with its key."""
    tx.run(ADD, cohort)
    tx.run(ADD_KEY, (cohort.id, kept))


def count_cohorts(tx: Tx, account_id: str, now: float) -> int:
    """Return the number of cohorts of an account."""
    row = tx.one(COUNT, (account_id, now))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def owned(tx: Tx, account_id: str, cohort_id: str, now: float, *, locked: bool = False) -> CohortRecord:
    """Return the cohort of an account.

    Raises:
        CohortUnknown: the account has no such cohort, or the cohort's retention period has ended.
    """
    row = tx.one(LOCKED if locked else READ, (cohort_id, account_id, now))
    if row is None:
        raise CohortUnknown(cohort_id)
    return CohortRecord(*row)


def cohorts_of(tx: Tx, account_id: str, now: float, limit: int) -> list[CohortRecord]:
    """Return the cohorts of an account, newest first."""
    return [CohortRecord(*row) for row in tx.all(LIST, (account_id, now, limit))]


def read_key(tx: Tx, cohort_id: str) -> bytes | None:
    """Return the stored key of a cohort, or None if it was destroyed."""
    row = tx.one(READ_KEY, (cohort_id,))
    return None if row is None else bytes(row[0])


def read_keys(tx: Tx, cohort_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the stored keys of the given cohorts, except destroyed ones."""
    return {cohort_id: bytes(kept) for cohort_id, kept in tx.all_in(READ_KEYS, cohort_ids)}


def renew(tx: Tx, cohort: CohortRecord, now: float, *, added: int = 0) -> None:
    """Add to the member count of a cohort, and restart its retention period."""
    tx.run(RENEW, (added, now, now + cohort.retention_days * 86_400.0, cohort.id))


def known_members(tx: Tx, identities: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
    """Return the digests of the external ids of the given accounts, for accounts that are already members."""
    return {bytes(one): external and bytes(external) for one, external in tx.all_in(FIND_MEMBERS, identities)}


def add_members(tx: Tx, cohort: CohortRecord, members: Sequence[NewMember], ids: Sequence[str]) -> None:
    """Store new members after the existing ones."""
    first = cohort.member_count + 1
    rows = [
        (cohort.id, number, id_, one.platform, one.identity, one.external, one.sealed)
        for number, (id_, one) in enumerate(zip(ids, members, strict=True), first)
    ]
    tx.run_many(ADD_MEMBERS, rows)


def name_member(tx: Tx, member: NewMember) -> None:
    """Set the external id of a member that had none."""
    tx.run(NAME_MEMBER, (member.external, member.sealed, member.identity))


def member_platforms(tx: Tx, cohort_id: str) -> list[tuple[int, str]]:
    """Return the number and the platform of each member, in order."""
    return [(number, platform) for number, platform in tx.all(PLATFORMS, (cohort_id,))]


def members_between(tx: Tx, cohort_id: str, first: int, last: int) -> list[MemberRecord]:
    """Return the members numbered from `first` to `last`, in order."""
    return [MemberRecord(*row) for row in tx.all(MEMBERS, (cohort_id, first, last))]


def next_expired(tx: Tx, at: float) -> tuple[str, str] | None:
    """Return the ids of a cohort whose retention period has ended and of its account, or None."""
    row = tx.one(EXPIRED, (at,))
    return None if row is None else (row[0], row[1])


def cohort_of(tx: Tx, account_id: str) -> str | None:
    """Return the id of one cohort of the account that is not destroyed, or None."""
    row = tx.one(OF_ACCOUNT, (account_id,))
    return None if row is None else str(row[0])


def lock_any(tx: Tx, cohort_id: str) -> bool:
    """Lock a cohort of any account. Return False if the cohort was destroyed."""
    return tx.one(LOCK_ANY, (cohort_id,)) is not None


def destroy_key(tx: Tx, cohort_id: str, now: float) -> None:
    """Overwrite the key of a locked cohort with zeros, and delete it."""
    tx.run(ZERO_KEY, (ZEROS, cohort_id))
    tx.run(DROP_KEY, (cohort_id,))
    tx.run(DESTROY, (now, cohort_id))


def destroyed_cohorts(tx: Tx, limit: int) -> list[str]:
    """Return destroyed cohorts that still have rows."""
    return [row[0] for row in tx.all(DESTROYED, (limit,))]


def drop_members(tx: Tx, cohort_id: str, limit: int) -> int:
    """Delete a batch of members of a destroyed cohort, and return their number."""
    return tx.run(DROP_MEMBERS, (cohort_id, cohort_id, limit))


def drop_cohorts(tx: Tx, cohort_ids: Sequence[str]) -> int:
    """Delete cohorts that have no other rows left, and return their number."""
    return tx.run_in(DROP, cohort_ids)
