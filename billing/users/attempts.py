"""Limits sign-in attempts per user and per address. Attempts are counted before the user is looked up.

Subjects are stored as digests, so the table contains no names. Attempts for unknown users are counted in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from billing.users.errors import TooManyAttempts
from storage.store import Tx

WINDOW_S: Final = 900.0
OF_USER_MAX: Final = 10
OF_ADDRESS_MAX: Final = 60
_FORGET_AT_ONCE: Final = 500
_SITE_BITS: Final = 64
"""The prefix length of an IPv6 site.

All addresses of a site count as one, because a machine can use any number of them.
"""

COUNT = "SELECT COUNT(*), MIN(at) FROM sign_in_attempts WHERE subject = ? AND at > ?"
ADD = "INSERT INTO sign_in_attempts (subject, at) VALUES (?, ?)"
CLEAR = "DELETE FROM sign_in_attempts WHERE subject = ?"
FORGET = """
DELETE FROM sign_in_attempts
WHERE at < ? AND subject IN (SELECT subject FROM sign_in_attempts WHERE at < ? ORDER BY at LIMIT ?)
"""


class AttemptSubject(NamedTuple):
    """The digest of a user or an address, and the number of attempts allowed in the window."""

    digest: str
    limit: int


def of_user(name: str) -> AttemptSubject:
    """Return the subject for a user, by email address or id."""
    return AttemptSubject(_digest(f"user {name}"), OF_USER_MAX)


def of_address(address: str) -> AttemptSubject:
    """Return the subject for the client address of an attempt."""
    return AttemptSubject(_digest(f"address {_site(address)}"), OF_ADDRESS_MAX)


def enter(tx: Tx, subjects: Sequence[AttemptSubject], now: float) -> None:
    """Count one more attempt for each subject, or for none if one has reached its limit. Raises TooManyAttempts."""
    tx.lock(sorted(subject.digest for subject in subjects))
    for subject in subjects:
        row = tx.one(COUNT, (subject.digest, now - WINDOW_S))
        assert row is not None, "COUNT always returns a row"
        if row[0] >= subject.limit:
            raise TooManyAttempts(row[1] + WINDOW_S - now)
    for subject in subjects:
        tx.run(ADD, (subject.digest, now))


def clear(tx: Tx, subject: AttemptSubject) -> None:
    """Clear the attempts of a user who has just signed in."""
    tx.run(CLEAR, (subject.digest,))


def forget_attempts(tx: Tx, now: float) -> int:
    """Delete some expired attempts. Return how many; 0 if none are left."""
    before = now - WINDOW_S
    return tx.run(FORGET, (before, before, _FORGET_AT_ONCE))


def _site(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _SITE_BITS), strict=False))
    return str(parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else parsed)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
