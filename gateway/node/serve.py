"""Runs a node: binds its addresses, serves both apps, and reloads or stops on signals."""

from __future__ import annotations

import ctypes
import gc
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Literal

import msgspec
import orjson
import trio

from gateway.admin.app import BOUNDS as ADMIN_BOUNDS
from gateway.config import Config, ConfigError
from gateway.config.certificate import LiveCertificate
from gateway.config.secrets import Secrets
from gateway.config.settings import with_egress
from gateway.http.edge_answers import plain_edge_answer
from gateway.node.listeners import bind, in_url, port_of, share
from gateway.node.membership import MembershipPace
from gateway.node.node import Node, NodeSetting
from gateway.node.suppliers import SANDBOX_KEY, sandbox_suppliers
from gateway.node.wiring import open_node
from gateway.node.workers.worker import Worker, ignore_stop_signals, stop_on_end_of_input
from gateway.observability.logs import Log
from gateway.observability.standard_streams import STDOUT, print_out, write_all
from gateway.server.bounds import Bounds
from gateway.server.descriptors import connections_possible
from gateway.server.serve import serve_native
from limits.shared_gate import DEFAULT_SPANS, GateSpans
from storage.disk_watch import Probe
from storage.opening import exposures_of, open_store
from storage.supervision import Supervise, Supervision
from upstreams.guard.resolver import Resolve
from upstreams.index import load_indexed
from upstreams.model.endpoint import Platform

if TYPE_CHECKING:
    from upstreams.sandbox.app import Behaviour

_MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of glibc's malloc.h: blocks of at least this size get their own pages."""
_LONG_BLOCK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Start:
    """The values needed to start a node. `read_config` reads the config file again for a reload.

    `worker` is set for one of several processes that a supervisor started.
    """

    config: Config
    read_config: Callable[[], Config]
    secrets: Secrets
    environ: Mapping[str, str]
    log: Log
    platforms: tuple[Platform, ...] = field(default_factory=load_indexed)
    worker: Worker | None = None
    pace: MembershipPace = field(default_factory=MembershipPace)
    spans: GateSpans = DEFAULT_SPANS
    now: Callable[[], float] = time.time
    resolve: Resolve | None = None
    """Resolves host names that users specify. None means the system's resolver."""
    probe_disk: Probe | None = None
    """Measures the disk space of the store. None means the store's own check."""
    supervise: Supervise = Supervision
    new_store: bool = False
    """Whether to create a new store if the earlier one is missing."""

    def over_sandbox(self, egress: str) -> Start:
        """Return these values with the sandbox at `egress` as the upstream, and without the platforms' rate limits."""
        return replace(
            self,
            config=_over_sandbox(self.config, egress),
            read_config=lambda: _over_sandbox(self.read_config(), egress),
            environ={**self.environ, SANDBOX_KEY: "sandbox"},
            platforms=tuple(replace(one, pace=None) for one in self.platforms),
        )


def _over_sandbox(config: Config, egress: str) -> Config:
    return msgspec.structs.replace(with_egress(config, egress), suppliers=sandbox_suppliers())


@asynccontextmanager
async def open_served_node(start: Start) -> AsyncIterator[tuple[Node, dict[str, str]]]:
    """Open a node that serves both addresses, yield it with its `listening` line, and drain it on exit.

    Raises:
        AddressUnusable, ConfigError, StoreUnusable: the node cannot start; the message says what to do.
    """
    config = start.config
    certificate = LiveCertificate(config.server) if config.server.tls_cert else None
    taken = await _take_addresses(start)
    setting = _setting(start, config.server.public_url(taken.port))
    async with open_node(setting) as node, trio.open_nursery() as private_side:
        if certificate is not None:
            node.reload.renew_with(lambda new: certificate.renew(new.server))
        for warning in exposures_of(config.store.url):
            start.log.event("warning", "data_exposed", warning=warning)
        admin_stop = trio.Event()
        serve_admin = partial(
            serve_native, node.admin, taken.private, shutdown=admin_stop, drain_s=1.0, keep=node.runtime.keep
        )
        await private_side.start(partial(serve_admin, edge_answer=node.edge_answer, bounds=ADMIN_BOUNDS))
        # A worker must not listen earlier, because no other worker can accept the connections that the kernel assigns
        # to it.
        public = taken.public or await share(config.server.host, taken.port, change="server.port or .host")
        if config.server.shed:
            private_side.start_soon(node.runtime.keep, "overload", partial(node.overload.watch, admin_stop))
        async with trio.open_nursery() as public_side:
            await public_side.start(
                partial(
                    _engine(config.server.engine, node, sheds=config.server.shed, certificate=certificate),
                    public,
                    shutdown=node.draining,
                    drain_s=config.server.drain_s,
                    edge_answer=node.edge_answer,
                    bounds=_bounds(config.server.max_connections, start.log),
                    websocket_paths=node.api.websocket_paths,
                    unsent=node.unsent,
                    keep=node.runtime.keep,
                )
            )
            node.stores.store.announce({"admin_url": taken.announced_url})
            bound = config.server.listening_url(taken.port)
            try:
                yield node, {"event": "listening", "url": bound, "admin_url": taken.admin_url}
            finally:
                node.draining.set()
        admin_stop.set()


def _setting(start: Start, base_url: str) -> NodeSetting:
    return NodeSetting(
        config=start.config,
        read_config=start.read_config,
        secrets=start.secrets,
        environ=start.environ,
        base_url=base_url,
        log=start.log,
        platforms=start.platforms,
        now=start.now,
        rng=Random(),
        pace=start.pace,
        spans=start.spans,
        resolve=start.resolve,
        probe_disk=start.probe_disk,
        supervise=start.supervise,
        open_store=partial(open_store, new_store=start.new_store),
    )


