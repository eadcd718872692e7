"""The account's events: newest first, and live updates while the page is open."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import orjson
import trio
from quart import Response, request
from quart_trio import QuartTrio

from events.errors import CursorAhead, CursorExpired
from events.filters import ALL
from events.log.pages import EventPage, PageQuery
from events.positions import LogHead
from gateway.dashboard.address import PREFIX
from gateway.dashboard.frame import Frame, account_id
from gateway.dashboard.services import Services

EVENTS: Final = f"{PREFIX}/events"
PAGE: Final = 50
WAIT_S: Final = 8.0
"""Seconds that a page waits for new events before it polls again. Must not exceed the time that a node has to stop."""
_CHECK_S: Final = 1.0
_PAGES: Final = {
    "monitor": "monitors",
    "discover_run": "discover/runs",
    "discover_schedule": "discover/schedules",
    "webhook": "webhooks",
}
"""The pages of event subjects, by kind. A Monitor's runs are shown on the Monitor's page."""


class EventPages:
    """The feed as its owner sees it: the events of all keys."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._events = services.events
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(EVENTS, "events", self.page)
        app.add_url_rule(f"{EVENTS}/new", "new_events", self.new)

    async def page(self) -> Response:
        """Show a page of events: the newest events, or the events before a position."""
        head = await self._events.head(account_id())
        before = _place(request.args.get("before", ""), head.last_pos + 1)
        first = max(head.first_pos, before - PAGE)
        found = await self._read(first - 1, upto=before - 1) if head.last_pos >= head.first_pos else None
        return await self._frame.shown(
            "events.html",
            "Events",
            events=[] if found is None else [_shown(one.body) for one in reversed(found.items)],
            older=first if first > head.first_pos else 0,
            is_newest=before > head.last_pos,
            last=head.last_pos,
        )

    async def new(self) -> Response:
        """Wait for events after a position, at most `WAIT_S`, and return them as table rows."""
        after = _place(request.args.get("after", ""), 0)
        head = await self._head_behind(after)
        found = await self._read(after) if head.last_pos > after >= head.first_pos - 1 else None
        events = [] if found is None else [_shown(one.body) for one in reversed(found.items)]
        response = await self._frame.shown("event_rows.html", "Events", events=events)
        response.headers["x-last"] = str(max(after, head.last_pos) if found is None else found.end.pos)
        return response

    async def _head_behind(self, after: int) -> LogHead:
        head = await self._events.head(account_id())
        with trio.move_on_after(WAIT_S):
            while head.last_pos <= after:
                await trio.sleep(_CHECK_S)
                head = await self._events.head(account_id())
        return head

    async def _read(self, after: int, *, upto: int | None = None) -> EventPage | None:
        try:
            return await self._events.read(PageQuery(account_id(), None, after, PAGE, ALL, upto))
        except (CursorExpired, CursorAhead):
            return None


def _place(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else otherwise


def _shown(body: bytes) -> dict[str, Any]:
    event: dict[str, Any] = orjson.loads(body)
    subject = event.get("subject") or {}
    return {
        "id": event.get("id", ""),
        "type": event.get("type", ""),
        "at": event.get("created_at", ""),
        "kind": subject.get("kind", ""),
        "subject": subject.get("name") or subject.get("id", ""),
        "place": _page_of(subject, event.get("data") or {}),
        "data": orjson.dumps(event.get("data"), option=orjson.OPT_INDENT_2).decode(),
    }


def _page_of(subject: dict[str, Any], data: dict[str, Any]) -> str:
    """Return the page of an event's subject; empty if the subject has no page."""
    kind, id_ = str(subject.get("kind", "")), str(subject.get("id", ""))
    if kind == "run":
        kind, id_ = "monitor", str(data.get("monitor_id", ""))
    return f"{PREFIX}/{_PAGES[kind]}/{quote(id_, safe='')}" if kind in _PAGES and id_ else ""
