"""Keep-alive connections in a closed loop: ask, check the answer, ask again.

One plain epoll loop: a task for each connection would cost as much as the fastest server it measures.
"""

import http.client
import itertools
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

ANSWER_S = 30.0
POLL_S = 0.1
RECEIVE_BYTES = 65_536


class Unframed(Exception):
    """An answer carries no Content-Length, so its end cannot be told."""


class Wire:
    """The connections of one run. Only the loop that owns it may call it."""

    def __init__(
        self, url: str, path: str, *, headers: Sequence[tuple[str, str]] = (), status: int = 200, head: str = ""
    ) -> None:
        """Nothing is connected yet; the arguments are those of `bench.load.Load`."""
        at = urlsplit(url)
        assert at.hostname is not None
        self._address = (at.hostname, at.port or 80)
        self._path, self._headers = path, dict(headers)
        before, number, after = path.partition("{n}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in (("host", at.netloc), *headers))
        self._request = (f"GET {before}".encode(), f"{after} HTTP/1.1\r\n{lines}\r\n".encode())
        self._numbers = itertools.count(1) if number else None
        self._status, self._head = str(status).encode(), head.encode()
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._received: dict[int, bytes] = {}
        self._sent_at: dict[int, float] = {}
        self._asking = True
        self.latencies_s: list[float] = []
        self.unexpected: Counter[str] = Counter()

    def prime(self) -> None:
        """Ask once, alone: what the later requests may find (a cached answer, a first lease) is there after it."""
        connection = http.client.HTTPConnection(*self._address, timeout=ANSWER_S)
        try:
            target = self._path.replace("{n}", str(next(self._numbers)) if self._numbers else "")
            connection.request("GET", target, headers=self._headers)
            answer = connection.getresponse()
            if str(answer.status).encode() != self._status:
                self.unexpected[str(answer.status)] += 1
            answer.read()
        finally:
            connection.close()

    def open(self, connections: int) -> None:
        """Open so many connections and send the first request on each."""
        for _ in range(connections):
            self._connect()

    def close(self) -> None:
        """Close every connection, answered or not."""
        for each in self._sockets.values():
            each.close()
        self._epoll.close()

    def run(self, *, until: float, answers_max: int | None = None) -> None:
        """Ask and read until the clock shows `until` or `answers_max` latencies are known."""
        while time.perf_counter() < until:
            ready = self._epoll.poll(0)
            if not ready:
                os.sched_yield()
            for number, _ in ready:
                self._read(number)
                if len(self.latencies_s) == answers_max:
                    return

    def drain(self, *, until: float) -> None:
        """Read the answers still due, asking nothing more, so that the next run finds an idle server."""
        self._asking = False
        while self._sent_at and time.perf_counter() < until:
            for number, _ in self._epoll.poll(POLL_S):
                self._read(number)
        if self._sent_at:
            self.unexpected["no answer"] += len(self._sent_at)

    def _connect(self) -> None:
        sock = socket.create_connection(self._address, timeout=ANSWER_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(0)
        number = sock.fileno()
        self._sockets[number] = sock
        self._epoll.register(number, select.EPOLLIN)
        self._ask(number)

    def _ask(self, number: int) -> None:
        before, after = self._request
        which = b"%d" % next(self._numbers) if self._numbers else b""
        self._received[number] = b""
        self._sent_at[number] = time.perf_counter()
        self._sockets[number].send(before + which + after)

    def _read(self, number: int) -> None:
        try:
            data = self._sockets[number].recv(RECEIVE_BYTES)
        except ConnectionResetError:
            data = b""
        received = self._received[number] + data
        if not data:
            self._closed(number)
        elif (head := whole_head(received)) is not None:
            self._answered(number, head)
        else:
            self._received[number] = received

    def _answered(self, number: int, head: bytes) -> None:
        self.latencies_s.append(time.perf_counter() - self._sent_at.pop(number))
        if head[9:12] != self._status:
            self.unexpected[head[9:12].decode(errors="replace")] += 1
        elif self._head not in head:
            self.unexpected[f"without {self._head.decode()}"] += 1
        if b"\r\nconnection: close\r\n" in head:
            self._reconnect(number)
        elif self._asking:
            self._ask(number)

    def _closed(self, number: int) -> None:
        # A connection may close once its answer is there; closed under a request, the answer is lost.
        if self._sent_at.pop(number, None) is not None:
            self.unexpected["closed"] += 1
        self._reconnect(number)

    def _reconnect(self, number: int) -> None:
        self._sockets.pop(number).close()
        if self._asking:
            self._connect()


def whole_head(received: bytes) -> bytes | None:
    """The head of the answer in `received`, in lower case and with its line ends; None while the answer is not whole.

    Raises:
        Unframed: the head names no Content-Length.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[: end + 2].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise Unframed(head.decode(errors="replace"))
    length = int(head[at + 17 : head.find(b"\r\n", at + 17)])
    return head if len(received) >= end + 4 + length else None
