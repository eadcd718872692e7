"""Builds the routing table of a node: account routes, data endpoints and the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from billing.ledger.free_usage import FreeUsage
from gateway.admin.operations import Operations
from gateway.api.app import Api, ApiSetting
from gateway.api.changes import Changes
from gateway.api.parsed_queries import ParsedQueries
from gateway.api.responses import Replies
from gateway.api.routes.batches import BatchRoutes
from gateway.api.routes.cohorts.cohorts import CohortRoutes
from gateway.api.routes.cohorts.queries import CohortQueryRoutes
from gateway.api.routes.consumers import ConsumerRoutes
from gateway.api.routes.credits import Credits
from gateway.api.routes.data import DataEndpoint
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
from gateway.http.routing import Route
from gateway.node.parts import Background, Serving
from scheduler.jobs.crawl.spec import PLATFORM
from scheduler.jobs.discover.run_drafts import PLATFORM as DISCOVER
from upstreams.catalog import Catalog

if TYPE_CHECKING:
    from gateway.dashboard.services import Services


def account_routes(
    serving: Serving, background: Background, *, replies: Replies, stopping: Callable[[], bool]
) -> list[Route]:
    """Return all routes that are not data endpoints.

    The routes of the web are included only if the node reads pages. Long reads end once `stopping` returns True.
    """
    stores, feed, calls, signer = serving.stores, serving.feed, serving.calls, serving.signer
    monitors, jobs, webhooks, reads = background.monitors, background.jobs, background.account_webhooks, stores.reads
    changes = Changes(calls.claims, replies)
    discover = DiscoverRunRoutes(
        jobs.discover, signer=signer, replies=replies, changes=changes, stopping=stopping, reads=reads
    )
    schedules = ScheduleRoutes(jobs.schedules, signer=signer, replies=replies, changes=changes)
    return [
        *Credits(stores.billing.ledger, signer=signer, replies=replies).routes,
        *PackRoutes(
            stores.billing.packs, background.payments.checkout, signer=signer, replies=replies, changes=changes
        ).routes,
        *Events(feed.readers, feed.polls, admission=serving.admission, signer=signer, replies=replies).routes,
        *ConsumerRoutes(feed.readers, signer=signer, replies=replies, changes=changes).routes,
        *MonitorRoutes(monitors.service, signer=signer, replies=replies, changes=changes, reads=reads).routes,
        *DeliveryRoutes(monitors.webhooks, signer=signer, replies=replies, changes=changes).routes,
        *WebhookRoutes(
            webhooks.service,
            webhooks.webhooks,
            signer=signer,
            replies=replies,
            changes=changes,
        ).routes,
        *MonitorPastRoutes(monitors.service, monitors.projections, replies=replies, reads=reads).routes,
        *BatchRoutes(calls, serving.catalog.sites, replies=replies).routes,
        *_web_routes(serving, background, replies=replies, changes=changes),
        *CohortRoutes(jobs.cohorts, replies=replies, changes=changes).routes,
        *CohortQueryRoutes(
            jobs.cohort_queries,
            signer=signer,
            replies=replies,
            changes=changes,
            stopping=stopping,
            reads=reads,
        ).routes,
        *((*discover.routes, *schedules.routes) if DISCOVER in serving.catalog.sites else ()),
    ]


def _web_routes(serving: Serving, background: Background, *, replies: Replies, changes: Changes) -> list[Route]:
    """Return the routes of the web that are not data endpoints. Empty if the node does not read pages."""
    site, jobs, service = serving.catalog.sites.get(PLATFORM), background.jobs, background.monitors.service
    signer, reads = serving.signer, serving.stores.reads
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
    monitors = WebMonitorRoutes(service, signer=signer, replies=replies, changes=changes, reads=reads)
    sessions = SessionRoutes(background.sessions, signer=signer, replies=replies, changes=changes)
    return [*of_jobs.routes, *sessions.routes, ParseRoute(serving.calls, site, replies).route, *monitors.routes]


def data_routes(catalog: Catalog, calls: BilledCalls, replies: Replies, usage: FreeUsage) -> list[Route]:
    """Return the routes of the catalog's endpoints."""
    queries = ParsedQueries()
    return [
        DataEndpoint(
            one, cost_credits=cost_of(one.endpoint), calls=calls, replies=replies, usage=usage, queries=queries
        ).route
        for one in catalog.all()
    ]


def api_of(
    entry: ApiSetting, serving: Serving, background: Background, operations: Operations, *, has_dashboard: bool
) -> Api:
    """Return the API's entry point, with the pages next to it. The dashboard calls an API without these pages."""
    dashboard = (Dashboard(partial(_services, entry, serving, background, operations)),) if has_dashboard else ()
    return Api(entry, (*dashboard, *background.payments.pages))


def _services(entry: ApiSetting, serving: Serving, background: Background, operations: Operations) -> Services:
    """Return the services of the dashboard's pages, whose modules are not imported at the start."""
    from billing.ledger.usage_report import UsageReports  # noqa: PLC0415 - see the docstring, also for the imports below
    from gateway.dashboard.calling import calls_of  # noqa: PLC0415
    from gateway.dashboard.services import Services  # noqa: PLC0415

    stores, monitors, description = serving.stores, background.monitors, entry.description
    people = stores.people
    return Services(
        accounts=stores.billing.accounts,
        keys=stores.billing.keys,
        ledger=stores.billing.ledger,
        usage=UsageReports(stores.store, now=stores.now),
        packs=stores.billing.packs,
        checkout=background.payments.checkout,
        users=people.users,
        sessions=people.sessions,
        second_factor=people.second_factor,
        monitors=monitors.service,
        jobs=background.jobs.service,
        discover=background.jobs.discover,
        schedules=background.jobs.schedules,
        cohorts=background.jobs.cohorts,
        cohort_queries=background.jobs.cohort_queries,
        webhooks=monitors.webhooks,
        account_webhooks=background.account_webhooks.service,
        account_deliveries=background.account_webhooks.webhooks,
        projections=monitors.projections,
        reads=stores.reads,
        events=serving.feed.readers.pages,
        operations=operations,
        reference=description.reference,
        guides=description.guides,
        call_api=calls_of(Api(entry)),
        proxies=entry.proxies,
        base_url=people.base_url,
        now=stores.now,
        log=entry.runtime.log,
    )
