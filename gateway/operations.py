"""What an operator does: accounts, credits, keys and the ledger's proof, by name and with checked arguments.

The same operations run inside a node, behind its admin address, and in a command that has the store to itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import msgspec

from billing.accounts import WELCOME_CREDITS, Accounts
from billing.errors import BillingError, TermsInvalid
from billing.key_records import KeyRecord
from billing.keys import UNCHANGED, Keys, Unchanged
from billing.verification import verify
from events.instants import iso, no_instant, unix
from storage.store import Store

Text = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]
"""What every store takes as it is: any text without NUL."""


class OperationRefused(Exception):
    """An operation cannot be done; the text says why in one line."""


class AccountCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `account.create`."""

    name: Text
    credits: int = WELCOME_CREDITS
    plan: Literal["free", "starter", "growth", "pro", "enterprise"] = "free"
    unlimited: bool = False


class CreditsGrant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `credits.grant`."""

    account: Text
    amount: int


class KeyCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `key.create`; `expires_at` is ISO 8601."""

    account: Text
    name: Text = ""
    credit_limit: int | None = None
    expires_at: str | None = None


class KeyList(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `key.list`."""

    account: Text | None = None


class KeyName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `key.revoke` and `key.reveal`."""

    key: Text


class KeyUpdate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `key.update`; a `credit_limit` of "none" removes the limit, an absent one leaves it."""

    key: Text
    credit_limit: int | Literal["none"] | msgspec.UnsetType = msgspec.UNSET
    reset_usage: bool = False


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Operations without arguments."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: the type of its arguments and what does it."""

    takes: type[msgspec.Struct]
    do: Callable[[Any], Awaitable[Any]]


class Operations:
    """The operations over one store. A node adds its own, such as `reload`."""

    def __init__(self, accounts: Accounts, keys: Keys, store: Store) -> None:
        self._accounts = accounts
        self._keys = keys
        self._store = store
        self._table = {
            "account.create": Operation(AccountCreate, self._create_account),
            "account.list": Operation(Nothing, self._list_accounts),
            "credits.grant": Operation(CreditsGrant, self._grant),
            "key.create": Operation(KeyCreate, self._create_key),
            "key.list": Operation(KeyList, self._list_keys),
            "key.revoke": Operation(KeyName, self._revoke_key),
            "key.reveal": Operation(KeyName, self._reveal_key),
            "key.update": Operation(KeyUpdate, self._update_key),
            "ledger.verify": Operation(Nothing, self._verify),
        }

    def add(self, name: str, operation: Operation) -> None:
        """Offer one more."""
        self._table[name] = operation

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do one; what it gives is ready for JSON.

        Raises:
            OperationRefused: there is no such operation, its arguments are wrong, or it cannot be done.
        """
        operation = self._table.get(name)
        if operation is None:
            raise OperationRefused(f"there is no operation {name}")
        try:
            return await operation.do(msgspec.convert(dict(arguments), operation.takes))
        except (msgspec.ValidationError, BillingError) as exc:
            raise OperationRefused(str(exc)) from exc

    async def _create_account(self, args: AccountCreate) -> Any:
        account = await self._accounts.create(args.name, plan=args.plan, credits=args.credits, unlimited=args.unlimited)
        return {"id": account.id, "name": account.name, "plan": account.plan, "balance": account.balance}

    async def _list_accounts(self, _args: Nothing) -> Any:
        return [{**asdict(account), "created_at": iso(account.created_at)} for account in await self._accounts.list()]

    async def _grant(self, args: CreditsGrant) -> Any:
        return {"account": args.account, "balance": await self._accounts.grant(args.account, args.amount)}

    async def _create_key(self, args: KeyCreate) -> Any:
        new = await self._keys.create(
            args.account, name=args.name, credit_limit=args.credit_limit, expires_at=_instant(args.expires_at)
        )
        return {"id": new.id, "key": new.key, "last4": new.last4}

    async def _list_keys(self, args: KeyList) -> Any:
        return [_key(record) for record in await self._keys.list(args.account)]

    async def _revoke_key(self, args: KeyName) -> Any:
        return _key(await self._keys.revoke(args.key))

    async def _reveal_key(self, args: KeyName) -> Any:
        return {"id": args.key, "key": await self._keys.reveal(args.key)}

    async def _update_key(self, args: KeyUpdate) -> Any:
        limit = _limit(args.credit_limit)
        return _key(await self._keys.update(args.key, credit_limit=limit, reset_usage=args.reset_usage))

    async def _verify(self, _args: Nothing) -> Any:
        violations = await self._store.read(verify)
        return {"ok": not violations, "violations": [asdict(violation) for violation in violations]}


def _key(record: KeyRecord) -> dict[str, Any]:
    shown = asdict(record)
    for name in ("expires_at", "revoked_at", "created_at"):
        shown[name] = None if shown[name] is None else iso(shown[name])
    return shown


def _limit(sent: int | str | msgspec.UnsetType) -> int | Unchanged | None:
    if isinstance(sent, msgspec.UnsetType):
        return UNCHANGED
    return sent if isinstance(sent, int) else None


def _instant(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return unix(text)
    except ValueError as exc:
        raise TermsInvalid(no_instant(text)) from exc
