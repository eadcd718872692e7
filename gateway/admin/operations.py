"""The operator's operations on accounts, credits, keys and the ledger, by name and with validated arguments.

A node serves these operations at its admin address. A command runs them itself if it has opened the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from billing.accounts.accounts import PAGE_MAX, WELCOME_CREDITS, Account, Accounts
from billing.accounts.plans import Plan
from billing.archive.statement import line_of
from billing.errors import BillingError, TermsInvalid
from billing.keys.keys import UNCHANGED, Keys, Unchanged
from billing.keys.records import KeyRecord
from billing.ledger.transactions import Ledger
from events.instants import iso, no_instant, unix
from gateway.admin.operation_records import OperationIdTaken, OperationRecord, OperationRepeated, recording
from storage.store import Store, T

Text = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]
"""Text that every store accepts unchanged: any text without NUL."""
OperationId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{8,64}\Z")]


class OperationRefused(Exception):
    """The operation cannot be run. The text says why, in one line."""


class ChangeArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Arguments of an operation that changes the store.

    With an operation id, the change is applied only once, even if the request is repeated.
    """

    operation_id: OperationId | None = None


class PageArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Arguments of a list operation, which returns at most `limit` entries after the entry with the id `after`."""

    after: Text | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = PAGE_MAX


class AccountCreate(ChangeArguments, frozen=True):
    """Arguments of `account.create`."""

    name: Text
    credits: int = WELCOME_CREDITS
    plan: Plan = "free"
    unlimited: bool = False


class AccountName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `account.show`."""

    account: Text


class AccountPlan(ChangeArguments, frozen=True):
    """Arguments of `account.plan`."""

    account: Text
    plan: Plan


class TransactionPage(PageArguments, frozen=True):
    """Arguments of `account.transactions`. `after` is the id of the last (oldest) entry of the previous page."""

    account: Text
    request_id: Text | None = None


class CreditsGrant(ChangeArguments, frozen=True):
    """Arguments of `credits.grant`."""

    account: Text
    amount: int


class KeyCreate(ChangeArguments, frozen=True):
    """Arguments of `key.create`. `expires_at` is a time in ISO 8601."""

    account: Text
    name: Text = ""
    credit_limit: int | None = None
    expires_at: str | None = None


class KeyList(PageArguments, frozen=True):
    """Arguments of `key.list`."""

    account: Text | None = None


class KeyName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `key.reveal`."""

    key: Text


class KeyRevoke(ChangeArguments, frozen=True):
    """Arguments of `key.revoke`."""

    key: Text


class KeyUpdate(ChangeArguments, frozen=True):
    """Arguments of `key.update`. Without a `credit_limit` the limit stays; "none" removes it."""

    key: Text
    credit_limit: int | Literal["none"] | msgspec.UnsetType = msgspec.UNSET
    reset_usage: bool = False


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of operations that have none."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: the type of its arguments, and the function that runs it."""

    takes: type[msgspec.Struct]
    do: Callable[[Any], Awaitable[Any]]


