"""A TCP proxy that does to connections what networks and dying servers do: it delays, stalls, cuts and resets them."""

import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass

import trio

_PIECE_BYTES = 65_536
_PIECES_WAITING = 64
"""So many pieces of a direction may be on their way: what comes faster than it may go out waits at its sender."""
_SLICE_S = 0.02
"""A bandwidth is kept by sending so much time's worth of bytes, and then waiting."""
_CONNECT_S = 5.0
_LAST_WORDS_S = 1.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Poison:
    """What is done to one direction of every connection; by default nothing.

    `cut_after` and `reset_after` count a connection's bytes from when the poison was set, or else from its start: with
    the last of so many, both sides get an end (FIN) or a reset (RST). `close_delay_s` holds back a sender's end.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    """At most so much more latency, another for each piece; the order is kept."""
    bytes_per_s: float = 0.0
    """0 is no limit."""
    is_stalled: bool = False
    """The connection stays open, and nothing passes."""
    cut_after: int | None = None
    reset_after: int | None = None
    close_delay_s: float = 0.0


HARMLESS = Poison()
STALLED = Poison(is_stalled=True)


@dataclass(frozen=True, slots=True)
class ToxicStatistics:
    """What the proxy has done so far; `open` is now."""

    accepted: int
    unreachable: int
    open: int
    cut: int
    reset: int
    up_bytes: int
    down_bytes: int


class Direction:
    """One direction of all connections, and its poison."""

    def __init__(self) -> None:
        self.poison = HARMLESS
        self.round = 0
        """Which poison this is: bytes are counted for each from 0."""
        self.passed_bytes = 0
        self._changed = trio.Event()

    def set(self, poison: Poison) -> None:
        """Use another poison from now on, also for what is on its way."""
        self.poison = poison
        self.round += 1
        self._changed.set()
        self._changed = trio.Event()

    async def wait_due(self, due: Callable[[Poison], float]) -> None:
        """Wait until the instant that `due` names under the poison in force, and until nothing is stalled."""
        while True:
            poison, changed = self.poison, self._changed
            at = float("inf") if poison.is_stalled else due(poison)
            if at <= trio.current_time():
                return
            with trio.move_on_at(at):
                await changed.wait()


class Toxic:
    """The proxy: connect to `host` and `port`. Made by `open_toxic`."""

    def __init__(self, target: tuple[str, int], nursery: trio.Nursery) -> None:
        self.up = Direction()
        """From the clients to the server."""
        self.down = Direction()
        """From the server to the clients."""
        self._target = target
        self._nursery = nursery
        self._place = _bound(0)
        """Keeps the port while nobody listens on it."""
        self.host, self.port = self._place.getsockname()
        self._listener: trio.SocketListener | None = None
        self._links: set[_Link] = set()
        self._counts = _Counts()

    def statistics(self) -> ToxicStatistics:
        """The counters."""
        return ToxicStatistics(
            accepted=self._counts.accepted,
            unreachable=self._counts.unreachable,
            open=len(self._links),
            cut=self._counts.cut,
            reset=self._counts.reset,
            up_bytes=self.up.passed_bytes,
            down_bytes=self.down.passed_bytes,
        )

    def set(self, poison: Poison) -> None:
        """Use one poison for both directions."""
        self.up.set(poison)
        self.down.set(poison)

    def heal(self) -> None:
        """Do nothing bad any more: connections that are left go on, new ones are taken."""
        self.set(HARMLESS)
        self.admit()

    def refuse(self) -> None:
        """Refuse new connections, as a machine does on which nobody listens; those that are open go on."""
        if self._listener is not None:
            self._listener.socket.close()
            self._listener = None

    def admit(self) -> None:
        """Take new connections."""
        if self._listener is None:
            sock = _bound(self.port)
            sock.listen(1024)
            self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
            self._nursery.start_soon(self._accept, self._listener)

    def reset(self) -> None:
        """Reset every open connection, on both sides."""
        for link in list(self._links):
            link.reset()

    def close(self) -> None:
        """Give the port back."""
        self.refuse()
        self._place.close()

    async def _accept(self, listener: trio.SocketListener) -> None:
        with suppress(trio.ClosedResourceError):
            while True:
                client = await listener.accept()
                self._counts.accepted += 1
                self._nursery.start_soon(self._serve, client)

    async def _serve(self, client: trio.SocketStream) -> None:
        with closing(client.socket):
            try:
                with trio.fail_after(_CONNECT_S):
                    server = await trio.open_tcp_stream(*self._target)
            except (OSError, trio.TooSlowError):
                self._counts.unreachable += 1
                _close_with_reset(client)
                return
            link = _Link(client, server, self._counts)
            self._links.add(link)
            try:
                await link.run(self.up, self.down)
            finally:
                self._links.discard(link)


@dataclass(slots=True)
class _Counts:
    accepted: int = 0
    unreachable: int = 0
    cut: int = 0
    reset: int = 0


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: trio.SocketStream, server: trio.SocketStream, counts: _Counts) -> None:
        self._ends = (client, server)
        self._counts = counts
        self._is_cut = False
        self._scope = trio.CancelScope()

    async def run(self, up: Direction, down: Direction) -> None:
        """Pass what comes until both sides have ended, or somebody ends the connection."""
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
        """End both sides in good order, in the middle of whatever they were saying."""
        self._is_cut = True
        self._counts.cut += 1
        self._scope.cancel()

    def reset(self) -> None:
        """End both sides with a reset."""
        if not self._scope.cancel_called:
            self._counts.reset += 1
            self._scope.cancel()
        for end in self._ends:
            _close_with_reset(end)

    async def _end(self) -> None:
        """Say so to both, and take what they still say: closing a socket with unread bytes in it would reset it."""
        with suppress(trio.BrokenResourceError):
            for end in self._ends:
                await end.send_eof()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + _LAST_WORDS_S
            for end in self._ends:
                nursery.start_soon(_read_to_the_end, end)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes on their way; none are the sender's end."""

    data: bytes
    read_at: float
    jitter: float
    """Its share of the greatest jitter."""


