"""One connection through the toxic proxy: two pipes, each under its direction's poison."""

import random
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

import trio

from tests.servers.poison import Direction, Poison

_PIECE_BYTES = 65_536
_PIECES_WAITING = 64
"""The maximum number of pieces in transit per direction. Beyond it, the sender waits."""
_SLICE_S = 0.02
"""The time slice for bandwidth limits: its bytes are sent, and then the pipe waits."""
_LAST_WORDS_S = 1.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Counts:
    """The counts of the connections of one proxy."""

    accepted: int = 0
    unreachable: int = 0
    cut: int = 0
    reset: int = 0


class Link:
    """One connection through the proxy."""

    def __init__(self, client: trio.SocketStream, server: trio.SocketStream, counts: Counts) -> None:
        self._ends = (client, server)
        self._counts = counts
        self._is_cut = False
        self._scope = trio.CancelScope()

    async def run(self, up: Direction, down: Direction) -> None:
        """Pass data until both sides have ended, or the connection is closed."""
        client, server = self._ends
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_Pipe(self, client, server, up).run)
                    nursery.start_soon(_Pipe(self, server, client, down).run)
            if self._is_cut:
                await self._end()
        finally:
            for end in self._ends:
                end.socket.close()

    def cut(self) -> None:
        """End both sides normally, even in the middle of data."""
        self._is_cut = True
        self._counts.cut += 1
        self._scope.cancel()

    def reset(self) -> None:
        """End both sides with a reset."""
        if not self._scope.cancel_called:
            self._counts.reset += 1
            self._scope.cancel()
        for end in self._ends:
            close_with_reset(end)

    async def _end(self) -> None:
        """End both sides and read their remaining data, because closing a socket with unread data would reset it."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # it may have been reset meanwhile
            for end in self._ends:
                await end.send_eof()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + _LAST_WORDS_S
            for end in self._ends:
                nursery.start_soon(_read_to_the_end, end)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes in transit; None is the sender's end."""

    data: bytes
    read_at: float
    jitter: float
    """The piece's share of the maximum jitter, chosen at random."""


class _Pipe:
    """One direction of a connection. One task reads, and another task writes when a piece is due."""

    def __init__(self, link: Link, source: trio.SocketStream, sink: trio.SocketStream, direction: Direction) -> None:
        self._link = link
        self._source = source
        self._sink = sink
        self._direction = direction
        self._counted_round = direction.round
        self._counted = 0
        """The bytes of this connection since the current poison was set."""

    async def run(self) -> None:
        send, receive = trio.open_memory_channel[_Piece](_PIECES_WAITING)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, send)
                await self._write(receive)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            self._link.reset()

    async def _read(self, send: trio.MemorySendChannel[_Piece]) -> None:
        data = b"more"
        while data:
            await self._direction.wait_due(lambda _poison: 0.0)
            data = await self._source.receive_some(_PIECE_BYTES)
            await send.send(_Piece(data, trio.current_time(), random.random()))

    async def _write(self, receive: trio.MemoryReceiveChannel[_Piece]) -> None:
        async for piece in receive:
            await self._direction.wait_due(lambda poison, piece=piece: _due(piece, poison))  # type: ignore[misc]
            if not piece.data:
                await self._sink.send_eof()
                return
            await self._pass(piece.data)

    async def _pass(self, data: bytes) -> None:
        """Send a piece under the current poison, which may change while the piece is sent."""
        while data:
            await self._direction.wait_due(lambda _poison: 0.0)
            size = self._wait_until_allowed(len(data))
            await self._sink.send_all(data[:size])
            data = data[size:]
            self._counted += size
            self._direction.passed_bytes += size
            await self._end_if_due()
            await self._wait_for_room(size, trio.current_time())

    async def _wait_for_room(self, size: int, sent_at: float) -> None:
        """Wait for the time that the sent bytes take at the bandwidth limit."""
        await self._direction.wait_due(lambda now: sent_at + size / now.bytes_per_s if now.bytes_per_s else 0.0)

    def _wait_until_allowed(self, size: int) -> int:
        poison = self._direction.poison
        if self._counted_round != self._direction.round:
            self._counted_round, self._counted = self._direction.round, 0
        rest = [limit - self._counted for limit in (poison.cut_after, poison.reset_after) if limit is not None]
        if poison.bytes_per_s:
            rest.append(max(1, int(poison.bytes_per_s * _SLICE_S)))
        return min(size, *rest) if rest else size

    async def _end_if_due(self) -> None:
        poison = self._direction.poison
        if self._counted_round != self._direction.round:
            return  # a new poison was set, which counts from this piece on
        if poison.reset_after is not None and self._counted >= poison.reset_after:
            self._link.reset()
        elif poison.cut_after is not None and self._counted >= poison.cut_after:
            self._link.cut()
        await trio.lowlevel.checkpoint_if_cancelled()


def _due(piece: _Piece, poison: Poison) -> float:
    at = piece.read_at + poison.latency_s + poison.jitter_s * piece.jitter
    return at if piece.data else at + poison.close_delay_s


def close_with_reset(stream: trio.SocketStream) -> None:
    """Close a connection with a reset (RST) instead of an end."""
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    stream.socket.close()


async def _read_to_the_end(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some(_PIECE_BYTES):
            pass
