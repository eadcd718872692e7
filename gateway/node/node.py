"""The values of a node: its setting, and its parts when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import trio

from gateway.admin.app import Admin
from gateway.admin.operations import Operations
from gateway.api.admission import Admission
from gateway.api.app import Api
from gateway.api.overload import Overload
from gateway.api.routes.description import Description
from gateway.calls.execute import BilledCalls
from gateway.config.secrets import Secrets
from gateway.config.settings import Config
from gateway.feed.service import Feed
from gateway.node.background.monitors import Monitors
from gateway.node.background.suppliers import SupplierRecords
from gateway.node.membership import Membership, MembershipPace
from gateway.node.reload import Reload
from gateway.node.sites import OpenExchange, open_exchange
from gateway.node.state import OpenState, open_state
from gateway.node.stores import OpenStore, Stores
from gateway.observability.logs import Log
from gateway.observability.metrics import Metrics
from gateway.runtime import Runtime
from gateway.server.errors import EdgeAnswer
from gateway.server.unsent import Unsent
from limits.shared_gate import DEFAULT_SPANS, GateSpans
from storage.disk_watch import Probe
from storage.opening import open_store
from storage.state import State
from storage.supervision import Supervise, Supervision
from upstreams.catalog import Catalog
from upstreams.guard.resolver import Resolve
from upstreams.model.endpoint import Platform


@dataclass(frozen=True, slots=True)
class Node:
    """A running node: the apps of its two addresses, and the parts that they use."""

    runtime: Runtime
    api: Api
    admin: Admin
    stores: Stores
    state: State | None
    """The state shared with other nodes. None if this node keeps its state in memory."""
    membership: Membership
    suppliers: SupplierRecords
    catalog: Catalog
    admission: Admission
    calls: BilledCalls
    operations: Operations
    reload: Reload
    feed: Feed
    edge_answer: EdgeAnswer
    monitors: Monitors
    unsent: Unsent
    """Counts the data that clients of the public address have not read yet."""
    overload: Overload
    metrics: Metrics
    description: Description
    supervision: Supervision

    def calls_charged(self) -> int:
        """Return the number of calls that this node has charged since its start, for requests and for monitor runs."""
        ended = self.monitors.runs.ended
        return self.metrics.charged_total() + ended["ok"] + ended["partial"]

    @property
    def draining(self) -> trio.Event:
        """Return the event that is set when the node begins to stop."""
        return self.runtime.stopping


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """The setting of a node: config with its reader, secrets, public address, log and platforms.

    A test can run a whole node in isolation, because clock, randomness, store, state and upstreams are parameters.
    """

    config: Config
    read_config: Callable[[], Config]
    secrets: Secrets
    environ: Mapping[str, str]
    base_url: str
    log: Log
    platforms: Sequence[Platform]
    now: Callable[[], float]
    """Returns Unix seconds. Also called on the store's thread."""
    rng: Random
    open_store: OpenStore = open_store
    open_state: OpenState = open_state
    open_exchange: OpenExchange = open_exchange
    supervise: Supervise = Supervision
    pace: MembershipPace = field(default_factory=MembershipPace)
    spans: GateSpans = DEFAULT_SPANS
    resolve: Resolve | None = None
    """Resolves host names that users specify. None means the system's resolver."""
    keeps_time: bool = True
    """If False, monitors do not run on schedule, but only at an operator's request."""
    probe_disk: Probe | None = None
    """Measures the disk space of the store. None means the store's own check."""
