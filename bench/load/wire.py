"""Keep-alive connections in a closed loop: each sends a request, checks the response, and repeats.

They share one plain epoll loop, because a task for each connection would cost as much as the fastest measured server.
"""

import os
import select
import socket
import time

from bench.load.keys import KEYS
from bench.load.request_spec import RequestSpec, Tally, closes, whole_head

ANSWER_S = 30.0
POLL_S = 0.1
RECEIVE_BYTES = 65_536


class ClosedWire:
    """The connections of one run. Only the loop that owns it may call it."""

    def __init__(self, spec: RequestSpec, *, first_key: int = 1) -> None:
        """Start without connections."""
        self._spec = spec
        self._requests = spec.requests(KEYS[spec.keys](first_key, 1))
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._received: dict[int, bytes] = {}
        self._sent_at: dict[int, float] = {}
        self._is_sending = True
        self.latencies_s: list[float] = []
        self.tally = Tally(spec)

    def prime(self) -> None:
        """Send one request alone, so that later requests find its effects, such as a cached response or a lease."""
        with socket.create_connection(self._spec.address, timeout=ANSWER_S) as sock:
            sock.sendall(next(self._requests))
            received = b""
            while (head := whole_head(received)) is None:
                data = sock.recv(RECEIVE_BYTES)
                if not data:
                    self.tally.unexpected["closed"] += 1
                    return
                received += data
            self.tally.note(head, first=True)

    def open(self, connections: int) -> None:
        """Open this many connections and send the first request on each."""
        for _ in range(connections):
            self._connect()

    def close(self) -> None:
        """Close every connection, including those that wait for a response."""
        for each in self._sockets.values():
            each.close()
        self._epoll.close()

    def run(self, *, until: float, answers_max: int | None = None) -> None:
        """Send and read until the clock reaches `until`, or until `answers_max` responses have arrived."""
        while time.perf_counter() < until:
            ready = self._epoll.poll(0)
            if not ready:
                os.sched_yield()
            for number, _ in ready:
                self._read(number)
                if len(self.latencies_s) == answers_max:
                    return

    def drain(self, *, until: float) -> None:
        """Read the outstanding responses without sending more, so that the server is idle when the next run starts."""
        self._is_sending = False
        while self._sent_at and time.perf_counter() < until:
            for number, _ in self._epoll.poll(POLL_S):
                self._read(number)
        if self._sent_at:
            self.tally.unexpected["no answer"] += len(self._sent_at)

    def _connect(self) -> None:
        sock = socket.create_connection(self._spec.address, timeout=ANSWER_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(0)
        number = sock.fileno()
        self._sockets[number] = sock
        self._epoll.register(number, select.EPOLLIN)
        self._ask(number)

    def _ask(self, number: int) -> None:
        request = next(self._requests)
        self._received[number] = b""
        self._sent_at[number] = time.perf_counter()
        self._sockets[number].send(request)

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
        self.tally.note(head)
        if closes(head):
            self._reconnect(number)
        elif self._is_sending:
            self._ask(number)

    def _closed(self, number: int) -> None:
        # A connection may close after its response. If it closes during a request, the response is lost.
        if self._sent_at.pop(number, None) is not None:
            self.tally.unexpected["closed"] += 1
        self._reconnect(number)

    def _reconnect(self, number: int) -> None:
        self._sockets.pop(number).close()
        if self._is_sending:
            self._connect()
