"""Subscribes to channels, and passes their messages to the listeners.

In a cluster, every message reaches every server, so any link can be used to subscribe. The first link has all
subscriptions until it is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from storage.errors import StateUnavailable
from storage.redis.call import RedisCall
from storage.redis.link import RedisLink
from storage.state import RECHECK, Reply

BUFFER_MESSAGES = 256


class Channels:
    """The channels that this process listens to."""

    def __init__(self) -> None:
        self._listeners: dict[bytes, set[trio.MemorySendChannel[bytes]]] = {}
        self._confirmed: set[bytes] = set()  # the channels for which the server has confirmed the subscription
        self._links: dict[RedisLink, None] = {}  # in the order in which they connected

    @asynccontextmanager
    async def subscribe(self, name: bytes) -> AsyncIterator[trio.MemoryReceiveChannel[bytes]]:
        """Like `State.subscribe`."""
        send, receive = trio.open_memory_channel[bytes](BUFFER_MESSAGES)
        listeners = self._listeners.setdefault(name, set())
        if not listeners:
            self._request(b"SUBSCRIBE", name)
        elif name in self._confirmed:
            send.send_nowait(RECHECK)
        listeners.add(send)
        try:
            with send, receive:
                yield receive
        finally:
            listeners.discard(send)
            if not listeners:
                self._leave(name)

    def connected(self, link: RedisLink) -> None:
        """Use this link to subscribe if it is the first, also to channels whose subscription was lost in a stall."""
        self._links[link] = None
        if link is self._home():
            self._subscribe_all()

    def lost(self, link: RedisLink) -> None:
        """Move the subscriptions of a lost link to the next link."""
        was_home = link is self._home()
        self._links.pop(link, None)
        if was_home:
            self._confirmed.clear()
            self._subscribe_all()

    def pushed(self, message: Reply) -> None:
        """Pass a message on to the listeners."""
        match message:
            case [b"message", bytes() as name, bytes() as text]:
                self._publish(name, text)
            case [b"subscribe", bytes() as name, *_] if name in self._listeners:
                self._confirmed.add(name)
                self._publish(name, RECHECK)

    def _home(self) -> RedisLink | None:
        """Return the link that has all subscriptions."""
        return next(iter(self._links), None)

    def _subscribe_all(self) -> None:
        for name in self._listeners.keys() - self._confirmed:
            self._request(b"SUBSCRIBE", name)

    def _leave(self, name: bytes) -> None:
        del self._listeners[name]
        self._confirmed.discard(name)
        self._request(b"UNSUBSCRIBE", name)

    def _request(self, command: bytes, name: bytes) -> None:
        """Send a command, unless the link is down. After that, `connected` subscribes to all channels."""
        home = self._home()
        if home is None:
            return
        try:
            home.submit(RedisCall([command, name], name, is_silent=True))
        except StateUnavailable:
            return

    def _publish(self, name: bytes, message: bytes) -> None:
        """Send a message to all listeners of a channel. A listener that cannot keep up receives `RECHECK` instead."""
        for listener in self._listeners.get(name, ()):
            room = BUFFER_MESSAGES - listener.statistics().current_buffer_used
            if room > 1:
                listener.send_nowait(message)
            elif room == 1:
                listener.send_nowait(RECHECK)
