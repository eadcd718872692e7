from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import trio

from billing.keys.sealing import Cipher
from billing.migrations import MIGRATIONS
from billing.users.passwords import Passwords
from billing.users.schema import MIGRATIONS as OF_USERS
from billing.users.second_factor import SecondFactor
from billing.users.sessions import UserSessions, Visitor
from billing.users.users import Users
from storage.opening import open_store
from tests.billing.desk import Desk

PASSWORD = "a river of small stones"
HERE = Visitor("192.0.2.1", "Tests/1.0")


@dataclass(slots=True)
class House:
    """The services of users on a real store. `desk.time` is their clock."""

    desk: Desk
    users: Users
    sessions: UserSessions
    factor: SecondFactor
    account: str

    async def new_user(self, email: str = "ada@example.com") -> str:
        """A user who has chosen `PASSWORD`."""
        invite = await self.users.invite(self.account, email)
        return (await self.users.accept(invite.token, PASSWORD)).id

    async def sign_in(self, email: str = "ada@example.com", password: str = PASSWORD) -> str:
        return (await self.sessions.sign_in(email, password, HERE))[0]

    async def texts(self) -> str:
        """Return everything that the tables of users contain."""
        tables = ("users", "user_invites", "user_codes", "user_sessions", "sign_in_attempts")
        rows = [await self.desk.store.read(lambda tx, name=name: tx.all(f"SELECT * FROM {name}")) for name in tables]
        return repr(rows)


@pytest.fixture
async def house(store_url: str) -> AsyncIterator[House]:
    with trio.fail_after(60):
        async with open_store(store_url, [MIGRATIONS, OF_USERS]) as store:
            desk, passwords = Desk(store), Passwords()
            now: Callable[[], float] = desk.now
            yield House(
                desk,
                Users(store, passwords, now=now, make_id=desk.make_id),
                UserSessions(store, passwords, now=now, make_id=desk.make_id),
                SecondFactor(store, Cipher(b"k" * 32), now=now),
                (await desk.accounts.create("Ada")).id,
            )
