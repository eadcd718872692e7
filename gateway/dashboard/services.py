"""The services that the pages call: the same services that the API uses. Pages never use the store directly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from billing.accounts.accounts import Accounts
from billing.keys.keys import Keys
from billing.ledger.transactions import Ledger
from billing.ledger.usage_report import UsageReports
from billing.packs.packs import Packs
from billing.users.second_factor import SecondFactor
from billing.users.sessions import UserSessions
from billing.users.users import Users
from events.log.reader import PageReader
from gateway.admin.operations import Operations
from gateway.docs.guide import Guides
from gateway.docs.operations import Reference
from gateway.http.forwarded import TrustedProxies
from gateway.observability.logs import Log
from limits.long_reads import LongReads
from scheduler.account_webhooks.service import AccountWebhooks
from scheduler.jobs.cohorts.queries import CohortQueries
from scheduler.jobs.cohorts.service import CohortService
from scheduler.jobs.discover.schedules.service import ScheduleService
from scheduler.jobs.discover.service import DiscoverService
from scheduler.jobs.service import JobService
from scheduler.monitors.history.projections import Projections
from scheduler.monitors.service import MonitorService
from scheduler.monitors.webhooks import Webhooks

if TYPE_CHECKING:
    from gateway.payments.checkout import Checkout


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call to the API as a client would make it, with the key to charge."""

    method: str
    target: str
    key: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The response that a client would get."""

    status: int
    headers: Mapping[str, str]
    body: bytes


CallApi = Callable[[ApiCall], Awaitable[ApiAnswer]]
"""Calls the API within this process. Such a call is admitted, limited and billed like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All services that the pages use."""

    accounts: Accounts
    keys: Keys
    ledger: Ledger
    usage: UsageReports
    packs: Packs
    checkout: Checkout | None
    users: Users
    sessions: UserSessions
    second_factor: SecondFactor
    monitors: MonitorService
    jobs: JobService
    discover: DiscoverService
    schedules: ScheduleService
    cohorts: CohortService
    cohort_queries: CohortQueries
    webhooks: Webhooks
    """The webhooks of Monitors."""
    account_webhooks: AccountWebhooks
    account_deliveries: Webhooks
    """The deliveries and secrets of the account's webhooks."""
    projections: Projections
    reads: LongReads
    events: PageReader
    operations: Operations
    reference: Reference
    guides: Guides
    call_api: CallApi
    proxies: TrustedProxies
    base_url: str
    now: Callable[[], float]
    log: Log