async def serve(start: Start) -> None:
    """Serve until SIGTERM or SIGINT, and reload on SIGHUP. A second stop signal ends the process immediately.

    A worker also stops at its supervisor's request. After that, only the supervisor can end it immediately.
    """
    async with open_served_node(start) as (node, line):
        tune_garbage_collection()
        return_freed_blocks()
        if start.worker is not None:
            ignore_stop_signals()
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as watching:
                # before the line is printed, because its reader may send signals immediately
                watching.start_soon(announce, line, start.log)
                if start.worker is not None:
                    watching.start_soon(stop_on_end_of_input)
                async for number in signals:
                    if number != signal.SIGHUP:
                        break
                    _reload(node, start.log)
                watching.cancel_scope.cancel()
        if start.worker is None:
            _exit_on_next_signal()
        start.log.event("info", "draining", drain_s=start.config.server.drain_s)


@asynccontextmanager
async def open_sandbox(behaviour: Behaviour, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Open the upstream sandbox on its own loopback address, and yield its URL."""
    from upstreams.sandbox.app import Sandbox  # noqa: PLC0415 - few nodes have a sandbox

    listeners = await bind(host, port, change="--port or --host")
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        app = Sandbox(behaviour, Random(0))
        await nursery.start(
            partial(serve_native, app, listeners, shutdown=stop, drain_s=0.0, edge_answer=plain_edge_answer)
        )
        try:
            yield f"http://{host}:{port_of(listeners)}"
        finally:
            stop.set()


@dataclass(frozen=True, slots=True)
class _Addresses:
    """The bound addresses of a node. A worker's public address has no listeners until the worker is ready."""

    public: list[trio.SocketListener]
    port: int
    private: list[trio.SocketListener]
    admin_url: str
    announced_url: str
    """The admin address that operators' commands use."""


async def _take_addresses(start: Start) -> _Addresses:
    server, admin, worker = start.config.server, start.config.admin, start.worker
    if worker is not None:
        private = await bind("127.0.0.1", 0, change="admin.port or .host")
        return _Addresses([], worker.port, private, f"http://127.0.0.1:{port_of(private)}", worker.admin_url)
    public = await bind(server.host, server.port, change="server.port or .host")
    private = await bind(admin.host, admin.port, change="admin.port or .host")
    admin_url = f"http://{in_url(admin.host)}:{port_of(private)}"
    return _Addresses(public, port_of(public), private, admin_url, admin_url)


def print_line(line: Mapping[str, str]) -> None:
    """Print one JSON line on stdout, for the process that started this one."""
    write_all(STDOUT, _encoded(line))


async def announce(line: Mapping[str, str], log: Log) -> None:
    """Print a line with `print_line` in the background. A full or closed stdout does not affect the node."""
    try:
        await print_out(_encoded(line))
    except OSError as exc:
        log.event("warning", "not_announced", error=str(exc), line=dict(line))


def _encoded(line: Mapping[str, str]) -> bytes:
    return orjson.dumps(dict(line), option=orjson.OPT_APPEND_NEWLINE)


def _engine(
    name: Literal["native", "hypercorn"], node: Node, *, sheds: bool, certificate: LiveCertificate | None
) -> Callable[..., Awaitable[None]]:
    """Return the server with this name, bound to the node's API.

    Hypercorn is imported only if the config selects it, because the import takes a tenth of the start time.
    """
    if name == "native":
        return partial(serve_native, node.api, shedding=node.overload if sheds else None)
    from gateway.server.hypercorn import serve_hypercorn  # noqa: PLC0415 - see the docstring

    app = node.overload.guard(node.api) if sheds else node.api
    return partial(serve_hypercorn, app, tls=None if certificate is None else certificate.context)


def _bounds(max_connections: int, log: Log) -> Bounds:
    """Return the limits of the public address. File descriptors limit the number of connections."""
    possible = connections_possible(max_connections)
    if possible < max_connections:
        log.event("info", "connections_limited", max_connections=max_connections, descriptors_allow=possible)
    return Bounds(connections=possible)


def tune_garbage_collection() -> None:
    """Exclude all objects created so far from garbage collection, collect less often, and start to collect.

    Requests create no reference cycles. Of the 259 us of CPU for a billed miss, collections that found nothing took 13
    us. The threshold must not be too high, because rarer collections cause longer pauses. At 50,000 objects between two
    young collections, ten thousand parked polls caused pauses of 100 ms. A full collection takes as long with that many
    polls, but happens only once in several hours.

    This function does not collect garbage itself. That would add 45 ms to the start and find only 20 objects. For the
    same reason, commands that start a node disable collection until then, which saves a tenth of the start.
    """
    gc.freeze()
    gc.set_threshold(5_000, 2, 10_000)
    gc.enable()


def return_freed_blocks() -> None:
    """Make malloc return the memory of each long body to the system as soon as the body is freed.

    Only glibc has a setting for this. By default, freed blocks stay in the process for reuse, scattered among blocks
    that are still in use. In a test with 200 bodies of 1.5 MB, of which 64 MB existed at a time, a node used up to 199
    MB. With this setting it used 84 MB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LONG_BLOCK_BYTES)


def _reload(node: Node, log: Log) -> None:
    try:
        log.event("info", "reloaded", **node.reload.run())
    except ConfigError as exc:
        log.event("error", "reload_refused", problems=exc.lines())


def _exit_on_next_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
