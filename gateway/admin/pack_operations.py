"""Operations on packs: list and grant them, list an account's purchases, and remove an account's payment marks."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import msgspec

from billing.packs.packs import PackGranted, Packs, Unmarked
from billing.packs.records import Pack, Purchase
from events.instants import iso
from gateway.admin.operations import ChangeArguments, Nothing, Operation, Operations, Text

LISTED_MAX: Final = 1_000


class PackGrant(ChangeArguments, frozen=True):
    """Arguments of `pack.grant`."""

    account: Text
    pack: Text


class AccountUnmark(ChangeArguments, frozen=True):
    """Arguments of `account.unmark`."""

    account: Text


class PurchaseList(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `pack.purchases`, which returns the latest `limit` purchases of an account."""

    account: Text
    limit: Annotated[int, msgspec.Meta(ge=1, le=LISTED_MAX)] = LISTED_MAX


class PackOperations:
    """Lists and grants packs, lists purchases, and removes payment marks."""

    def __init__(self, packs: Packs) -> None:
        self._packs = packs

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        self._once = operations.once
        operations.add("pack.list", Operation(Nothing, self._list))
        operations.add("pack.grant", Operation(PackGrant, self._grant))
        operations.add("pack.purchases", Operation(PurchaseList, self._purchases))
        operations.add("account.unmark", Operation(AccountUnmark, self._unmark))

    async def _list(self, _args: Nothing) -> Any:
        return [pack_view(pack) for pack in self._packs.on_sale.values()]

    async def _grant(self, args: PackGrant) -> Any:
        return await self._once("pack.grant", args, partial(self._packs.grant, args.account, args.pack), _granted)

    async def _purchases(self, args: PurchaseList) -> Any:
        return [purchase_view(one) for one in await self._packs.list(args.account, limit=args.limit)]

    async def _unmark(self, args: AccountUnmark) -> Any:
        return await self._once("account.unmark", args, partial(self._packs.unmark, args.account), _unmarked)


def pack_view(pack: Pack) -> dict[str, Any]:
    """Return a pack on sale as a dict for JSON."""
    return {
        "name": pack.name,
        "credits": pack.credits,
        "price_cents": pack.price_cents,
        "currency": pack.currency,
        "plan": pack.plan,
    }


def purchase_view(one: Purchase) -> dict[str, Any]:
    """Return a purchase as a dict for JSON."""
    return {
        "id": one.id,
        "pack": one.pack,
        "credits": one.credits,
        "price_cents": one.price_cents,
        "currency": one.currency,
        "plan": one.plan,
        "source": one.source,
        "status": one.status,
        "credits_reversed": one.reversed,
        "credits_taken_back": one.taken_back,
        "created_at": iso(one.created_at),
        "paid_at": None if one.paid_at is None else iso(one.paid_at),
    }


def _granted(granted: PackGranted) -> dict[str, Any]:
    return {"account": granted.account_id, "balance": granted.balance, "pack": granted.pack}


def _unmarked(unmarked: Unmarked) -> dict[str, Any]:
    return {"account": unmarked.account_id, "removed": unmarked.removed, "mismatch": unmarked.mismatch}
