"""The records of users and their sessions, without any secrets."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from billing.users.errors import EmailRefused, UserUnknown
from storage.store import Row, Tx

Stage: TypeAlias = Literal["code", "full"]

EMAIL_MAX: Final = 254
_EMAIL: Final = r"[^\s@<>\"(),:;\\\[\]\x00-\x1f\x7f]+@[^\s@.<>\"(),:;\\\[\]]+(?:\.[^\s@.<>\"(),:;\\\[\]]+)+"

USER: Final = "users.id, users.account_id, users.email, users.password <> '', users.totp <> '', users.created_at"
SESSION: Final = """
user_sessions.id, user_sessions.stage, user_sessions.address, user_sessions.agent, user_sessions.created_at,
user_sessions.proved_at, user_sessions.seen_at
"""
READ: Final = f"SELECT {USER} FROM users WHERE id = ?"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class User:
    """A user of an account. An invited user becomes `active` by setting the first password."""

    id: str
    account_id: str
    email: str
    active: bool
    has_totp: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class UserSession:
    """A session of a user. `proved_at` is when the password was last entered."""

    id: str
    stage: Stage
    address: str
    agent: str
    created_at: float
    proved_at: float
    seen_at: float


def user_of(row: Row) -> User:
    """Return a user from the columns of `USER`."""
    id_, account_id, email, active, has_totp, created_at = row
    return User(id_, account_id, email, bool(active), bool(has_totp), created_at)


def read_user(tx: Tx, user_id: str) -> User:
    """Return the user, inside a transaction. Raises UserUnknown."""
    row = tx.one(READ, (user_id,))
    if row is None:
        raise UserUnknown(user_id)
    return user_of(row)


def plain_email(text: str) -> str:
    """Return an email address in the form used to look users up."""
    return text.strip().casefold()[: EMAIL_MAX + 1]


def check_email(text: str) -> str:
    """Return a new user's email address, normalized. Raises EmailRefused."""
    email = plain_email(text)
    if len(email) > EMAIL_MAX or re.fullmatch(_EMAIL, email) is None:
        raise EmailRefused(f"{text[:100]!r} is not a valid email address")
    return email


def new_token() -> str:
    """Return a secret of 32 random bytes, for a cookie or a link."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the digest used to look a token up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
