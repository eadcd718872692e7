"""Running a node: binding its addresses, serving both apps, and obeying the signals that reload and stop it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Literal

import orjson
import trio

from gateway.app import Node, Setting, open_node
from gateway.config import Config, ConfigError
from gateway.edge import plain_edge_answer
from gateway.logs import Log
from gateway.secrets import Secrets
from gateway.server.bounds import Bounds
from gateway.server.descriptors import connections_possible
from gateway.server.serve import serve_native
from upstreams.endpoint import Platform
from upstreams.platforms import load_platforms
from upstreams.sandbox.app import Behaviour, Sandbox


class AddressUnusable(Exception):
    """An address cannot be listened on; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a node is started with; `read_config` reads the file again for a reload."""

    config: Config
    read_config: Callable[[], Config]
    secrets: Secrets
    environ: Mapping[str, str]
    log: Log
    platforms: tuple[Platform, ...] = field(default_factory=load_platforms)


async def bind(host: str, port: int, *, key_path: str) -> list[trio.SocketListener]:
    """Listeners on one address; port 0 picks a free one.

    Raises:
        AddressUnusable: in use, or not ours to take.
    """
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc)
        raise AddressUnusable(f"cannot listen on {host}:{port}: {reason}; change {key_path}.port or .host") from exc


def port_of(listeners: list[trio.SocketListener]) -> int:
    """The port that listeners are really bound to."""
    port: int = listeners[0].socket.getsockname()[1]
    return port


@asynccontextmanager
async def open_served_node(start: Start) -> AsyncIterator[tuple[Node, dict[str, str]]]:
    """A node that serves both addresses; leaving drains it. Gives the node and the `listening` line's fields.

    Raises:
        AddressUnusable, StoreUnusable: it cannot start; the text says what to do.
    """
    config = start.config
    public = await bind(config.server.host, config.server.port, key_path="server")
    private = await bind(config.admin.host, config.admin.port, key_path="admin")
    url = config.server.public_url(port_of(public))
    admin_url = f"http://{_in_url(config.admin.host)}:{port_of(private)}"
    setting = Setting(
        config=config,
        read_config=start.read_config,
        secrets=start.secrets,
        environ=start.environ,
        base_url=url,
        log=start.log,
        platforms=start.platforms,
        now=time.time,
        rng=Random(),
    )
    async with open_node(setting) as node, trio.open_nursery() as private_side:
        admin_stop = trio.Event()
        await private_side.start(
            partial(serve_native, node.admin, private, shutdown=admin_stop, drain_s=1.0, edge_answer=node.edge_answer)
        )
        async with trio.open_nursery() as public_side:
            await public_side.start(
                partial(
                    _engine(config.server.engine),
                    node.api,
                    public,
                    shutdown=node.draining,
                    drain_s=config.server.drain_s,
                    edge_answer=node.edge_answer,
                    bounds=_bounds(config.server.max_connections, start.log),
                )
            )
            node.books.store.announce({"admin_url": admin_url})
            bound = f"http://{_in_url(config.server.host)}:{port_of(public)}"
            try:
                yield node, {"event": "listening", "url": bound, "admin_url": admin_url}
            finally:
                node.draining.set()
        admin_stop.set()


async def serve(start: Start) -> None:
    """Serve until SIGTERM or SIGINT, reloading on SIGHUP; a second signal to stop ends the process at once."""
    async with open_served_node(start) as (node, line):
        _tune_garbage_collection()
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            print_line(line)  # whoever has read it may send signals
            async for number in signals:
                if number != signal.SIGHUP:
                    break
                _reload(node, start.log)
        _end_at_once_on_another_signal()
        start.log.event("info", "draining", drain_s=start.config.server.drain_s)


@asynccontextmanager
async def open_sandbox(behaviour: Behaviour, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The upstream sandbox on a loopback address of its own; gives its url."""
    listeners = await bind(host, port, key_path="sandbox")
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


def print_line(line: Mapping[str, str]) -> None:
    """One JSON line on stdout, for whoever started us."""
    sys.stdout.buffer.write(orjson.dumps(dict(line), option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _engine(name: Literal["native", "hypercorn"]) -> Callable[..., Awaitable[None]]:
    """The server of this name; Hypercorn is imported only for who asks for it, since that takes a tenth of a start."""
    if name == "native":
        return serve_native
    from gateway.server.hypercorn_engine import serve_hypercorn  # noqa: PLC0415 - the docstring says why

    return serve_hypercorn


def _bounds(max_connections: int, log: Log) -> Bounds:
    """The public address's limits: no more connections than there are file descriptors for."""
    possible = connections_possible(max_connections)
    if possible < max_connections:
        log.event("info", "connections_limited", max_connections=max_connections, descriptors_allow=possible)
    return Bounds(connections=possible)


def _tune_garbage_collection() -> None:
    """Leave what the start made out of every collection, and collect less often: a request makes no cycles.

    Measured: 13 of 259 us CPU of a billed miss went to collections that found nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def _reload(node: Node, log: Log) -> None:
    try:
        log.event("info", "reloaded", **node.reload.run())
    except ConfigError as exc:
        log.event("error", "reload_refused", problems=exc.lines())


def _end_at_once_on_another_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
