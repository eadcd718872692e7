"""`GET /v1/status`: the public state of every platform's circuits (spec 4.2, decisions 4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import orjson
import trio

from events.instants import iso
from gateway.docs.account.node import STATUS
from gateway.http import envelope
from gateway.http.conditional import PUBLIC, tag_of, tagged
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.catalog import Catalog
from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.site import AnySource, Site

STATUS_PATH = "/v1/status"
Health = Literal["operational", "degraded", "down"]
_HEALTHS: Final = ("operational", "degraded", "down")
HOURS: Final = 24
CHECK_EVERY_S: Final = 120.0
_WORST_FIRST = ("open", "half_open", "closed")


class Status:
    """Reports which platforms are available. `now` returns Unix seconds."""

    def __init__(self, catalog: Catalog, *, now: Callable[[], float]) -> None:
        self._catalog = catalog
        self._now = now
        self._hours: OrderedDict[int, dict[str, Health]] = OrderedDict()

    @property
    def route(self) -> Route:
        """Return the routing table entry. It is needed to suggest the path, and for the 405 after a wrong method."""
        return Route(STATUS_PATH, self._by_route, doc=STATUS)

    async def _by_route(self, request: Request, _caller: Caller) -> Reply:
        return await self.answer(request)

    async def answer(self, request: Request) -> Reply:
        """Return the status envelope. It belongs to no account, so it has no balance."""
        await trio.lowlevel.checkpoint()
        data = self.data()
        stored = envelope.fragment("utility", request.path, data)
        body = envelope.success(stored, request_id=request.id, credits_used=0, balance=None, cached=False)
        states = orjson.dumps({name: part for name, part in data.items() if name != "updated_at"})
        return tagged(request, Reply(200, body), tag_of(states), caching=PUBLIC)

    def data(self) -> dict[str, Any]:
        """Return the states of all platforms and the overall state."""
        platforms = {slug: _platform(site) for slug, site in self._sites().items()}
        return {
            "status": _overall(entry["status"] for entry in platforms.values()),
            "platforms": platforms,
            "updated_at": iso(self._now()),
        }

    async def keep_checking(self) -> None:
        """Record the worst state of each platform for every hour, until cancelled."""
        while True:
            self.check()
            await trio.sleep(CHECK_EVERY_S)

    def check(self) -> None:
        """Add the current state of the platforms to the record of this hour."""
        hour = int(self._now() // 3_600)
        worst = self._hours.setdefault(hour, {})
        for slug, site in self._sites().items():
            health = _health(source.breaker.state for source in site.configured_sources().values())
            if _HEALTHS.index(health) >= _HEALTHS.index(worst.get(slug, "operational")):
                worst[slug] = health
        while len(self._hours) > HOURS:
            self._hours.popitem(last=False)

    def past(self) -> dict[str, list[Health | None]]:
        """Return each platform's state in the last hours, oldest first; None for hours when this node did not run."""
        now = int(self._now() // 3_600)
        seen = [self._hours.get(hour, {}) for hour in range(now - HOURS + 1, now + 1)]
        return {slug: [worst.get(slug) for worst in seen] for slug in self._sites()}

    def _sites(self) -> dict[str, Site]:
        """Return the platforms with an endpoint that this node can call. The state of the others is unknown."""
        return {
            slug: site for slug, site in self._catalog.sites.items() if any(map(site.offers, site.platform.endpoints))
        }


def _platform(site: Site) -> dict[str, Any]:
    configured = site.configured_sources()
    sources = {name: source.breaker.state for name, source in configured.items()}
    return {
        "status": _health(sources.values()),
        "circuit": next((state for state in _WORST_FIRST if state in sources.values()), "closed"),
        "sources": {name: {"circuit": state, **_hosts(configured[name])} for name, state in sources.items()},
    }


def _hosts(source: AnySource) -> dict[str, int]:
    """Return how many hosts callers chose at a source, and how many of their circuits are open.

    The circuit of one host says nothing about the platform.
    """
    if not isinstance(source, NamedSource):
        return {}
    hosts, are_open = source.counts()
    return {"hosts": hosts, "open": are_open}


def _health(states: Iterable[str]) -> Health:
    """Return `operational` if every circuit is closed, `down` if every circuit is open, and `degraded` otherwise."""
    known = list(states)
    if known and all(state == "open" for state in known):
        return "down"
    return "operational" if all(state == "closed" for state in known) else "degraded"


def _overall(healths: Iterable[str]) -> Health:
    known = list(healths)
    if known and all(health == "down" for health in known):
        return "down"
    return "operational" if all(health == "operational" for health in known) else "degraded"
