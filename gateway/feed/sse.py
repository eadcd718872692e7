"""The feed as server-sent events: every event's id is its cursor, so `Last-Event-ID` resumes (decisions 13)."""

from __future__ import annotations

import orjson

from gateway.feed.following import Stopped
from gateway.feed.pages import Shown, given_out
from gateway.feed.polling import FULL_INTERVAL_S, STOP_INTERVAL_S, hung_up
from gateway.feed.tokens import FeedTokens
from gateway.http.sse import EventStream
from gateway.server.asgi import Receive

RETRY_MS = {Stopped.FULL: FULL_INTERVAL_S * 1000, Stopped.CLOSING: STOP_INTERVAL_S * 500}


class EventSource:
    """The sink of one client. Events have no name of their own: `onmessage` gets them all, the type is in the data.

    A consumer that has lapsed is told so before, by an event `restarted`.
    """

    def __init__(self, stream: EventStream, receive: Receive, tokens: FeedTokens) -> None:
        self._stream = stream
        self._receive = receive
        self._tokens = tokens
        self._told_pos = -1

    async def give(self, shown: Shown) -> None:
        """A page's events; the first page also opens the stream, with the place where it begins if it is empty."""
        lines = []
        if shown.restarted_from is not None:
            told = {"restarted_from": self._tokens.seal(shown.restarted_from), "dropped": shown.dropped}
            lines.append(b"event: restarted\ndata: %b\n\n" % orjson.dumps(told))
        if given := given_out(shown.page, self._tokens):
            self._told_pos = shown.page.items[-1].pos
            lines += [b"id: %b\ndata: %b\n\n" % (cursor.encode(), text) for cursor, text in given]
        elif not self._stream.started:
            lines.append(self._place(shown) + b": open\n\n")
        if lines:
            await self._stream.write(b"".join(lines))

    async def beat(self, shown: Shown) -> None:
        """A comment, with the id of a position that has moved though nothing was given."""
        await self._stream.write(self._place(shown) + b": alive\n\n")

    def _place(self, shown: Shown) -> bytes:
        """The id of where a page ends, unless that was told; who begins `now` and is cut off goes on from there."""
        end = shown.page.end
        if end.pos <= self._told_pos:
            return b""
        self._told_pos = end.pos
        return b"id: %b\n" % self._tokens.seal(end).encode()

    async def hear(self) -> None:
        """Wait until the client is gone: it has nothing to say."""
        await hung_up(self._receive)

    async def heed(self) -> bool:
        """It is gone."""
        return False

    async def end(self, stopped: Stopped) -> None:
        """Say when to come again; a client that has only half-closed, too, gets all and a whole answer."""
        await self._stream.write(b"retry: %d\n\n" % RETRY_MS.get(stopped, FULL_INTERVAL_S * 1000), is_last=True)
