"""Builds the routing table of a node: account routes, data endpoints and the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from billing.ledger.free_usage import FreeUsage
from gateway.admin.operations import Operations
from gateway.api.admission import Admission
from gateway.api.app import Api, Parts
from gateway.api.changes import Changes
from gateway.api.responses import Replies
from gateway.api.routes.batches import BatchRoutes
from gateway.api.routes.cohorts.cohorts import CohortRoutes
from gateway.api.routes.cohorts.queries import CohortQueryRoutes
from gateway.api.routes.consumers import ConsumerRoutes
from gateway.api.routes.credits import Credits
from gateway.api.routes.data import DataEndpoint, Readings
from gateway.api.routes.discover.runs import DiscoverRunRoutes
from gateway.api.routes.discover.schedules import ScheduleRoutes
from gateway.api.routes.events import Events
from gateway.api.routes.jobs import JobRoutes
from gateway.api.routes.monitor_past import MonitorPastRoutes
from gateway.api.routes.monitors import MonitorRoutes
from gateway.api.routes.packs import PackRoutes
from gateway.api.routes.parse import ParseRoute
from gateway.api.routes.web.sessions import SessionRoutes
from gateway.api.routes.web_monitors import WebMonitorRoutes
from gateway.api.routes.webhooks.account import WebhookRoutes
from gateway.api.routes.webhooks.deliveries import DeliveryRoutes
from gateway.calls.execute import BilledCalls
from gateway.calls.pricing import cost_of
from gateway.dashboard.site import Dashboard
from gateway.feed.service import Feed
from gateway.http.routing import Route
from gateway.node.background.account_webhooks import AccountWebhookRuntime
from gateway.node.background.jobs import Jobs
from gateway.node.background.monitors import Monitors
from gateway.node.background.payments import PaymentRuntime
from gateway.node.stores import Stores
from scheduler.jobs.crawl.spec import PLATFORM
from scheduler.jobs.discover.run_drafts import PLATFORM as DISCOVER
from scheduler.sessions.service import SessionService
from upstreams.catalog import Catalog
from upstreams.model.cursors import CursorSigner

if TYPE_CHECKING:
    from gateway.dashboard.services import Services


class RouteParts(NamedTuple):
    """The parts of a node that the routes use."""

    stores: Stores
    feed: Feed
    monitors: Monitors
    jobs: Jobs
    sessions: SessionService
    account_webhooks: AccountWebhookRuntime
    payments: PaymentRuntime
    catalog: Catalog
    stopping: Callable[[], bool]


def account_routes(
    calls: BilledCalls, parts: RouteParts, *, admission: Admission, signer: CursorSigner, replies: Replies
) -> list[Route]:
    """Return all routes that are not data endpoints.

    Routes for the web platform are included only if the node serves it.
    """
    feed, monitors, jobs, reads = parts.feed, parts.monitors, parts.jobs, parts.stores.reads
    changes = Changes(calls.claims, replies)
    web = _web_routes(calls, parts, signer=signer, replies=replies, changes=changes)
    discover = DiscoverRunRoutes(
        jobs.discover, signer=signer, replies=replies, changes=changes, stopping=parts.stopping, reads=reads
    )
    schedules = ScheduleRoutes(jobs.schedules, signer=signer, replies=replies, changes=changes)
    return [
        *Credits(parts.stores.ledger, signer=signer, replies=replies).routes,
        *PackRoutes(
            parts.stores.packs, parts.payments.checkout, signer=signer, replies=replies, changes=changes
        ).routes,
        *Events(feed.readers, feed.polls, admission=admission, signer=signer, replies=replies).routes,
        *ConsumerRoutes(feed.readers, signer=signer, replies=replies, changes=changes).routes,
        *MonitorRoutes(monitors.service, signer=signer, replies=replies, changes=changes, reads=reads).routes,
        *DeliveryRoutes(monitors.webhooks, signer=signer, replies=replies, changes=changes).routes,
        *WebhookRoutes(
            parts.account_webhooks.service,
            parts.account_webhooks.webhooks,
            signer=signer,
            replies=replies,
            changes=changes,
        ).routes,
        *MonitorPastRoutes(monitors.service, monitors.projections, replies=replies, reads=reads).routes,
        *BatchRoutes(calls, parts.catalog.sites, replies=replies).routes,
        *web,
        *CohortRoutes(jobs.cohorts, replies=replies, changes=changes).routes,
        *CohortQueryRoutes(
            jobs.cohort_queries,
            signer=signer,
            replies=replies,
            changes=changes,
            stopping=parts.stopping,
            reads=reads,
        ).routes,
        *((*discover.routes, *schedules.routes) if DISCOVER in parts.catalog.sites else ()),
    ]


def _web_routes(
    calls: BilledCalls, parts: RouteParts, *, signer: CursorSigner, replies: Replies, changes: Changes
) -> list[Route]:
    """Return the web platform's routes that are not data endpoints. Empty if the node does not serve the platform."""
    site, jobs, reads = parts.catalog.sites.get(PLATFORM), parts.jobs, parts.stores.reads
    if site is None:
        return []
    of_jobs = JobRoutes(
        jobs.service,
        jobs.recipes,
        jobs.hooks,
        jobs.webhooks,
        signer=signer,
        replies=replies,
        changes=changes,
        reads=reads,
    )
    monitors = WebMonitorRoutes(parts.monitors.service, signer=signer, replies=replies, changes=changes, reads=reads)
    sessions = SessionRoutes(parts.sessions, signer=signer, replies=replies, changes=changes)
    return [*of_jobs.routes, *sessions.routes, ParseRoute(calls, site, replies).route, *monitors.routes]


