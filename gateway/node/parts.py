"""The parts of a running node, in the order in which they are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.api.admission import Admission
from gateway.api.overload import Overload
from gateway.calls.execute import BilledCalls
from gateway.feed.service import Feed
from gateway.node.background.account_webhooks import AccountWebhookRuntime
from gateway.node.background.jobs import Jobs
from gateway.node.background.monitors import Monitors
from gateway.node.background.payments import PaymentRuntime
from gateway.node.background.suppliers import SupplierRecords
from gateway.node.membership import Membership
from gateway.node.stores import Stores
from gateway.observability.metrics import Metrics
from gateway.server.unsent import Unsent
from limits.gate import Gate
from scheduler.sessions.service import SessionService
from storage.state import State
from upstreams.cache.response_cache import Cache
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.cursors import CursorSigner

if TYPE_CHECKING:
    from upstreams.web.browser.rendering import Rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The parts on the path of a request, from the limits of its key to the upstream."""

    state: State | None
    """None if this node keeps its state in its own memory."""
    gate: Gate
    stores: Stores
    membership: Membership
    suppliers: SupplierRecords
    sites: list[Site]
    rendering: Rendering | None
    """None if no browser is configured."""
    catalog: Catalog
    cache: Cache
    feed: Feed
    signer: CursorSigner
    admission: Admission
    calls: BilledCalls
    metrics: Metrics
    unsent: Unsent
    """The server of the public address counts unsent data here."""
    overload: Overload


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The services whose work goes on after the response to a request."""

    jobs: Jobs
    monitors: Monitors
    account_webhooks: AccountWebhookRuntime
    sessions: SessionService
    payments: PaymentRuntime
