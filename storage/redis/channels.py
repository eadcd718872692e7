"""Subscribes to channels, and passes their messages to the listeners.

In a cluster, every message reaches every server, so any link can be used to subscribe to a channel. The channel stays
on that link until the link is lost.
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


class _Channel:
    """A channel with its listeners. `is_subscribed` is set when the server confirms the subscription."""

    __slots__ = ("home", "is_subscribed", "listeners")

    def __init__(self) -> None:
        self.home: RedisLink | None = None
        self.is_subscribed = False
        self.listeners: set[trio.MemorySendChannel[bytes]] = set()


class Channels:
    """The channels that this process listens to."""

    def __init__(self) -> None:
        self._channels: dict[bytes, _Channel] = {}
        self._links: dict[RedisLink, None] = {}

    @asynccontextmanager
    async def subscribe(self, name: bytes) -> AsyncIterator[trio.MemoryReceiveChannel[bytes]]:
        """Like `State.subscribe`."""
        send, receive = trio.open_memory_channel[bytes](BUFFER_MESSAGES)
        channel = self._channels.setdefault(name, _Channel())
        channel.listeners.add(send)
        self._settle(name, channel)
        if channel.is_subscribed:
            send.send_nowait(RECHECK)
        try:
            with send, receive:
                yield receive
        finally:
            channel.listeners.discard(send)
            if not channel.listeners:
                self._leave(name, channel)

    def connected(self, link: RedisLink) -> None:
        """Use this new link to subscribe to the channels that have no link."""
        self._links[link] = None
        for name, channel in self._channels.items():
            self._settle(name, channel)

    def lost(self, link: RedisLink) -> None:
        """Move the channels of a lost link to another link."""
        self._links.pop(link, None)
        for name, channel in self._channels.items():
            if channel.home is link:
                channel.home, channel.is_subscribed = None, False
                self._settle(name, channel)

    def pushed(self, message: Reply) -> None:
        """Pass a message on to the listeners."""
        if not isinstance(message, list) or len(message) < 3:
            return
        kind, name, text = message[:3]
        channel = self._channels.get(name) if isinstance(name, bytes) else None
        if channel is None:
            return
        if kind == b"subscribe":
            channel.is_subscribed = True
            _publish(channel, RECHECK)
        elif kind == b"message" and isinstance(text, bytes):
            _publish(channel, text)

    def _settle(self, name: bytes, channel: _Channel) -> None:
        if channel.home is not None:
            return
        for link in self._links:
            try:
                link.submit(RedisCall([b"SUBSCRIBE", name], name, is_silent=True))
            except StateUnavailable:
                continue
            channel.home = link
            return

    def _leave(self, name: bytes, channel: _Channel) -> None:
        del self._channels[name]
        if channel.home is not None:
            try:
                channel.home.submit(RedisCall([b"UNSUBSCRIBE", name], name, is_silent=True))
            except StateUnavailable:
                return


def _publish(channel: _Channel, message: bytes) -> None:
    """Send a message to all listeners. A listener that cannot keep up receives `RECHECK` instead."""
    for listener in channel.listeners:
        room = BUFFER_MESSAGES - listener.statistics().current_buffer_used
        if room > 1:
            listener.send_nowait(message)
        elif room == 1:
            listener.send_nowait(RECHECK)
