"""The tables of users.

A leak of these tables grants no access: passwords are stored as argon2id digests, tokens and codes as digests, and the
secrets of second factors are sealed.
"""

from __future__ import annotations

from typing import Final

from storage.migrations import MigrationSet, Schema

# An empty password means that an invited user has not accepted yet. An empty `totp` means no second factor.
USERS: Final = """
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    email TEXT NOT NULL UNIQUE,
    password TEXT NOT NULL,
    totp TEXT NOT NULL,
    totp_step BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL
)
"""
# At most one per user: a new invitation replaces the old one.
INVITES: Final = """
CREATE TABLE user_invites (
    user_id TEXT PRIMARY KEY REFERENCES users (id),
    hash TEXT NOT NULL UNIQUE,
    expires_at DOUBLE PRECISION NOT NULL
)
"""
CODES: Final = """
CREATE TABLE user_codes (
    hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id)
)
"""
# At the stage `code`, only the password was checked, and the session can open only the page that requests the code.
SESSIONS: Final = """
CREATE TABLE user_sessions (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL REFERENCES users (id),
    stage TEXT NOT NULL CHECK (stage IN ('code', 'full')),
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    proved_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL
)
"""
ATTEMPTS: Final = """
CREATE TABLE sign_in_attempts (
    subject TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
)
"""
INDEXES: Final = (
    "CREATE INDEX users_of_account ON users (account_id, created_at, id)",
    "CREATE INDEX user_codes_of_user ON user_codes (user_id)",
    "CREATE INDEX user_sessions_of_user ON user_sessions (user_id)",
    "CREATE INDEX user_sessions_by_age ON user_sessions (seen_at)",
    "CREATE INDEX sign_in_attempts_of_subject ON sign_in_attempts (subject, at)",
    "CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (at)",
)


def m0001_users(schema: Schema) -> None:
    """Create users, their invitations, recovery codes and sessions, and sign-in attempts."""
    for sql in (USERS, INVITES, CODES, SESSIONS, ATTEMPTS, *INDEXES):
        schema.execute(sql)


MIGRATIONS = MigrationSet("users", (m0001_users,))
