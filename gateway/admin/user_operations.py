"""Operations on users: invite, list, reset, sign out and delete them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from billing.users.records import User
from billing.users.users import Invite, Users
from events.instants import iso
from gateway.admin.mail import Mailer, MailFailed
from gateway.admin.operations import Operation, Operations, Text

WELCOME: Final = "/dashboard/welcome"
_INVITED: Final = "You have been invited to a Sluice account."
_RESET: Final = "The operator has reset your password and your second factor, if you had one."
_TEXT: Final = """\
{why}

Set your password here. The link works once, until {until}:

{url}
"""


class UserInvite(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `user.invite`."""

    account: Text
    email: Text


class UserList(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `user.list`."""

    account: Text


class UserName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `user.reset`, `user.signout` and `user.delete`."""

    user: Text


class UserOperations:
    """Invites, lists, resets, signs out and deletes users for an operator.

    Links start with `base_url`. Without a `mailer`, links are returned to the operator but not sent.
    """

    def __init__(self, users: Users, *, base_url: str, mailer: Mailer | None) -> None:
        self._users = users
        self._base_url = base_url
        self._mailer = mailer

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        operations.add("user.invite", Operation(UserInvite, self._invite))
        operations.add("user.list", Operation(UserList, self._list))
        operations.add("user.reset", Operation(UserName, self._reset))
        operations.add("user.signout", Operation(UserName, self._sign_out))
        operations.add("user.delete", Operation(UserName, self._delete))

    async def _invite(self, args: UserInvite) -> Any:
        return await self._linked(await self._users.invite(args.account, args.email), _INVITED)

    async def _reset(self, args: UserName) -> Any:
        return await self._linked(await self._users.reset(args.user), _RESET)

    async def _list(self, args: UserList) -> Any:
        return [_shown(user) for user in await self._users.list(args.account)]

    async def _sign_out(self, args: UserName) -> Any:
        return _shown(await self._users.sign_out(args.user))

    async def _delete(self, args: UserName) -> Any:
        return _shown(await self._users.delete(args.user))

    async def _linked(self, invite: Invite, why: str) -> Any:
        """Return the link to set a password, and whether it was sent by e-mail. The link works either way."""
        user, until = invite.user, iso(invite.expires_at)
        url = f"{self._base_url}{WELCOME}?token={invite.token}"
        linked = {"id": user.id, "email": user.email, "url": url, "expires_at": until, "mailed": False}
        if self._mailer is None:
            return linked
        try:
            await self._mailer.send(user.email, "Your Sluice account", _TEXT.format(why=why, url=url, until=until))
        except MailFailed as exc:
            return {**linked, "mail_error": str(exc)}
        return {**linked, "mailed": True}


def _shown(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "account": user.account_id,
        "email": user.email,
        "status": "active" if user.active else "invited",
        "second_factor": user.has_totp,
        "created_at": iso(user.created_at),
    }
