"""A connection to a browser over its DevTools WebSocket: commands with their results, and events.

Each page has a separate connection, so that one page (by an oversized message, or a flood of events) cannot affect
another. When a connection ends for any reason, including the death of this process, the browser closes everything that
the connection created.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import httpx
import orjson
import trio

from upstreams.transport.http import HttpCall, origin_of
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import open_transport
from upstreams.web.browser.address import ANSWER_S, CONNECT_S, BrowserAddress, BrowserLost

if TYPE_CHECKING:
    from upstreams.web.browser.socket import BrowserSocket

_ANSWER_BYTES_MAX: Final = 65_536

Observe = Callable[[str, Mapping[str, Any]], None]
"""A function that receives the name and the members of an event. The function must not block."""


class CommandRefused(Exception):
    """The browser refused a command, for example because its target is gone."""


@dataclass(slots=True)
class _Waiting:
    """A command whose result has not arrived yet."""

    session: str
    answered: trio.Event = field(default_factory=trio.Event)
    result: Mapping[str, Any] | None = None


class DevTools:
    """A client of the DevTools protocol.

    `observers` maps session ids to the function that receives the session's events.
    """

    def __init__(self, socket: BrowserSocket) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self.observers: dict[str, Observe] = {}
        self.is_lost = False

    async def call(self, method: str, session: str = "", **params: Any) -> Mapping[str, Any]:
        """Send a command and return its result.

        Raises:
            CommandRefused: The browser rejected the command, or the page of the session has crashed.
            BrowserLost: The connection has ended.
        """
        number, waiting = next(self._numbers), _Waiting(session)
        self._waiting[number] = waiting
        try:
            await self._send(number, method, session, params)
            await waiting.answered.wait()
        finally:
            del self._waiting[number]
        reply = waiting.result
        if reply is None:
            raise BrowserLost("the browser has ended the connection")
        if "error" in reply:
            raise CommandRefused(f"{method}: {reply['error'].get('message')}")
        result: Mapping[str, Any] = reply["result"]
        return result

    async def _send(self, number: int, method: str, session: str, params: Mapping[str, Any]) -> None:
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        await self._socket.send(orjson.dumps(message))

    async def keep_reading(self) -> None:
        """Dispatch the browser's messages until the connection ends."""
        try:
            while True:
                self._take(orjson.loads(await self._socket.receive()))
        except BrowserLost:
            self.is_lost = True
            for waiting in self._waiting.values():
                waiting.answered.set()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" in message:
            if (waiting := self._waiting.get(message["id"])) is not None:
                waiting.result = message
                waiting.answered.set()
        elif (observe := self.observers.get(session := message.get("sessionId", ""))) is not None:
            observe(message["method"], message["params"])
            if message["method"] == "Inspector.targetCrashed":
                self._refuse_all(session)

    def _refuse_all(self, session: str) -> None:
        """Let the commands of a crashed page fail, because the browser never answers them."""
        for waiting in self._waiting.values():
            if waiting.session == session and waiting.result is None:
                waiting.result = {"error": {"message": "the page has crashed"}}
                waiting.answered.set()


async def find_browser(url: str) -> BrowserAddress:
    """Return the WebSocket address of the browser at this URL.

    Raises:
        httpx.RequestError: The browser cannot be reached.
    """
    origin, _ = origin_of(url)
    if origin.scheme == "http":  # Chromium accepts an address, but no host name except localhost
        origin = Origin(origin.scheme, await _address_of(origin), origin.port)
    async with open_transport(max_connections=1, body_bytes_max=_ANSWER_BYTES_MAX, connect_s=CONNECT_S) as transport:
        answer = await transport.exchange(HttpCall("GET", origin, "/json/version"), trio.current_time() + ANSWER_S)
    try:
        _, path = origin_of(orjson.loads(answer.body)["webSocketDebuggerUrl"].replace("ws", "http", 1))
    except (KeyError, TypeError, ValueError, AttributeError, httpx.InvalidURL, httpx.TransportError) as exc:
        raise httpx.RemoteProtocolError("the server at this address is not a browser with DevTools") from exc
    # Use the host and port from the setting: inside a container, the browser reports only its internal address.
    return BrowserAddress(origin.host, origin.port, path, origin.scheme == "https")


async def _address_of(origin: Origin) -> str:
    try:
        found = await trio.socket.getaddrinfo(origin.host, origin.port, type=trio.socket.SOCK_STREAM)
    except OSError as exc:
        raise httpx.ConnectError(f"{origin.host} has no address: {exc.strerror or exc}") from exc
    return str(found[0][4][0])


@asynccontextmanager
async def open_devtools(address: BrowserAddress) -> AsyncIterator[DevTools]:
    """Yield a connection that lasts as long as the block.

    Raises:
        httpx.ConnectError, httpx.ConnectTimeout: The browser cannot be reached.
        BrowserLost: The connection ended while the block ran. The block was cancelled.
    """
    from upstreams.web.browser.socket import connect, open_socket  # noqa: PLC0415 - few nodes have a browser

    failure: Exception | None = None
    devtools: DevTools | None = None
    is_done = False
    async with await connect(address) as stream, trio.open_nursery() as nursery:

        async def read(devtools: DevTools) -> None:
            await devtools.keep_reading()
            nursery.cancel_scope.cancel()

        try:
            devtools = DevTools(await open_socket(nursery, stream, address))
            nursery.start_soon(read, devtools)
            yield devtools
            is_done = True
        except Exception as exc:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it in a group
            failure = exc
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if devtools is not None and devtools.is_lost and not is_done:
        raise BrowserLost("the browser has ended the connection")
