"""What parked polls cost and how fast they wake: `python -m bench.parked`, `Polls` on stdin, `Parked` on stdout."""

import select
import socket
import sys
import time
from dataclasses import dataclass

import msgspec

from bench.ask import Ask, whole_head
from bench.histogram import Histogram
from bench.process import raise_open_files, usage

ANSWER_S = 60.0
RECEIVE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Polls:
    """How many polls to park on the server of `bench.parking` at `url`, and how many of them to wake alone."""

    url: str
    pid: int
    count: int = 10_000
    woken_alone: int = 1_000


@dataclass(frozen=True, slots=True)
class Parked:
    """What was seen."""

    count: int
    bytes_each: float
    wake_one_p50_ms: float
    wake_one_p99_ms: float
    wake_all_s: float


class Parkings:
    """The parked connections and the one that gives orders. Only `measure` calls it."""

    def __init__(self, polls: Polls) -> None:
        """Only the connection for orders is there."""
        self._ask = Ask(polls.url, "/")
        self._orders = self._connect()
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}

    def park(self, count: int) -> None:
        """Open so many connections and park a poll on each; all wait when this returns."""
        for number in range(count):
            sock = self._connect()
            self._sockets[number] = sock
            self._send(sock, f"/park/{number}")
        while int(self.order("/parked")) < count:
            time.sleep(0.01)

    def order(self, target: str) -> bytes:
        """Ask on the connection for orders; the answer's body."""
        self._send(self._orders, target)
        return _answer(self._orders)

    def wake_one(self, number: int) -> int:
        """Wake one poll; nanoseconds from the order to its answer. It parks again before this returns."""
        waiting = self._sockets[number]
        began_ns = time.monotonic_ns()
        self._send(self._orders, f"/wake/{number}")
        _answer(waiting)
        took_ns = time.monotonic_ns() - began_ns
        _answer(self._orders)
        self._send(waiting, f"/park/{number}")
        return took_ns

    def wake_all(self) -> float:
        """Wake every poll; seconds from the order to the last answer."""
        left = {sock.fileno(): sock for sock in self._sockets.values()}
        for number in left:
            self._epoll.register(number, select.EPOLLIN)
        began_s = time.monotonic()
        self._send(self._orders, "/wake/all")
        while left and time.monotonic() < began_s + ANSWER_S:
            for number, _ in self._epoll.poll(1):
                _answer(left.pop(number))
                self._epoll.unregister(number)
        if left:
            raise TimeoutError(f"{len(left)} polls were not woken")
        return time.monotonic() - began_s

    def close(self) -> None:
        """Close every connection."""
        for sock in (self._orders, *self._sockets.values()):
            sock.close()
        self._epoll.close()

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self._ask.address, timeout=ANSWER_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _send(self, sock: socket.socket, target: str) -> None:
        sock.sendall(f"GET {target} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())


def _answer(sock: socket.socket) -> bytes:
    received = b""
    while whole_head(received) is None:
        data = sock.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionAbortedError("the server closed a parked poll")
        received += data
    return received.partition(b"\r\n\r\n")[2]


def measure(polls: Polls) -> Parked:
    """Park all, wake some one after the other, then all at once."""
    parkings = Parkings(polls)
    try:
        parkings.order("/parked")
        before = usage(polls.pid).rss_bytes
        parkings.park(polls.count)
        grown = usage(polls.pid).rss_bytes - before
        alone = Histogram()
        for nth in range(polls.woken_alone):
            alone.record(parkings.wake_one(nth * 7919 % polls.count))
        while int(parkings.order("/parked")) < polls.count:
            time.sleep(0.01)
        return Parked(
            count=polls.count,
            bytes_each=grown / polls.count,
            wake_one_p50_ms=alone.percentile_ms(0.5),
            wake_one_p99_ms=alone.percentile_ms(0.99),
            wake_all_s=parkings.wake_all(),
        )
    finally:
        parkings.close()


if __name__ == "__main__":
    raise_open_files()
    found = measure(msgspec.json.decode(sys.stdin.buffer.read(), type=Polls))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
