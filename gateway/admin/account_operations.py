"""The operations to suspend, resume and delete accounts."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio

from billing.accounts.accounts import Account
from billing.accounts.lifecycle import Lifecycle
from gateway.admin.erasure import RemoveSome, erase
from gateway.admin.operations import ChangeArguments, Operation, Operations, Text
from storage.store import Store

ERASE_S: Final = 10.0
"""Seconds that `account.delete` waits until all data is removed. After that, a node's maintenance removes the rest."""


class AccountLife(ChangeArguments, frozen=True):
    """Arguments of `account.suspend`, `account.resume` and `account.delete`."""

    account: Text


class AccountOperations:
    """Suspends, resumes and deletes accounts for an operator."""

    def __init__(self, store: Store, lifecycle: Lifecycle, *, cancel_jobs: RemoveSome) -> None:
        self._store = store
        self._cancel_jobs = cancel_jobs
        self._lifecycle = lifecycle

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        self._once = operations.once
        operations.add("account.suspend", Operation(AccountLife, self._suspend))
        operations.add("account.resume", Operation(AccountLife, self._resume))
        operations.add("account.delete", Operation(AccountLife, self._delete))

    async def _suspend(self, args: AccountLife) -> Any:
        return await self._once("account.suspend", args, partial(self._lifecycle.suspend, args.account), _shown)

    async def _resume(self, args: AccountLife) -> Any:
        return await self._once("account.resume", args, partial(self._lifecycle.resume, args.account), _shown)

    async def _delete(self, args: AccountLife) -> Any:
        """Delete an account, and return its data with the balance that remains in the ledger.

        The `state` is "deleted" if all data was removed within `ERASE_S`; otherwise it is still "deleting".
        """
        deleted = await self._once("account.delete", args, partial(self._lifecycle.delete, args.account), _shown)
        with trio.move_on_after(ERASE_S):
            if await erase(self._store, self._cancel_jobs, args.account):
                deleted["state"] = "deleted"
        return deleted


def _shown(account: Account) -> dict[str, Any]:
    return {"id": account.id, "name": account.name, "state": account.state, "balance": account.balance}
