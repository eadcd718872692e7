"""Users, whom the operator creates, and one-time links for setting their first password or replacing a lost one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from billing.accounts.accounts import read_kept_account
from billing.users import attempts
from billing.users.errors import EmailRefused, InviteUnusable
from billing.users.passwords import Passwords, check_password
from billing.users.records import USER, User, check_email, digest, new_token, read_user, user_of
from billing.users.sessions import end_sessions
from storage.store import Store, Tx

INVITE_S: Final = 7 * 86_400.0
_REMOVED_AT_ONCE: Final = 100

FIND: Final = f"SELECT {USER} FROM users WHERE email = ?"  # noqa: S608 - constants
ADD: Final = """
INSERT INTO users (id, account_id, email, password, totp, totp_step, created_at) VALUES (?, ?, ?, '', '', 0, ?)
"""
LIST: Final = f"SELECT {USER} FROM users WHERE account_id = ? ORDER BY created_at, id"  # noqa: S608 - constants
SET_INVITE: Final = """
INSERT INTO user_invites (user_id, hash, expires_at) VALUES (?, ?, ?)
ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, expires_at = excluded.expires_at
"""
READ_INVITE: Final = f"""
SELECT {USER} FROM user_invites JOIN users ON users.id = user_invites.user_id
JOIN accounts ON accounts.id = users.account_id
WHERE user_invites.hash = ? AND user_invites.expires_at > ? AND accounts.state IN ('active', 'suspended')
"""  # noqa: S608 - constants
END_INVITE: Final = "DELETE FROM user_invites WHERE user_id = ?"
SET_PASSWORD: Final = "UPDATE users SET password = ? WHERE id = ?"  # noqa: S105 - it sets one
END_FACTOR: Final = "UPDATE users SET totp = '', totp_step = 0 WHERE id = ?"
END_CODES: Final = "DELETE FROM user_codes WHERE user_id = ?"
DELETE: Final = "DELETE FROM users WHERE id = ?"
OF_ACCOUNT: Final = "SELECT id FROM users WHERE account_id = ? LIMIT ?"


@dataclass(frozen=True, slots=True)
class Invite:
    """A one-time link's token, shown only once, and when it expires."""

    user: User
    token: str
    expires_at: float


class Users:
    """Creates, lists and removes users."""

    def __init__(
        self, store: Store, passwords: Passwords, *, now: Callable[[], float], make_id: Callable[[str], str]
    ) -> None:
        self._store = store
        self._passwords = passwords
        self._now = now
        self._make_id = make_id

    async def invite(self, account_id: str, email: str) -> Invite:
        """Return a one-time link for a new user of the account, or a new link for a user who has not accepted yet.

        Raises:
            AccountUnknown, AccountDeleted: the account does not exist or was deleted.
            EmailRefused: the address is invalid, or belongs to another user.
        """
        return await self._store.write(partial(self._invite, account_id, check_email(email), new_token()))

    async def reset(self, user_id: str) -> Invite:
        """Return a one-time link to choose a new password; the old password stops working immediately.

        The user is signed out everywhere, and the second factor is turned off. Raises UserUnknown.
        """

        def reset(tx: Tx) -> Invite:
            user = read_user(tx, user_id)
            tx.run(SET_PASSWORD, ("", user_id))
            end_factor(tx, user_id)
            end_sessions(tx, user_id)
            return self._new_link(tx, read_user(tx, user.id), new_token())

        return await self._store.write(reset)

    async def list(self, account_id: str) -> list[User]:
        """Return the account's users, oldest first. Raises AccountUnknown, AccountDeleted."""

        def read(tx: Tx) -> list[User]:
            read_kept_account(tx, account_id)
            return [user_of(row) for row in tx.all(LIST, (account_id,))]

        return await self._store.read(read)

    async def get(self, user_id: str) -> User:
        """Return the user. Raises UserUnknown."""
        return await self._store.read(partial(read_user, user_id=user_id))

    async def delete(self, user_id: str) -> User:
        """Sign the user out everywhere and delete the user permanently.

        Return the deleted user's last state. Raises UserUnknown.
        """

        def delete(tx: Tx) -> User:
            user = read_user(tx, user_id)
            _forget(tx, user_id)
            return user

        return await self._store.write(delete)

    async def sign_out(self, user_id: str) -> User:
        """End all sessions of the user and return the user. Raises UserUnknown."""

        def end(tx: Tx) -> User:
            user = read_user(tx, user_id)
            end_sessions(tx, user_id)
            return user

        return await self._store.write(end)

    async def invited(self, token: str) -> User:
        """Return the user of a one-time link. Raises InviteUnusable."""
        return await self._store.read(partial(_read_invite, token, self._now()))

    async def accept(self, token: str, password: str) -> User:
        """Set the password of the user to whom a one-time link belongs, and return the user. The link stops working.

        Raises:
            InviteUnusable: nothing was changed.
            PasswordRefused, TooManyAttempts: nothing was changed, and the link can be used again.
        """
        user = await self.invited(token)
        check_password(password, user.email)
        made = await self._passwords.digest(password)

        def accept(tx: Tx) -> User:
            tx.lock([digest(token)])
            found = _read_invite(token, self._now(), tx)
            tx.run(END_INVITE, (found.id,))
            tx.run(SET_PASSWORD, (made, found.id))
            end_sessions(tx, found.id)
            attempts.clear(tx, attempts.of_user(found.email))
            return read_user(tx, found.id)

        return await self._store.write(accept)

    def _invite(self, account_id: str, email: str, token: str, tx: Tx) -> Invite:
        read_kept_account(tx, account_id)
        tx.lock([f"user {email}"])
        row = tx.one(FIND, (email,))
        if row is None:
            id_ = self._make_id("usr_")
            tx.run(ADD, (id_, account_id, email, self._now()))
            return self._new_link(tx, read_user(tx, id_), token)
        user = user_of(row)
        if user.active or user.account_id != account_id:
            raise EmailRefused(f"{email} already belongs to the user {user.id} of {user.account_id}")
        return self._new_link(tx, user, token)

    def _new_link(self, tx: Tx, user: User, token: str) -> Invite:
        expires_at = self._now() + INVITE_S
        tx.run(SET_INVITE, (user.id, digest(token), expires_at))
        return Invite(user, token, expires_at)


def end_factor(tx: Tx, user_id: str) -> None:
    """Turn a user's second factor off and delete its recovery codes."""
    tx.run(END_FACTOR, (user_id,))
    tx.run(END_CODES, (user_id,))


def forget_users_of(tx: Tx, account_id: str) -> int:
    """Remove some users of a deleted account. Return how many; 0 if none are left."""
    found = tx.all(OF_ACCOUNT, (account_id, _REMOVED_AT_ONCE))
    for (user_id,) in found:
        _forget(tx, user_id)
    return len(found)


def _forget(tx: Tx, user_id: str) -> None:
    end_sessions(tx, user_id)
    tx.run(END_CODES, (user_id,))
    tx.run(END_INVITE, (user_id,))
    tx.run(DELETE, (user_id,))


def _read_invite(token: str, now: float, tx: Tx) -> User:
    row = tx.one(READ_INVITE, (digest(token), now))
    if row is None:
        raise InviteUnusable
    return user_of(row)
