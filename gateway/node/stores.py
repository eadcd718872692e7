"""Opens the store of a node or a command, with all objects that use it, such as accounts, charges and the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import billing.migrations
import billing.users.schema
import events.migrations
import gateway.admin.operation_records
import gateway.admin.supplier_rows
import limits.idempotency
import scheduler.migrations
import storage.growth
import storage.sweep_clock
from billing.accounts.accounts import Accounts
from billing.accounts.balances import Balances
from billing.accounts.lifecycle import Lifecycle
from billing.archive.archiver import Archiver
from billing.charges.charges import Charges
from billing.keys.keys import Keys, ended_keys
from billing.keys.sealing import Cipher
from billing.ledger.free_usage import FreeUsage
from billing.ledger.transactions import Ledger
from billing.packs.packs import Packs
from billing.packs.payments import Payments
from billing.packs.records import Pack
from billing.users.passwords import Passwords
from billing.users.second_factor import SecondFactor
from billing.users.sessions import UserSessions
from billing.users.users import Users
from events.filters import AppendedEvent
from events.log.log import EventLog
from gateway.admin.ledger_operations import LedgerOperations
from gateway.admin.mail import Mailer
from gateway.admin.operations import Nothing, Operation, Operations
from gateway.admin.pack_operations import PackOperations
from gateway.admin.supplier_operations import SupplierOperations
from gateway.admin.user_operations import UserOperations
from gateway.config.secrets import Secrets
from gateway.config.settings import Config, SupplierSettings
from gateway.feed.billing_events import FeedOfBilling
from limits.gate import Gate
from limits.long_reads import LongReads
from storage.disk_watch import DiskWatch, Probe
from storage.errors import StorageError
from storage.growth import StoreGrowth
from storage.migrations import MigrationSet
from storage.opening import open_store
from storage.store import Store, Tx

if TYPE_CHECKING:
    from gateway.admin.erasure import RemoveSome

OpenStore = Callable[[str, Sequence[MigrationSet]], AbstractAsyncContextManager[Store]]
"""Opens the store at an address, with all migration sets of the program."""

MIGRATIONS = (
    billing.migrations.MIGRATIONS,
    billing.users.schema.MIGRATIONS,
    limits.idempotency.MIGRATIONS,
    events.migrations.MIGRATIONS,
    scheduler.migrations.MIGRATIONS,
    gateway.admin.operation_records.MIGRATIONS,
    storage.sweep_clock.MIGRATIONS,
    storage.growth.MIGRATIONS,
    gateway.admin.supplier_rows.MIGRATIONS,
)


def _ignore_appended(_events: Sequence[AppendedEvent]) -> None:
    """Do nothing, because no reader in a command's process waits for events."""


@dataclass(frozen=True, slots=True)
class UserServices:
    """The services for users: their accounts, sessions and second factors, and the mail server for messages to them."""

    users: Users
    sessions: UserSessions
    second_factor: SecondFactor
    mailer: Mailer | None
    base_url: str
    """The base URL of the links in the messages."""


@dataclass(frozen=True, slots=True)
class Billing:
    """The services for accounts, keys and credits."""

    accounts: Accounts
    lifecycle: Lifecycle
    keys: Keys
    balances: Balances
    charges: Charges
    packs: Packs
    payments: Payments
    ledger: Ledger
    archiver: Archiver | None
    usage: FreeUsage


@dataclass(frozen=True, slots=True)
class Stores:
    """All objects that use the store."""

    store: Store
    billing: Billing
    people: UserServices
    feed: EventLog
    cipher: Cipher
    disk: DiskWatch
    growth: StoreGrowth
    suppliers: Mapping[str, SupplierSettings]
    now: Callable[[], float]
    reads: LongReads = field(default_factory=LongReads)

    @property
    def operations(self) -> Operations:
        """Return a new table with the operator operations that need only the store."""
        billing = self.billing
        operations = Operations(billing.accounts, billing.keys, self.store, billing.ledger, now=self.now)
        operations.add("store.size", Operation(Nothing, self._size))
        of_accounts = ("account.suspend", "account.resume", "account.delete")
        operations.add_later(of_accounts, partial(self._add_account_operations, operations))
        people = self.people
        UserOperations(people.users, base_url=people.base_url, mailer=people.mailer).add_to(operations)
        PackOperations(billing.packs).add_to(operations)
        LedgerOperations(self.store, billing.archiver, now=self.now).add_to(operations)
        SupplierOperations(self.store, self.suppliers, now=self.now).add_to(operations)
        of_discover = ("discover.show", "discover.results")
        operations.add_later(of_discover, partial(self._add_discover_operations, operations))
        return operations

    def _add_account_operations(self, operations: Operations) -> None:
        from gateway.admin.account_operations import AccountOperations  # noqa: PLC0415 - 30 ms, which few commands need

        AccountOperations(self.store, self.billing.lifecycle, cancel_jobs=self.cancel_jobs).add_to(operations)

    def _add_discover_operations(self, operations: Operations) -> None:
        from gateway.admin.discover_operations import DiscoverOperations  # noqa: PLC0415 - as above

        DiscoverOperations(self.store).add_to(operations)

    @property
    def cancel_jobs(self) -> RemoveSome:
        """Return a function that ends the cohorts, jobs and sessions of a deleted account, one per transaction."""
        return self._end_one

    def _end_one(self, tx: Tx, account_id: str) -> int:
        from scheduler.jobs.cohorts.removal import destroy_one_of  # noqa: PLC0415 - 5 ms, only to delete an account
        from scheduler.jobs.job_runs import cancel_jobs_of  # noqa: PLC0415 - as above
        from scheduler.sessions.session_rows import close_sessions_of  # noqa: PLC0415 - as above

        return (
            destroy_one_of(tx, account_id, charges=self.billing.charges, now=self.now())
            or cancel_jobs_of(tx, account_id, charges=self.billing.charges, now=self.now)
            or close_sessions_of(tx, account_id, charges=self.billing.charges, now=self.now())
        )

    async def _size(self, _args: Nothing) -> dict[str, Any]:
        return await self.growth.report()

    def doubt(self) -> None:
        """Drop all keys and balances in memory, because updates from other nodes may have been lost."""
        self.billing.keys.forget_all()
        self.billing.balances.forget_all()