class Operations:
    """The operations on a store. A node adds further ones, such as `reload`."""

    def __init__(
        self, accounts: Accounts, keys: Keys, store: Store, ledger: Ledger, *, now: Callable[[], float]
    ) -> None:
        self._accounts = accounts
        self._keys = keys
        self._store = store
        self._ledger = ledger
        self._now = now
        self._later: dict[str, Callable[[], None]] = {}
        self._table = {
            "account.create": Operation(AccountCreate, self._create_account),
            "account.list": Operation(PageArguments, self._list_accounts),
            "account.show": Operation(AccountName, self._show_account),
            "account.plan": Operation(AccountPlan, self._change_plan),
            "account.transactions": Operation(TransactionPage, self._list_transactions),
            "credits.grant": Operation(CreditsGrant, self._grant),
            "key.create": Operation(KeyCreate, self._create_key),
            "key.list": Operation(KeyList, self._list_keys),
            "key.revoke": Operation(KeyRevoke, self._revoke_key),
            "key.reveal": Operation(KeyName, self._reveal_key),
            "key.update": Operation(KeyUpdate, self._update_key),
        }

    def add(self, name: str, operation: Operation) -> None:
        """Register another operation."""
        self._table[name] = operation

    def add_later(self, names: Iterable[str], load: Callable[[], None]) -> None:
        """Register operations whose modules are imported when one of them is first run. `load` adds all of them."""
        self._later.update(dict.fromkeys(names, load))

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run an operation and return its result, ready for JSON.

        Raises:
            OperationRefused: the operation is unknown, its arguments are invalid, or it cannot be run.
        """
        if name not in self._table and name in self._later:
            self._later[name]()
        operation = self._table.get(name)
        if operation is None:
            raise OperationRefused(f"unknown operation {name}")
        try:
            return await operation.do(_arguments(dict(arguments), operation.takes))
        except (BillingError, OperationIdTaken) as exc:
            raise OperationRefused(str(exc)) from exc

    async def _create_account(self, args: AccountCreate) -> Any:
        create = partial(
            self._accounts.create, args.name, plan=args.plan, credits=args.credits, unlimited=args.unlimited
        )
        return await self.once("account.create", args, create, _account)

    async def _list_accounts(self, args: PageArguments) -> Any:
        found = await self._accounts.list(after=args.after, limit=args.limit)
        return [{**asdict(account), "created_at": iso(account.created_at)} for account in found]

    async def _show_account(self, args: AccountName) -> Any:
        account = await self._accounts.get(args.account)
        report = await self._ledger.report(args.account)
        spent = {"spent_last_24h": report.last_24h, "spent_last_7d": report.last_7d}
        return {**asdict(account), **spent, "created_at": iso(account.created_at)}

    async def _change_plan(self, args: AccountPlan) -> Any:
        return await self.once(
            "account.plan", args, partial(self._accounts.change_plan, args.account, args.plan), _account
        )

    async def _list_transactions(self, args: TransactionPage) -> Any:
        await self._accounts.get(args.account)
        before = None if args.after is None else _line_before(args.after)
        found = await self._ledger.transactions(
            args.account, limit=args.limit, before=before, request_id=args.request_id
        )
        if found.warnings and not found.lines:
            raise OperationRefused(" ".join(found.warnings))
        return [{**asdict(line), "id": str(line.id), "created_at": iso(line.created_at)} for line in found.lines]

    async def _grant(self, args: CreditsGrant) -> Any:
        grant = partial(self._accounts.grant, args.account, args.amount)
        return await self.once("credits.grant", args, grant, partial(_granted, args.account))

    async def _create_key(self, args: KeyCreate) -> Any:
        expires_at = _instant(args.expires_at)
        if expires_at is not None and expires_at <= self._now():
            raise OperationRefused(f"expires_at {args.expires_at} is in the past")
        create = partial(
            self._keys.create, args.account, name=args.name, credit_limit=args.credit_limit, expires_at=expires_at
        )
        made = await self.once("key.create", args, create, lambda new: {"id": new.id, "last4": new.last4})
        return {"id": made["id"], "key": await self._keys.reveal(made["id"]), "last4": made["last4"]}

    async def _list_keys(self, args: KeyList) -> Any:
        if args.account is not None:
            await self._accounts.get(args.account)
        return [_key(record) for record in await self._keys.list(args.account, after=args.after, limit=args.limit)]

    async def _revoke_key(self, args: KeyRevoke) -> Any:
        return await self.once("key.revoke", args, partial(self._keys.revoke, args.key), _key)

    async def _reveal_key(self, args: KeyName) -> Any:
        return {"id": args.key, "key": await self._keys.reveal(args.key)}

    async def _update_key(self, args: KeyUpdate) -> Any:
        limit = _limit(args.credit_limit)
        update = partial(self._keys.update, args.key, credit_limit=limit, reset_usage=args.reset_usage)
        return await self.once("key.update", args, update, _key)

    async def once(
        self, name: str, args: ChangeArguments, do: Callable[..., Awaitable[T]], shown: Callable[[T], Any]
    ) -> Any:
        """Run a change, and return its result as converted for JSON by `shown`.

        With an operation id, the change is called as `do(write=...)`. If that id has already been used for the same
        request, nothing is changed, and the stored result is returned.
        """
        if args.operation_id is None:
            return shown(await do())
        record = OperationRecord(args.operation_id, name, args, shown)
        try:
            return shown(await do(write=recording(self._store, record, self._now)))
        except OperationRepeated as exc:
            return exc.result


def _arguments(sent: dict[str, Any], takes: type[msgspec.Struct]) -> msgspec.Struct:
    """Convert the arguments. Raises OperationRefused with the name of the invalid argument."""
    try:
        return msgspec.convert(sent, takes)
    except msgspec.ValidationError:
        # Report errors as for an API body. Imported only here, because the arguments of commands are usually valid.
        from gateway.http.bodies import read_fields  # noqa: PLC0415
        from gateway.http.errors import InvalidParam  # noqa: PLC0415

        try:
            return read_fields(sent, takes)
        except InvalidParam as exc:
            raise OperationRefused(exc.message.removesuffix(".")) from exc


def _account(account: Account) -> dict[str, Any]:
    return {"id": account.id, "name": account.name, "plan": account.plan, "balance": account.balance}


def _granted(account_id: str, balance: int) -> dict[str, Any]:
    return {"account": account_id, "balance": balance}


def _key(record: KeyRecord) -> dict[str, Any]:
    shown = asdict(record)
    for name in ("expires_at", "revoked_at", "created_at"):
        shown[name] = None if shown[name] is None else iso(shown[name])
    return shown


def _limit(sent: int | str | msgspec.UnsetType) -> int | Unchanged | None:
    if isinstance(sent, msgspec.UnsetType):
        return UNCHANGED
    return sent if isinstance(sent, int) else None


def _line_before(text: str) -> int | str:
    if (line := line_of(text)) is None:
        raise OperationRefused(f"`{text}` is not a transaction id")
    return line


def _instant(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return unix(text)
    except ValueError as exc:
        raise TermsInvalid(no_instant(text)) from exc
