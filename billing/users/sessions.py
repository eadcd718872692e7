"""Starts sessions with a password, finds them by a cookie's token, and ends them for the user (decisions 22).

A session's token changes whenever the session gains rights: after the password, after the code, and after the password
is entered again. A token that an attacker has planted in a browser therefore never gains rights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from billing.users import attempts
from billing.users.errors import SessionOver, SignInRefused
from billing.users.passwords import Passwords, check_password
from billing.users.records import SESSION, USER, Stage, User, UserSession, digest, new_token, plain_email, user_of
from storage.store import Row, Store, Tx

IDLE_S: Final = 12 * 3_600.0
LONGEST_S: Final = 30 * 86_400.0
CODE_S: Final = 600.0
"""For how many seconds a session waits for the second factor's code."""
FRESH_S: Final = 600.0
SEEN_EVERY_S: Final = 60.0
SESSIONS_MAX: Final = 50
AGENT_MAX: Final = 200
_FORGET_AT_ONCE: Final = 200

FIND_USER: Final = "SELECT id, password, totp <> '' FROM users WHERE email = ?"
READ_PASSWORD: Final = "SELECT password FROM users WHERE id = ?"  # noqa: S105 - SQL, not a password
SET_PASSWORD: Final = "UPDATE users SET password = ? WHERE id = ?"  # noqa: S105 - SQL, not a password
ADD: Final = """
INSERT INTO user_sessions (id, hash, user_id, stage, address, agent, created_at, proved_at, seen_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FIND: Final = f"""
SELECT {SESSION}, {USER}, accounts.name FROM user_sessions JOIN users ON users.id = user_sessions.user_id
JOIN accounts ON accounts.id = users.account_id
WHERE user_sessions.hash = ? AND user_sessions.seen_at > ? AND user_sessions.created_at > ?
AND accounts.state IN ('active', 'suspended')
"""  # noqa: S608 - constants
RENEW: Final = "UPDATE user_sessions SET hash = ?, stage = 'full', proved_at = ?, seen_at = ? WHERE hash = ?"
SEEN: Final = "UPDATE user_sessions SET seen_at = ? WHERE id = ? AND seen_at < ?"
LIST: Final = f"""
SELECT {SESSION} FROM user_sessions WHERE user_id = ? AND stage = 'full' AND seen_at > ? AND created_at > ?
ORDER BY seen_at DESC, id DESC
"""  # noqa: S608 - constants
END: Final = "DELETE FROM user_sessions WHERE hash = ?"
END_ONE: Final = "DELETE FROM user_sessions WHERE user_id = ? AND id = ?"
END_OTHERS: Final = "DELETE FROM user_sessions WHERE user_id = ? AND id <> ?"
END_ALL: Final = "DELETE FROM user_sessions WHERE user_id = ?"
END_OLDEST: Final = """
DELETE FROM user_sessions WHERE user_id = ? AND id NOT IN (
    SELECT id FROM user_sessions WHERE user_id = ? ORDER BY seen_at DESC, id DESC LIMIT ?
)
"""
FORGET: Final = """
DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE seen_at < ? ORDER BY seen_at LIMIT ?)
"""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session with its user and the name of the account."""

    session: UserSession
    user: User
    account_name: str

    def is_fresh(self, now: float) -> bool:
        """Return whether the password was entered within the last ten minutes."""
        return now - self.session.proved_at < FRESH_S


@dataclass(frozen=True, slots=True)
class Visitor:
    """The client that starts a session: its address and its browser."""

    address: str
    agent: str = ""


