"""The feed over a WebSocket: pages of events one way, acknowledgements the other (decisions 13).

Server to client, each one JSON object in a text message:
`{"type":"events","items":[...],"next_cursor":"cur_...","has_more":false}`, for a named consumer with `unread`, and
with `restarted_from` and `dropped` after a lapse; `{"type":"alive","next_cursor":"cur_..."}` after 15 s without
events; `{"type":"acked",...}` with the `data` of an acknowledgement; `{"type":"error","error":{...}}` in its place, or
before a close; `{"type":"end","reason":"...","retry_after_s":2}` before a close.
Client to server: `{"type":"ack","cursor":"cur_..."}`, for a named consumer. They are answered one by one, in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
import orjson

from gateway.feed.following import Stopped
from gateway.feed.pages import Shown, given_out
from gateway.feed.polling import FULL_INTERVAL_S, STOP_INTERVAL_S
from gateway.feed.tokens import FeedTokens
from gateway.http import envelope
from gateway.http.errors import InvalidParam, Refused
from gateway.http.websocket import GOING_AWAY, TRY_AGAIN_LATER, SocketStream

_ENDS = {Stopped.FULL: (TRY_AGAIN_LATER, FULL_INTERVAL_S), Stopped.CLOSING: (GOING_AWAY, STOP_INTERVAL_S // 2)}

Ack = Callable[[str], Awaitable[dict[str, object]]]
"""Acknowledges a cursor; gives the `data` of the answer. Raises Refused."""


class _Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may say; what else stands there is refused as in a body."""

    type: Literal["ack"]
    cursor: str


class EventSocket:
    """The sink of one client. `ack` is None unless it reads as a named consumer."""

    def __init__(self, stream: SocketStream, tokens: FeedTokens, base_url: str, ack: Ack | None) -> None:
        self._stream = stream
        self._tokens = tokens
        self._base_url = base_url
        self._ack = ack
        self._heard: str | bytes | None = None

    async def give(self, shown: Shown) -> None:
        """A page's events in one message; the first page also opens the socket."""
        page = shown.page
        if not page.items and self._stream.started:
            return
        items = [orjson.Fragment(text) for _, text in given_out(page, self._tokens)]
        message = {"type": "events", "items": items, **self._place(shown), "has_more": page.has_more}
        if shown.unread is not None:
            message["unread"] = shown.unread
        if shown.restarted_from is not None:
            message |= {"restarted_from": self._tokens.seal(shown.restarted_from), "dropped": shown.dropped}
        await self._stream.say(orjson.dumps(message))

    async def beat(self, shown: Shown) -> None:
        """A sign of life that a browser sees too, which hears of no ping."""
        await self._stream.say(orjson.dumps({"type": "alive", **self._place(shown)}))

    async def hear(self) -> None:
        """Wait for the client's next message, or its end."""
        self._heard = await self._stream.hear()

    async def heed(self) -> bool:
        """Answer the message; False when there is none since the client is gone."""
        if self._heard is None:
            return False
        await self._stream.say(await self._answer(self._heard))
        return True

    async def end(self, stopped: Stopped) -> None:
        """Say why it ends and when to come again, and close it."""
        code, retry_s = _ENDS[stopped]
        await self._stream.say(orjson.dumps({"type": "end", "reason": stopped.value, "retry_after_s": retry_s}))
        await self._stream.close(code, stopped.value)

    async def _answer(self, heard: str | bytes) -> bytes:
        try:
            return orjson.dumps({"type": "acked", **await self._acknowledge(_read(heard))})
        except Refused as refused:
            return b'{"type":"error",%b}' % envelope.error_fragment(refused, self._base_url)

    async def _acknowledge(self, said: _Said) -> dict[str, object]:
        if self._ack is None:
            suggestion = "Open the socket with consumer= to acknowledge."
            raise InvalidParam("type", "ack is for named consumers", suggestion=suggestion)
        return await self._ack(said.cursor)

    def _place(self, shown: Shown) -> dict[str, object]:
        return {"next_cursor": self._tokens.seal(shown.page.end)}


def _read(heard: str | bytes) -> _Said:
    try:
        return msgspec.json.decode(heard, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        suggestion = 'Send {"type":"ack","cursor":"cur_..."}.'
        raise InvalidParam("message", f"cannot be read: {exc}", suggestion=suggestion) from exc
