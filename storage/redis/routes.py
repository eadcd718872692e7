"""Chooses the link for calls on a key. In a cluster, it is the link to the server that has the key's slot."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from random import Random

import trio
from coredis.exceptions import AskError, MovedError, RedisError

from storage.errors import StateUnavailable
from storage.link_log import LinkLog
from storage.redis.call import SLOTS, RedisCall, slot_of
from storage.redis.link import CONNECT_S, Owner, RedisLink
from storage.redis.urls import Access, Address
from storage.redis.wire import FAULTS, open_connection
from storage.state import Reply
from storage.supervision import Keep

MOVES_MAX = 3
SCOUT_S = 0.2  # the interval for reading the map again while it is outdated
QUIET_SCOUT_S = 30.0

_log = logging.getLogger(__name__)


class SingleServer:
    """The route to a single server, or to the primary that Sentinel reports."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    @property
    def fault(self) -> str | None:
        """Why some keys cannot be used now; None if all can."""
        return self._link.fault

    def links(self) -> Iterable[RedisLink]:
        """Return all links."""
        return (self._link,)

    def link_of(self, key: bytes) -> RedisLink:  # noqa: ARG002 - one for all keys
        """Return the link for a key."""
        return self._link

    def refused(self, call: RedisCall, error: RedisError) -> bool:  # noqa: ARG002 - there is nowhere else to go
        """Return False: a single server has no other link to retry on."""
        return False

    def link_lost(self) -> None:
        """Do nothing, because the link reconnects automatically."""


class Cluster:
    """A link to each server that has slots. The map of slots is read again when a slot has moved or a link is lost."""

    def __init__(
        self, seeds: Sequence[Address], access: Access, *, round_trip_s: float, nursery: trio.Nursery, keep: Keep
    ) -> None:
        self._seeds = seeds
        self._access = access
        self._round_trip_s = round_trip_s
        self._nursery = nursery
        self._keep = keep
        self._owner: Owner | None = None
        self._links: dict[Address, tuple[RedisLink, trio.CancelScope]] = {}
        self._slots: list[Address | None] = [None] * SLOTS
        self._outdated = trio.Event()
        self._rng = Random()

    @property
    def fault(self) -> str | None:
        """Like `SingleServer.fault`."""
        if not self._links or None in self._slots:
            return "some slots of the cluster have no server"
        return next((link.fault for link, _ in self._links.values() if link.fault is not None), None)

    def links(self) -> Iterable[RedisLink]:
        """Return the links to the servers in the map."""
        return [link for link, _ in self._links.values()]

    def link_of(self, key: bytes) -> RedisLink:
        """Return the link to the server of the key's slot. Raises StateUnavailable if the slot has none."""
        address = self._slots[slot_of(key)]
        if address is None:
            raise StateUnavailable("the key's slot has no server")
        return self._links[address][0]

    def refused(self, call: RedisCall, error: RedisError) -> bool:
        """Retry the call if its slot has moved or is moving, otherwise return False.

        A retry is safe, because a refused call has had no effect.
        """
        if not isinstance(error, MovedError | AskError) or call.moves >= MOVES_MAX:
            return False
        if call.is_left:
            return True
        call.moves += 1
        link = self._link_to((error.host, error.port))
        try:
            if isinstance(error, AskError):
                link.submit(RedisCall([b"ASKING"], call.key))
            else:
                self._slots[error.slot_id] = (error.host, error.port)
                self._outdated.set()
            link.submit(call)
        except StateUnavailable as exc:
            call.fail(str(exc))
        return True

    def link_lost(self) -> None:
        """Read the map of slots again, because other servers may have the slots of the lost one now."""
        self._outdated.set()

    async def run(self, owner: Owner) -> None:
        """Until cancelled, keep the map of slots up to date."""
        self._owner = owner
        while True:
            self._outdated = trio.Event()
            is_read = await self._scout()
            if not is_read or self.fault is not None:
                await trio.sleep(SCOUT_S)
                continue
            with trio.move_on_after(QUIET_SCOUT_S):
                await self._outdated.wait()

    async def _scout(self) -> bool:
        """Read the map of slots from the first server that responds. Return False if none does."""
        up = [address for address, (link, _) in self._links.items() if link.fault is None]
        self._rng.shuffle(up)
        others = [address for address in (*self._links, *self._seeds) if address not in up]
        for address in dict.fromkeys((*up, *others)):
            with trio.move_on_after(CONNECT_S):
                try:
                    async with open_connection(address, self._access) as connection:
                        self._take_map(address, await connection.ask(b"CLUSTER", b"SLOTS"))
                        return True
                except FAULTS as exc:
                    _log.debug("%s:%d did not return the slots: %s", *address, exc)
        return False

    def _take_map(self, sender: Address, entries: Reply) -> None:
        slots: list[Address | None] = [None] * SLOTS
        assert isinstance(entries, list)
        for entry in entries:
            match entry:
                case [int(first), int(last), [(bytes() | None) as host, int(port), *_], *_]:
                    # Without a host name, the server that sent the entry has the slots.
                    primary = host.decode() if host else sender[0], port
                    slots[first : last + 1] = [primary] * (last + 1 - first)
        for address in {address for address in slots if address is not None}:
            self._link_to(address)
        self._slots = slots
        for address in self._links.keys() - set(slots):
            self._links.pop(address)[1].cancel()

    def _link_to(self, address: Address) -> RedisLink:
        known = self._links.get(address)
        if known is None:
            assert self._owner is not None
            connect = partial(open_connection, address, self._access)
            log = LinkLog(f"Redis at {address[0]}:{address[1]}")
            link = RedisLink(connect, self._owner, round_trip_s=self._round_trip_s, log=log)
            known = link, trio.CancelScope()
            self._links[address] = known
            self._nursery.start_soon(self._run_within, *known)
        return known[0]

    async def _run_within(self, link: RedisLink, scope: trio.CancelScope) -> None:
        with scope:
            await self._keep("state_link", link.run)
