"""A connection to a Redis server. Packs commands and parses replies (RESP3)."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from struct import pack as pack_struct
from typing import TypeAlias, cast

import trio
from coredis.constants.resp import DataType
from coredis.exceptions import InvalidResponse, RedisError
from coredis.parser import NotEnoughData, Parser

from storage.redis.urls import Access, Address
from storage.state import Reply

RECEIVE_BYTES = 65536
_SIZES_MAX = 256
_SIZES = tuple(b"$%d" % size for size in range(_SIZES_MAX))  # precomputed, which halves the cost of packing

_log = logging.getLogger(__name__)

# All errors that end a connection or prevent it from being opened.
FAULTS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, RedisError)

Answer: TypeAlias = "Reply | RedisError"


def pack(parts: Sequence[bytes]) -> bytes:
    """Return a command in wire format."""
    lines = [b"*%d" % len(parts)]
    for part in parts:
        size = len(part)
        lines.append(_SIZES[size] if size < _SIZES_MAX else b"$%d" % size)
        lines.append(part)
    lines.append(b"")
    return b"\r\n".join(lines)


class RedisConnection:
    """A connection that has logged in. One task may send, and another may receive."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._parser = Parser()

    async def send(self, data: bytes) -> None:
        """Send complete commands."""
        await self._stream.send_all(data)

    async def receive(self) -> list[tuple[bool, Answer]]:
        """Wait for replies and return all that have arrived. Each has a flag that says whether it is a pushed message.

        Raises:
            One of FAULTS.
        """
        answers: list[tuple[bool, Answer]] = []
        while not answers:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise trio.BrokenResourceError("the server closed the connection")
            self._parser.feed(bytes(data))
            try:
                while not isinstance(parsed := self._parser.parse(), NotEnoughData):
                    answers.append((parsed[0] is DataType.PUSH, cast("Answer", parsed[1])))
            except ValueError as exc:
                raise InvalidResponse("the server did not send RESP3") from exc
        return answers

    async def ask(self, *parts: bytes) -> Reply:
        """Send one command and wait for its reply. Only for use before other tasks use the connection.

        Raises:
            One of FAULTS, such as an error reply of the server.
        """
        await self.send(pack(parts))
        _, answer = (await self.receive())[0]
        if isinstance(answer, RedisError):
            raise answer
        return answer


@asynccontextmanager
async def open_connection(address: Address, access: Access) -> AsyncIterator[RedisConnection]:
    """Open a connection that has logged in and responds. The caller sets the deadline.

    Raises:
        One of FAULTS.
    """
    stream: trio.abc.Stream = await _open_stream(address, access)
    try:
        connection = RedisConnection(stream)
        await _greet(connection, access)
        yield connection
    finally:
        # Closed immediately, because a frozen server would not read the remaining data.
        await trio.aclose_forcefully(stream)


async def _open_stream(address: Address, access: Access) -> trio.abc.Stream:
    stream = await trio.open_tcp_stream(*address)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Unsent data must not be delivered after the close, because the callers have already received an error.
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack_struct("ii", 1, 0))
    if access.tls is None:
        return stream
    return trio.SSLStream(stream, access.tls, server_hostname=address[0], https_compatible=True)


async def _greet(connection: RedisConnection, access: Access) -> None:
    hello = [b"HELLO", b"3"]
    if access.password:
        hello += [b"AUTH", access.username.encode() or b"default", access.password.encode()]
    await connection.ask(*hello)
    if access.db:
        await connection.ask(b"SELECT", b"%d" % access.db)
    await connection.ask(b"PING")  # refused while the server is still loading its data


async def read_identity(connection: RedisConnection) -> tuple[bytes, bytes] | None:
    """Return the connection's id and address on the server, or None if the server does not report them."""
    try:
        info = await connection.ask(b"CLIENT", b"INFO")
    except RedisError:
        return None  # some providers forbid this command
    assert isinstance(info, bytes)
    fields = dict(entry.partition(b"=")[::2] for entry in info.split())
    return fields[b"id"], fields[b"addr"]


async def end_remains(connection: RedisConnection, identity: tuple[bytes, bytes]) -> None:
    """End an earlier connection on the server too, so that nothing that was sent over it can still take effect."""
    number, address = identity
    try:
        await connection.ask(b"CLIENT", b"KILL", b"ID", number, b"ADDR", address)
    except RedisError as exc:
        _log.info("Redis refused to end a connection: %s", exc)