class UserSessions:
    """Starts, finds and ends sessions."""

    def __init__(
        self, store: Store, passwords: Passwords, *, now: Callable[[], float], make_id: Callable[[str], str]
    ) -> None:
        self._store = store
        self._passwords = passwords
        self.now = now
        self._make_id = make_id

    async def sign_in(self, email: str, password: str, visitor: Visitor, *, instead_of: str = "") -> tuple[str, Stage]:
        """Start a session in place of the session `instead_of`. Return its token and whether a code is required.

        An unknown email address takes the same time as a wrong password. Raises SignInRefused, TooManyAttempts.
        """
        name = plain_email(email)
        subjects = (attempts.of_user(name), attempts.of_address(visitor.address))
        await self._store.write(partial(attempts.enter, subjects=subjects, now=self.now()))
        row = await self._store.read(lambda tx: tx.one(FIND_USER, (name,)))
        digested: str = "" if row is None else row[1]
        if not await self._passwords.fits(password, digested) or row is None:
            raise SignInRefused
        user_id, _, has_totp = row
        stage: Stage = "code" if has_totp else "full"
        token = new_token()

        def begin(tx: Tx) -> None:
            if tx.one(READ_PASSWORD, (user_id,)) != (digested,):
                raise SignInRefused  # the password was changed during the check
            if stage == "full":
                attempts.clear(tx, subjects[0])
            tx.run(END, (digest(instead_of),))
            self._add(tx, token, user_id, stage=stage, visitor=visitor)

        await self._store.write(begin)
        return token, stage

    async def find(self, token: str) -> SignedIn | None:
        """Return the session that belongs to a cookie's token, or None if it has ended or never existed."""
        now = self.now()
        row = await self._store.read(lambda tx: tx.one(FIND, (digest(token), now - IDLE_S, now - LONGEST_S)))
        if row is None:
            return None
        found = SignedIn(UserSession(*row[:7]), user_of(row[7:13]), row[13])
        if found.session.stage == "code" and now - found.session.created_at > CODE_S:
            return None
        if now - found.session.seen_at > SEEN_EVERY_S:
            id_ = found.session.id
            await self._store.write(lambda tx: tx.run(SEEN, (now, id_, now)))
        return found

    async def prove(self, signed_in: SignedIn, password: str, visitor: Visitor) -> None:
        """Check the password of a session's user again. Raises SignInRefused, TooManyAttempts."""
        user = signed_in.user
        subjects = (attempts.of_user(user.email), attempts.of_address(visitor.address))
        await self._store.write(partial(attempts.enter, subjects=subjects, now=self.now()))
        row = await self._store.read(lambda tx: tx.one(READ_PASSWORD, (user.id,)))
        if not await self._passwords.fits(password, "" if row is None else row[0]):
            raise SignInRefused

    async def renew(self, token: str, user: User) -> str:
        """Replace the token of a session whose user has passed all checks. Return the new token. Raises SessionOver."""
        new, now = new_token(), self.now()

        def renew(tx: Tx) -> str:
            if tx.run(RENEW, (digest(new), now, now, digest(token))) != 1:
                raise SessionOver
            attempts.clear(tx, attempts.of_user(user.email))
            return new

        return await self._store.write(renew)

    async def change_password(self, signed_in: SignedIn, password: str) -> None:
        """Set a user's new password and end the user's other sessions. Raises PasswordRefused, TooManyAttempts."""
        user, kept = signed_in.user, signed_in.session.id
        check_password(password, user.email)
        made = await self._passwords.digest(password)

        def change(tx: Tx) -> None:
            tx.run(SET_PASSWORD, (made, user.id))
            tx.run(END_OTHERS, (user.id, kept))

        await self._store.write(change)

    async def list(self, user_id: str) -> list[UserSession]:
        """Return the open sessions of a user, most recently used first."""
        now = self.now()
        rows = await self._store.read(lambda tx: tx.all(LIST, (user_id, now - IDLE_S, now - LONGEST_S)))
        return [UserSession(*row) for row in rows]

    async def end(self, token: str) -> None:
        """End the session that belongs to a token."""
        await self._store.write(lambda tx: tx.run(END, (digest(token),)))

    async def end_one(self, user_id: str, session_id: str) -> bool:
        """End one session of the user. Return whether it existed."""
        return await self._store.write(lambda tx: tx.run(END_ONE, (user_id, session_id))) == 1

    async def end_others(self, signed_in: SignedIn) -> int:
        """End every session of the user except this one. Return how many ended."""
        ends = (signed_in.user.id, signed_in.session.id)
        return await self._store.write(lambda tx: tx.run(END_OTHERS, ends))

    def _add(self, tx: Tx, token: str, user_id: str, *, stage: Stage, visitor: Visitor) -> None:
        now = self.now()
        agent = visitor.agent.replace("\0", "")[:AGENT_MAX]
        row: Row = (self._make_id("ses_"), digest(token), user_id, stage, visitor.address, agent, now, now, now)
        tx.run(ADD, row)
        tx.run(END_OLDEST, (user_id, user_id, SESSIONS_MAX))


def end_sessions(tx: Tx, user_id: str) -> None:
    """End every session of a user."""
    tx.run(END_ALL, (user_id,))


def forget_sessions(tx: Tx, now: float) -> int:
    """Delete some expired sessions. Return how many; 0 if none are left."""
    return tx.run(FORGET, (now - IDLE_S, _FORGET_AT_ONCE))
