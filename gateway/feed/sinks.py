"""Destinations of feed streams: server-sent events, or a WebSocket (decisions 13).

Server-sent events: every event's id is its cursor, so `Last-Event-ID` resumes.

A WebSocket sends pages of events to the client, and receives acknowledgements. Each message is one JSON object.

From the server to the client:

- `{"type":"events","items":[...],"next_cursor":"cur_...","has_more":false}`: a page. For a named consumer, it also has
  `unread`, and after a lapse, `restarted_from` and `dropped`.
- `{"type":"alive","next_cursor":"cur_..."}`: sent after 15 s without events.
- `{"type":"acked",...}`: the reply to an acknowledgement, with its `data`.
- `{"type":"error","error":{...}}`: a refused message, or the reason before a close.
- `{"type":"end","reason":"...","retry_after_s":2}`: the last message before a close.

From the client to the server:

- `{"type":"ack","cursor":"cur_..."}`: for a named consumer. The server replies to these messages one by one, in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import orjson

from gateway.feed.following import Stopped
from gateway.feed.pages import PageView, event_texts
from gateway.feed.polling import FULL_INTERVAL_S, STOP_INTERVAL_S, hung_up
from gateway.feed.tokens import FeedTokens
from gateway.http import envelope
from gateway.http.errors import InvalidParam, Refused
from gateway.http.sse import EventStream
from gateway.http.websocket import GOING_AWAY, TRY_AGAIN_LATER, SocketStream
from gateway.server.asgi import Receive

RETRY_MS = {Stopped.FULL: FULL_INTERVAL_S * 1000, Stopped.CLOSING: STOP_INTERVAL_S * 500}
_ENDS = {Stopped.FULL: (TRY_AGAIN_LATER, FULL_INTERVAL_S), Stopped.CLOSING: (GOING_AWAY, STOP_INTERVAL_S // 2)}

Ack = Callable[[str], Awaitable[dict[str, object]]]
"""Acknowledges a cursor, and returns the `data` of the reply. Raises Refused."""


class EventSource:
    """The sink for one client of server-sent events. The events have no name, so `onmessage` receives all of them.

    For a consumer that has lapsed, an event `restarted` comes first. A blank line is sent only after data, because many
    client libraries that have stored an id dispatch an empty event at any other blank line.
    """

    def __init__(self, stream: EventStream, receive: Receive, tokens: FeedTokens) -> None:
        self._stream = stream
        self._receive = receive
        self._tokens = tokens
        self._sent_pos = -1

    async def send(self, view: PageView) -> None:
        """Send a page's events. The first page also opens the stream. If it is empty, its end position is sent."""
        lines = []
        if view.restarted_from is not None:
            restart = {"restarted_from": self._tokens.seal(view.restarted_from), "dropped": view.dropped}
            lines.append(b"event: restarted\ndata: %b\n\n" % orjson.dumps(restart))
        if texts := event_texts(view.page, self._tokens):
            self._sent_pos = view.page.items[-1].pos
            lines += [b"id: %b\ndata: %b\n\n" % (cursor.encode(), text) for cursor, text in texts]
        elif not self._stream.started:
            lines.append(self._place(view) + b": open\n")
        if lines:
            await self._stream.write(b"".join(lines))

    async def beat(self, view: PageView) -> None:
        """Send a comment. If the position has moved without an event, also send its id."""
        await self._stream.write(self._place(view) + b": alive\n")

    def _place(self, view: PageView) -> bytes:
        """Return the id line of the page's end position; empty if that was already sent."""
        end = view.page.end
        if end.pos <= self._sent_pos:
            return b""
        self._sent_pos = end.pos
        return b"id: %b\n" % self._tokens.seal(end).encode()

    async def receive(self) -> None:
        """Wait until the client has disconnected, because an event stream has no messages from the client."""
        await hung_up(self._receive)

    async def answer(self) -> bool:
        """Return False, because `receive` only returns after a disconnect."""
        return False

    async def end(self, stopped: Stopped) -> None:
        """Send the delay before a reconnect.

        A client that has closed only its sending side also gets a complete response.
        """
        await self._stream.write(b"retry: %d\n" % RETRY_MS.get(stopped, FULL_INTERVAL_S * 1000), is_last=True)


class _ClientMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message from a client. A message of any other form is refused like an invalid body."""

    type: Literal["ack"]
    cursor: str


class EventSocket:
    """The sink for one client of a WebSocket. `ack` is None unless the client reads as a named consumer."""

    def __init__(self, stream: SocketStream, tokens: FeedTokens, base_url: str, ack: Ack | None) -> None:
        self._stream = stream
        self._tokens = tokens
        self._base_url = base_url
        self._ack = ack
        self._received: str | bytes | None = None

    async def send(self, view: PageView) -> None:
        """Send a page's events in one message; the first page also opens the socket."""
        page = view.page
        if not page.items and self._stream.started:
            return
        items = [orjson.Fragment(text) for _, text in event_texts(page, self._tokens)]
        message = {"type": "events", "items": items, **self._place(view), "has_more": page.has_more}
        if view.unread is not None:
            message["unread"] = view.unread
        if view.restarted_from is not None:
            message |= {"restarted_from": self._tokens.seal(view.restarted_from), "dropped": view.dropped}
        await self._stream.send_text(orjson.dumps(message))

    async def beat(self, view: PageView) -> None:
        """Send a keep-alive message, because pings are invisible to code in a browser."""
        await self._stream.send_text(orjson.dumps({"type": "alive", **self._place(view)}))

    async def receive(self) -> None:
        """Wait for the client's next message or its disconnect."""
        self._received = await self._stream.receive()

    async def answer(self) -> bool:
        """Reply to the received message. Return False if the client has disconnected."""
        if self._received is None:
            return False
        await self._stream.send_text(await self._answer(self._received))
        return True

    async def end(self, stopped: Stopped) -> None:
        """Send the reason and the time until a reconnect, and close the socket."""
        code, retry_s = _ENDS[stopped]
        await self._stream.send_text(orjson.dumps({"type": "end", "reason": stopped.value, "retry_after_s": retry_s}))
        await self._stream.close(code, stopped.value)

    async def _answer(self, received: str | bytes) -> bytes:
        try:
            return orjson.dumps({"type": "acked", **await self._acknowledge(_read(received))})
        except Refused as refused:
            return b'{"type":"error",%b}' % envelope.error_fragment(refused, self._base_url)

    async def _acknowledge(self, message: _ClientMessage) -> dict[str, object]:
        if self._ack is None:
            suggestion = "Open the socket with consumer= to acknowledge."
            raise InvalidParam("type", "ack is only valid for named consumers", suggestion=suggestion)
        return await self._ack(message.cursor)

    def _place(self, view: PageView) -> dict[str, object]:
        return {"next_cursor": self._tokens.seal(view.page.end)}


def _read(received: str | bytes) -> _ClientMessage:
    try:
        return msgspec.json.decode(received, type=_ClientMessage)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        suggestion = 'Send {"type":"ack","cursor":"cur_..."}.'
        raise InvalidParam("message", "cannot be read", suggestion=suggestion) from exc
