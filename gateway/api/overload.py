"""Overload protection for the public address: measures how late the node runs, and refuses excess requests.

A request is refused before any work is done for it: no account is looked up and no counter changes (before step 2 of
decisions 5). The response is prepared in advance, except for the request's id and the date. Requests in progress, the
events feed and the status endpoint are never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from billing.errors import KeyUnusable
from billing.keys.keys import Keys
from events.waking.notifier import Hub
from gateway.api.routes.status import STATUS_PATH
from gateway.calls.execute import BilledCalls
from gateway.http import envelope
from gateway.http.errors import Refused
from gateway.runtime import Runtime
from gateway.server.asgi import ASGIApp, Receive, Scope, Send
from gateway.server.unsent import Unsent
from limits.gate import Gate
from limits.overload.shedding import LoadShedder, SheddingStatistics
from storage.batching import BATCH_MAX
from storage.store import Store
from upstreams.fetching.site import Site

RETRY_AFTER_S: Final = 1
LAG_S: Final = 0.009
"""The maximum delay of the event loop, in seconds.

A request needs several passes of the loop, so its total wait is several times as long.
"""
WRITES_MAX: Final = 2 * BATCH_MAX
"""How many writes may wait for the writer. This is enough for two commits."""
TICK_S: Final = 0.025
WARY_TICK_S: Final = 0.005
PEAK_DECAY: Final = 0.99
LINES_APART_S: Final = 10.0
EVENTS_PATH: Final = "/v1/events"
MESSAGE: Final = (
    "The node has more requests than it can serve at the moment; nothing was charged. Try again in a second."
)
_ID = b"req_" + bytes(32)
"""A placeholder with the length of a request id. It occurs nowhere else in the response."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Functions that measure a node's load.

    `busy` and `writes` are called only while the loop is late or was late recently.
    """

    busy: Callable[[], int]
    """Number of requests in progress, except requests that wait for an upstream or for events."""
    writes: Callable[[], int]
    """Number of writes that wait for the store."""
    is_known: Callable[[bytes], bool]
    """Whether a key is known to be valid, without reading the store."""


class Overload:
    """Watches one node's load and refuses excess requests.

    Every request reads `active`, which is nearly always false.
    """

    def __init__(
        self,
        load: NodeLoad,
        *,
        runtime: Runtime,
        base_url: str,
    ) -> None:
        self.active = False
        self.lag_s = 0.0
        """The worst lag of the last seconds, in seconds. Older values decay."""
        self._shedder = LoadShedder(load.is_known)
        self._load = load
        self._clock = runtime.clock
        self._make_id = runtime.make_id
        self._log = runtime.log
        self._rng = runtime.rng
        self._line_at = -LINES_APART_S
        self._spell: _Spell | None = None
        refused = Refused("SERVICE_UNAVAILABLE", MESSAGE)
        body = envelope.failure(refused, request_id=_ID.decode(), credits_used=0, balance=None, base_url=base_url)
        self._body = body.split(_ID)
        self._fields = [
            (b"content-type", b"application/json"),
            (b"retry-after", b"%d" % RETRY_AFTER_S),
            (b"content-length", b"%d" % len(body)),
        ]
        lines = (b"server: sluice", *(b"%b: %b" % field for field in self._fields), b"x-request-id: " + _ID, b"", body)
        self._answer = b"\r\n".join(lines).split(_ID)

    def is_active(self) -> bool:
        """Return whether requests may be refused now."""
        return self.active

    def refuses(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether to refuse this request. Call it once per request while `active`."""
        if path in (STATUS_PATH, EVENTS_PATH) or path.startswith(EVENTS_PATH + "/"):
            return False
        key = None
        for name, value in headers:
            if name == b"x-api-key":
                key = value
            elif name == b"authorization" and key is None:
                key = value.rpartition(b" ")[2]
        return not self._shedder.admits(key)

    def answer(self, date: bytes) -> bytes:
        """Return the complete response of a refused request, for a connection that stays open.

        `date` is the Date header line.
        """
        first, second, third = self._answer
        request_id = self._make_id("req_").encode()
        return b"HTTP/1.1 503 Service Unavailable\r\n%b\r\n%b%b%b%b%b" % (
            date, first, request_id, second, request_id, third,
        )  # fmt: skip

    async def refuse(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Refuse a request, as an ASGI app."""
        request_id = self._make_id("req_").encode()
        body = request_id.join(self._body)
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        headers = [*self._fields, (b"x-request-id", request_id)]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else body})

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Wrap an app, for servers that do not check for overload themselves."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            shed = self.active and scope["type"] == "http" and self.refuses(scope["path"], scope["headers"])
            await (self.refuse if shed else app)(scope, receive, send)

        return guarded

    async def watch(self, stop: trio.Event) -> None:
        """Measure the load until `stop` is set.

        The lag is how late this task wakes, or how long it waits for the next pass of the loop, whichever is longer.
        Requests that have already arrived wait equally long. The intervals are random, because evenly spaced
        measurements could miss every stall in a regular series.
        """
        clock, shedder = self._clock, self._shedder
        while True:
            tick_s = WARY_TICK_S if shedder.is_wary else TICK_S
            due_at = clock() + tick_s * (0.5 + self._rng.random())
            with trio.move_on_at(due_at):
                await stop.wait()
                return
            began_at = clock()
            await trio.lowlevel.checkpoint()
            at = clock()
            self._observe(at, max(began_at - due_at, at - began_at))

    def statistics(self) -> SheddingStatistics:
        """Return whether requests are being refused, the current limit, and how many were refused."""
        return self._shedder.statistics()

    def _observe(self, at: float, lag_s: float) -> None:
        self.lag_s = max(lag_s, self.lag_s * PEAK_DECAY)
        pressure = max(lag_s / LAG_S, self._load.writes() / WRITES_MAX)
        is_calm = pressure <= 1.0 and not self.active
        self._shedder.observe(at, pressure, 0 if is_calm else self._load.busy())
        self.active = self._shedder.active
        if self.active or self._spell is not None:
            self._log_spell(at, lag_s)

    def _log_spell(self, at: float, lag_s: float) -> None:
        """Log the first refusal and the end of a period of overload, at most one pair of lines per `LINES_APART_S`."""
        now = self._shedder.statistics()
        spell = self._spell
        if spell is None:
            spell = self._spell = _Spell(at, now.refused_total)
        refused = now.refused_total - spell.refused_before
        if not now.active:
            self._spell = None
            if spell.is_logged:
                self._log.event("warning", "overload_ended", seconds=round(at - spell.began_at, 1), refused=refused)
        elif refused and not spell.is_logged and at - self._line_at >= LINES_APART_S:
            spell.is_logged, self._line_at = True, at
            self._log.event("warning", "overload_began", lag_ms=round(lag_s * 1000), limit=now.limit)


@dataclass(slots=True)
class _Spell:
    """A period of overload, which is logged only if a request was refused."""

    began_at: float
    refused_before: int
    is_logged: bool = False


def load_of(
    store: Store, keys: Keys, gate: Gate, calls: BilledCalls, *, hub: Hub, sites: Sequence[Site], unsent: Unsent
) -> NodeLoad:
    """Return the load of a node with these components.

    A request that waits for an upstream, for events or for a slow client holds a lease, but does not count as busy.
    """
    sources = [source for site in sites for source in site.sources.values()]

    def busy() -> int:
        waiting = len(hub) + calls.flights.following + unsent.readers
        for now in (source.statistics() for source in sources):
            waiting += now.in_flight + now.queued
        return gate.statistics().leases - waiting

    def is_known(presented: bytes) -> bool:
        try:
            return keys.find_nowait(presented.decode("latin-1")) is not None
        except KeyUnusable:
            return False

    return NodeLoad(busy, lambda: store.statistics().waiting, is_known)
