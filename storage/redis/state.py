"""The shared state in Redis or Valkey: a single server, a Cluster, or servers behind Sentinel."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial

import trio
from coredis.exceptions import RedisError

from storage.errors import StateUnavailable
from storage.link_log import LinkLog
from storage.redis.call import RedisCall, script_call
from storage.redis.channels import Channels
from storage.redis.link import ROUND_TRIP_S, RedisLink
from storage.redis.routes import Cluster, SingleServer
from storage.redis.urls import Access, Address, RedisUrl, read_url
from storage.redis.wire import FAULTS, RedisConnection, open_connection
from storage.state import Reply, Script, StateStatistics
from storage.supervision import Keep, unsupervised

START_S = 2.0
CLOSE_S = 0.5
DRAIN_TICK_S = 0.005
CHUNK = 500
ASK_S = 0.2

_log = logging.getLogger(__name__)


class RedisState:
    """The shared state on Redis (see `State`). Owns the links, which report to it."""

    def __init__(self) -> None:
        self.routes: SingleServer | Cluster
        self._channels = Channels()
        self._callbacks: list[Callable[[], None]] = []
        self._changed = trio.Event()

    @property
    def fault(self) -> str | None:
        """Like `State.fault`."""
        return self.routes.fault

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Like `State.run`."""
        return await self._ask(script_call(script, keys, args))

    async def run_all(
        self, script: Script, calls: Sequence[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> list[Reply | Exception]:
        """Like `State.run_all`."""
        outcomes: list[Reply | Exception] = []
        for first in range(0, len(calls), CHUNK):
            chunk = [script_call(script, keys, args) for keys, args in calls[first : first + CHUNK]]
            for call in chunk:
                self._submit_or_fail(call)
            for call in chunk:
                try:
                    outcomes.append(await call.wait())
                except StateUnavailable as exc:
                    outcomes.append(exc)
        await trio.lowlevel.checkpoint()
        return outcomes

    def run_nowait(
        self, script: Script, keys: Sequence[bytes], args: Sequence[bytes], on_loss: Callable[[], None] | None = None
    ) -> bool:
        """Like `State.run_nowait`."""
        return self._submit_or_fail(script_call(script, keys, args, on_loss))

    async def call(self, name: bytes, key: bytes, *args: bytes) -> Reply:
        """Like `State.call`."""
        return await self._ask(RedisCall([name, key, *args], key))

    def call_nowait(self, name: bytes, key: bytes, *args: bytes, on_loss: Callable[[], None] | None = None) -> bool:
        """Like `State.call_nowait`."""
        return self._submit_or_fail(RedisCall([name, key, *args], key, on_loss=on_loss))

    def publish(self, channel: bytes, message: bytes) -> bool:
        """Like `State.publish`."""
        return self._submit_or_fail(RedisCall([b"PUBLISH", channel, message], channel))

    def subscribe(self, channel: bytes) -> AbstractAsyncContextManager[trio.MemoryReceiveChannel[bytes]]:
        """Like `State.subscribe`."""
        return self._channels.subscribe(channel)

    def on_connect(self, callback: Callable[[], None]) -> None:
        """Like `State.on_connect`."""
        self._callbacks.append(callback)

    def statistics(self) -> StateStatistics:
        """Like `State.statistics`, for the current links."""
        links = list(self.routes.links())
        return StateStatistics(
            waiting=sum(link.waiting for link in links),
            calls=sum(link.calls for link in links),
            round_trips=sum(link.round_trips for link in links),
            lost=sum(link.lost for link in links),
            connects=sum(link.connects for link in links),
        )

    async def _ask(self, call: RedisCall) -> Reply:
        self.routes.link_of(call.key).submit(call)
        return await call.wait()

    def _submit_or_fail(self, call: RedisCall) -> bool:
        try:
            self.routes.link_of(call.key).submit(call)
        except StateUnavailable as exc:
            call.fail(str(exc))
            return False
        return True

    def connected(self, link: RedisLink) -> None:
        """Like `Owner.connected`."""
        self._channels.connected(link)
        for callback in self._callbacks:
            callback()
        self._changed.set()

    def lost(self, link: RedisLink) -> None:
        """Like `Owner.lost`."""
        self._channels.lost(link)
        self.routes.link_lost()

    def pushed(self, message: Reply) -> None:
        """Like `Owner.pushed`."""
        self._channels.pushed(message)

    def refused(self, call: RedisCall, error: RedisError) -> bool:
        """Like `Owner.refused`."""
        return self.routes.refused(call, error)

    async def wait_connected(self) -> None:
        """Wait until no link has a fault."""
        while self.fault is not None:
            self._changed = trio.Event()
            await self._changed.wait()

    async def drain(self) -> None:
        """Wait until all queued calls, such as the last releases, have an outcome. The caller sets the deadline."""
        while self.statistics().waiting:  # noqa: ASYNC110 - only at the end; an event would slow every call
            await trio.sleep(DRAIN_TICK_S)


@asynccontextmanager
async def open_redis(
    url: str, *, round_trip_s: float = ROUND_TRIP_S, start_s: float = START_S, keep: Keep = unsupervised
) -> AsyncIterator[RedisState]:
    """Open the state at `url`. If the server is unavailable, yield the state after `start_s`, and keep connecting.

    Raises:
        StoreUnusable: the address is invalid.
    """
    where, state = read_url(url), RedisState()
    async with trio.open_nursery() as nursery:
        _start(where, state, nursery, round_trip_s, keep=keep)
        with trio.move_on_after(start_s):
            await state.wait_connected()
        try:
            yield state
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await state.drain()
            nursery.cancel_scope.cancel()


def _start(where: RedisUrl, state: RedisState, nursery: trio.Nursery, round_trip_s: float, *, keep: Keep) -> None:
    if where.form == "cluster":
        cluster = Cluster(where.addresses, where.access, round_trip_s=round_trip_s, nursery=nursery, keep=keep)
        state.routes = cluster
        nursery.start_soon(keep, "cluster_map", partial(cluster.run, state))
        return
    if where.form == "sentinel":
        connect = partial(open_primary, where.addresses, where.service, where.access)
    else:
        connect = partial(open_connection, where.addresses[0], where.access)
    link = RedisLink(connect, state, round_trip_s=round_trip_s, log=LinkLog("Redis"))
    state.routes = SingleServer(link)
    nursery.start_soon(keep, "state_link", link.run)


@asynccontextmanager
async def open_primary(sentinels: Sequence[Address], service: str, access: Access) -> AsyncIterator[RedisConnection]:
    """Connect to the primary of a service. The password is used only for the servers, not for the sentinels.

    Raises:
        One of FAULTS: the sentinels report no primary, or the server that they report is not a primary.
    """
    async with open_connection(await _find_primary(sentinels, service, access), access) as connection:
        role = await connection.ask(b"ROLE")
        if not isinstance(role, list) or role[0] != b"master":
            raise trio.BrokenResourceError("the server reported by the sentinels is not a primary")
        yield connection


async def _find_primary(sentinels: Sequence[Address], service: str, access: Access) -> Address:
    bare = replace(access, username="", password="", db=0)
    for sentinel in sentinels:
        with trio.move_on_after(ASK_S):
            try:
                async with open_connection(sentinel, bare) as connection:
                    address = await connection.ask(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.encode())
            except FAULTS as exc:
                _log.debug("cannot query the sentinel %s:%d: %s", *sentinel, exc)
                continue
            match address:
                case [bytes() as host, bytes() as port]:
                    return host.decode(), int(port)
    raise trio.BrokenResourceError(f"no sentinel monitors the service {service!r}")