class _Pipe:
    """One direction of one connection: a task that reads, and one that writes when it is time."""

    def __init__(self, link: _Link, source: trio.SocketStream, sink: trio.SocketStream, direction: Direction) -> None:
        self._link = link
        self._source = source
        self._sink = sink
        self._direction = direction
        self._counted_round = direction.round
        self._counted = 0
        """This connection's bytes since the poison in force was set."""

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
        """Send a piece as the poison in force has it, which may change on the way."""
        while data:
            await self._direction.wait_due(lambda _poison: 0.0)
            size = self._may_pass(len(data))
            await self._sink.send_all(data[:size])
            data = data[size:]
            self._counted += size
            self._direction.passed_bytes += size
            await self._end_if_due()
            await self._wait_for_room(size, trio.current_time())

    async def _wait_for_room(self, size: int, sent_at: float) -> None:
        """Wait until bytes that were sent have taken their time of the bandwidth."""
        await self._direction.wait_due(lambda now: sent_at + size / now.bytes_per_s if now.bytes_per_s else 0.0)

    def _may_pass(self, size: int) -> int:
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
            return  # another poison, which counts from here
        if poison.reset_after is not None and self._counted >= poison.reset_after:
            self._link.reset()
        elif poison.cut_after is not None and self._counted >= poison.cut_after:
            self._link.cut()
        await trio.lowlevel.checkpoint_if_cancelled()


def _due(piece: _Piece, poison: Poison) -> float:
    at = piece.read_at + poison.latency_s + poison.jitter_s * piece.jitter
    return at if piece.data else at + poison.close_delay_s


def _bound(port: int) -> socket.socket:
    """A socket on a port of 127.0.0.1 that our other sockets may share; 0 picks a free one."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _close_with_reset(stream: trio.SocketStream) -> None:
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    stream.socket.close()


async def _read_to_the_end(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some(_PIECE_BYTES):
            pass


@asynccontextmanager
async def open_toxic(host: str, port: int) -> AsyncIterator[Toxic]:
    """A proxy before a server, harmless at first; at the end it is gone with all of its connections."""
    async with trio.open_nursery() as nursery:
        toxic = Toxic((host, port), nursery)
        toxic.admit()
        try:
            yield toxic
        finally:
            toxic.close()
            nursery.cancel_scope.cancel()
