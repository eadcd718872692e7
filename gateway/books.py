"""The money side of a node or a command, opened over one store: accounts, keys, charges and the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import billing.migrations
import limits.idempotency
from billing.accounts import Accounts
from billing.balances import Balances
from billing.charges import Charges
from billing.keys import Keys
from billing.ledger import Ledger
from billing.sealing import Cipher
from gateway.config.settings import Config
from gateway.operations import Operations
from gateway.secrets import Secrets
from limits.gate import Gate
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Store

OpenStore = Callable[[str, Sequence[MigrationSet]], AbstractAsyncContextManager[Store]]
"""Opens the store of an address, with all sets of the program's migrations."""


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that stands on the store."""

    store: Store
    balances: Balances
    accounts: Accounts
    keys: Keys
    charges: Charges
    ledger: Ledger

    @property
    def operations(self) -> Operations:
        """A fresh table of the operations over these books."""
        return Operations(self.accounts, self.keys, self.store)

    def doubt(self) -> None:
        """Read keys and balances anew: what other nodes have told of them may be lost."""
        self.keys.forget_all()
        self.balances.forget_all()


@asynccontextmanager
async def open_books(
    config: Config,
    secrets: Secrets,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    open_store: OpenStore = open_store,
    shared: Gate | None = None,
) -> AsyncIterator[Books]:
    """Open the store of `config`; changes of keys and balances are told to `shared`, the gate of all nodes.

    Raises:
        StoreUnusable: in use, not writable, corrupt or too new; the text says what to do.
    """
    async with open_store(config.store.url, [billing.migrations.MIGRATIONS, limits.idempotency.MIGRATIONS]) as store:
        balances = Balances(store, shared)
        yield Books(
            store=store,
            balances=balances,
            accounts=Accounts(store, balances, now=now, make_id=make_id),
            keys=Keys(
                store, Cipher(secrets.sealing), now=now, make_id=make_id, prefix=config.keys.prefix, shared=shared
            ),
            charges=Charges(store, balances, now=now, node=make_id("node_")),
            ledger=Ledger(store, now=now),
        )
