"""Progress events of a streamed data call (spec 4.1)."""

from __future__ import annotations

import orjson
import trio

from gateway.calls.shaping import leg_record
from gateway.http.sse import EventStream
from upstreams.fetching.plan import Walked
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.steps import Fetched, Leg, Page, Part


class Progress:
    """Sends the events of one call, one at a time, even if several legs finish at the same time."""

    def __init__(self, stream: EventStream, site: Site) -> None:
        self._stream = stream
        self._site = site
        self._turn = trio.Lock()

    async def page(self, walked: Walked) -> bool:
        """Send the `page` event; return whether the client is still connected and wants more pages."""
        return await self._publish("page", walked._asdict())

    async def leg(self, leg: Leg, part: Part) -> None:
        """Send the `leg` event with the leg's own data. The call completes even if the client disconnects."""
        await self._publish("leg", {"leg": leg_record(leg), "data": self._data(leg, part)})

    async def _publish(self, name: str, data: Record) -> bool:
        async with self._turn:
            return await self._stream.publish(name, orjson.dumps(data))

    def _data(self, leg: Leg, part: Part) -> Record | None:
        """Return the `data` that the leg's endpoint would return on its own, or None if the leg has no result."""
        if not isinstance(leg.answer, Fetched):
            return None
        archetype, result = self._site.offering(part)[1].archetype, leg.answer.result
        if isinstance(result, Page):
            return {"items": archetype.rows(result.records, [])}
        return archetype.wrap(result.record, [])
