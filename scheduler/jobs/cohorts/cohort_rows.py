"""The SQL of cohorts, their keys and members, each function in a transaction of its caller's."""

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
# The zeros are as long as what they replace, so it is written over in its place before its row is dropped.
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
    """A cohort as it is stored."""

    id: str
    account_id: str
    name: bytes | None
    retention_days: int
    member_count: int
    created_at: float
    updated_at: float
    expires_at: float


class MemberRecord(NamedTuple):
    """A member as it is stored."""

    number: int
    id: str
    platform: str
    identity: bytes
    sealed: bytes


class NewMember(NamedTuple):
    """A member to be stored: its platform, the digests of its account and its external id, and both sealed."""

    platform: str
    identity: bytes
    external: bytes | None
    sealed: bytes


def add_cohort(tx: Tx, cohort: CohortRecord, kept: bytes) -> None:
    """Keep a new cohort with its key."""
    tx.run(ADD, cohort)
    tx.run(ADD_KEY, (cohort.id, kept))


def count_cohorts(tx: Tx, account_id: str, now: float) -> int:
    """How many cohorts an account has."""
    row = tx.one(COUNT, (account_id, now))
    assert row is not None, "a count is a row"
    return int(row[0])


def owned(tx: Tx, account_id: str, cohort_id: str, now: float, *, locked: bool = False) -> CohortRecord:
    """The cohort of an account.

    Raises:
        CohortUnknown: the account has no such cohort, or its retention has passed.
    """
    row = tx.one(LOCKED if locked else READ, (cohort_id, account_id, now))
    if row is None:
        raise CohortUnknown(cohort_id)
    return CohortRecord(*row)


def cohorts_of(tx: Tx, account_id: str, now: float, limit: int) -> list[CohortRecord]:
    """The cohorts of an account, newest first."""
    return [CohortRecord(*row) for row in tx.all(LIST, (account_id, now, limit))]


def read_key(tx: Tx, cohort_id: str) -> bytes | None:
    """The kept key of a cohort; None: it was destroyed."""
    row = tx.one(READ_KEY, (cohort_id,))
    return None if row is None else bytes(row[0])


def read_keys(tx: Tx, cohort_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the kept keys of these cohorts, without those that were destroyed."""
    return {cohort_id: bytes(kept) for cohort_id, kept in tx.all_in(READ_KEYS, cohort_ids)}


def renew(tx: Tx, cohort: CohortRecord, now: float, *, added: int = 0) -> None:
    """Count new members, and begin the retention of a cohort anew."""
    tx.run(RENEW, (added, now, now + cohort.retention_days * 86_400.0, cohort.id))


def known_members(tx: Tx, identities: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
    """The external digests of those accounts that are members already."""
    return {bytes(one): external and bytes(external) for one, external in tx.all_in(FIND_MEMBERS, identities)}


def add_members(tx: Tx, cohort: CohortRecord, members: Sequence[NewMember], ids: Sequence[str]) -> None:
    """Keep new members behind those that there are."""
    first = cohort.member_count + 1
    rows = [
        (cohort.id, number, id_, one.platform, one.identity, one.external, one.sealed)
        for number, (id_, one) in enumerate(zip(ids, members, strict=True), first)
    ]
    tx.run_many(ADD_MEMBERS, rows)


def name_member(tx: Tx, member: NewMember) -> None:
    """Give a member the external id that it had not."""
    tx.run(NAME_MEMBER, (member.external, member.sealed, member.identity))


def member_platforms(tx: Tx, cohort_id: str) -> list[tuple[int, str]]:
    """The number and the platform of each member, in order."""
    return [(number, platform) for number, platform in tx.all(PLATFORMS, (cohort_id,))]


def members_between(tx: Tx, cohort_id: str, first: int, last: int) -> list[MemberRecord]:
    """The members with these numbers, in order."""
    return [MemberRecord(*row) for row in tx.all(MEMBERS, (cohort_id, first, last))]


def next_expired(tx: Tx, at: float) -> tuple[str, str] | None:
    """A cohort whose retention has passed, with its account."""
    row = tx.one(EXPIRED, (at,))
    return None if row is None else (row[0], row[1])


def cohort_of(tx: Tx, account_id: str) -> str | None:
    """A cohort of an account that was not destroyed."""
    row = tx.one(OF_ACCOUNT, (account_id,))
    return None if row is None else str(row[0])


def lock_any(tx: Tx, cohort_id: str) -> bool:
    """Lock a cohort, whoever has it; False: it was destroyed."""
    return tx.one(LOCK_ANY, (cohort_id,)) is not None


def destroy_key(tx: Tx, cohort_id: str, now: float) -> None:
    """Write zeros over the key of a cohort that is locked, and drop it."""
    tx.run(ZERO_KEY, (ZEROS, cohort_id))
    tx.run(DROP_KEY, (cohort_id,))
    tx.run(DESTROY, (now, cohort_id))


def destroyed_cohorts(tx: Tx, limit: int) -> list[str]:
    """Those that were destroyed, of which something is left."""
    return [row[0] for row in tx.all(DESTROYED, (limit,))]


def drop_members(tx: Tx, cohort_id: str, limit: int) -> int:
    """Remove some members of a cohort that was destroyed; how many."""
    return tx.run(DROP_MEMBERS, (cohort_id, cohort_id, limit))


def drop_cohorts(tx: Tx, cohort_ids: Sequence[str]) -> int:
    """Remove cohorts of which nothing else is left; how many."""
    return tx.run_in(DROP, cohort_ids)