def _user_services(
    config: Config,
    secrets: Secrets,
    store: Store,
    cipher: Cipher,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    base_url: str,
) -> UserServices:
    mail, passwords = config.mail, Passwords()
    return UserServices(
        users=Users(store, passwords, now=now, make_id=make_id),
        sessions=UserSessions(store, passwords, now=now, make_id=make_id),
        second_factor=SecondFactor(store, cipher, now=now),
        mailer=Mailer(mail.smtp_url, mail.from_, secrets.smtp_password) if mail.smtp_url else None,
        base_url=base_url,
    )


def _ended(tx: Tx, key_ids: Sequence[str], *, now: Callable[[], float]) -> set[str]:
    return ended_keys(tx, key_ids, now())


@asynccontextmanager
async def open_stores(
    config: Config,
    secrets: Secrets,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    open_store: OpenStore = open_store,
    shared: Gate | None = None,
    base_url: str | None = None,
    publish: Callable[[Sequence[AppendedEvent]], None] = _ignore_appended,
    probe_disk: Probe | None = None,
) -> AsyncIterator[Stores]:
    """Open the store of `config`. Changes of keys and balances are published to `shared`, the nodes' shared gate.

    The links in events begin with `base_url` (default: the address in `config`). `publish` is called after each commit
    that appends events. It must neither raise nor block. `probe_disk` replaces the store's own disk check.

    Raises:
        StoreUnusable: the store is in use, not writable, corrupt or too new; the text says what to do.
    """
    async with open_store(config.store.url, MIGRATIONS) as store:
        begin = config.server.public_url(config.server.port) if base_url is None else base_url
        feed = EventLog(now=now, make_id=make_id, base_url=begin, publish=publish, ended=partial(_ended, now=now))
        disk = DiskWatch(store.disk if probe_disk is None else probe_disk, config.store.disk_floor_bytes)
        stores = _stores_on(store, config, secrets, feed, disk, now=now, make_id=make_id, shared=shared, base_url=begin)
        yield stores
        with suppress(StorageError):  # usage counts are not credits, so a failed last flush does no harm
            await stores.billing.usage.flush()


def _stores_on(
    store: Store,
    config: Config,
    secrets: Secrets,
    feed: EventLog,
    disk: DiskWatch,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    shared: Gate | None,
    base_url: str,
) -> Stores:
    cipher = Cipher(secrets.sealing)
    return Stores(
        store=store,
        billing=_billing(store, config, cipher, FeedOfBilling(feed, now=now), now=now, make_id=make_id, shared=shared),
        people=_user_services(config, secrets, store, cipher, now=now, make_id=make_id, base_url=base_url),
        feed=feed,
        cipher=cipher,
        disk=disk,
        growth=StoreGrowth(store, disk, now=now),
        suppliers=config.suppliers,
        now=now,
    )


def _billing(
    store: Store,
    config: Config,
    cipher: Cipher,
    events: FeedOfBilling,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    shared: Gate | None,
) -> Billing:
    balances, prefix, terms = Balances(store, shared), config.keys.prefix, config.ledger
    keys = Keys(store, cipher, now=now, make_id=make_id, prefix=prefix, shared=shared, billing_events=events)
    accounts = Accounts(store, balances, now=now, make_id=make_id)
    charges = Charges(store, balances, now=now, node=make_id("node_"), billing_events=events)
    on_sale = [Pack(one.name, one.credits, one.price_cents, one.currency, one.plan) for one in config.packs]
    packs = Packs(store, accounts, on_sale, now=now, make_id=make_id, billing_events=events)
    archive = Path(terms.archive) if terms.archive else None
    return Billing(
        accounts=accounts,
        lifecycle=Lifecycle(store, keys.changes, now=now, billing_events=events),
        keys=keys,
        balances=balances,
        charges=charges,
        packs=packs,
        payments=Payments(store, packs, accounts, charges, now=now, billing_events=events),
        ledger=Ledger(store, now=now, archive=archive, settling=charges.settling),
        archiver=Archiver(store, archive, detail_days=terms.detail_days) if archive else None,
        usage=FreeUsage(store, now=now),
    )