def data_routes(catalog: Catalog, calls: BilledCalls, replies: Replies, usage: FreeUsage) -> list[Route]:
    """Return the routes of the catalog's endpoints."""
    readings = Readings()
    return [
        DataEndpoint(
            one, cost_credits=cost_of(one.endpoint), calls=calls, replies=replies, usage=usage, readings=readings
        ).route
        for one in catalog.all()
    ]


def api_of(entry: Parts, parts: RouteParts, operations: Operations, *, has_dashboard: bool) -> Api:
    """Return the app that serves the API and the pages next to it."""
    api = Api(entry)
    dashboard = (_dashboard_of(api, entry, parts, operations),) if has_dashboard else ()
    api.adjacent_pages = (*dashboard, *parts.payments.pages)
    return api


def _dashboard_of(api: Api, entry: Parts, parts: RouteParts, operations: Operations) -> Dashboard:
    """Add links to the dashboard to the other pages, and return the dashboard, which uses the services of `api`."""
    entry.description.pages.has_dashboard = True
    return Dashboard(partial(_services, api, entry, parts, operations))


def _services(api: Api, entry: Parts, parts: RouteParts, operations: Operations) -> Services:
    """Return the services that the dashboard's pages use. The pages' modules are imported later."""
    from billing.ledger.usage_report import UsageReports  # noqa: PLC0415 - see the docstring, also for the imports below
    from gateway.dashboard.calling import calls_of  # noqa: PLC0415
    from gateway.dashboard.services import Services  # noqa: PLC0415

    stores, monitors, description = parts.stores, parts.monitors, entry.description
    people = stores.people
    return Services(
        accounts=stores.accounts,
        keys=stores.keys,
        ledger=stores.ledger,
        usage=UsageReports(stores.store, now=stores.now),
        packs=stores.packs,
        checkout=parts.payments.checkout,
        users=people.users,
        sessions=people.sessions,
        second_factor=people.second_factor,
        monitors=monitors.service,
        jobs=parts.jobs.service,
        discover=parts.jobs.discover,
        schedules=parts.jobs.schedules,
        cohorts=parts.jobs.cohorts,
        cohort_queries=parts.jobs.cohort_queries,
        webhooks=monitors.webhooks,
        account_webhooks=parts.account_webhooks.service,
        account_deliveries=parts.account_webhooks.webhooks,
        projections=monitors.projections,
        reads=stores.reads,
        events=parts.feed.readers.pages,
        operations=operations,
        reference=description.reference,
        guides=description.guides,
        call_api=calls_of(api),
        proxies=entry.proxies,
        base_url=people.base_url,
        now=stores.now,
        log=entry.runtime.log,
    )
