"""Connections with one open poll of the feed each. They share one plain epoll loop, which is fast enough to keep up."""

import select
import socket
import time
from dataclasses import dataclass, field

from bench.load.request_spec import RequestSpec, whole_head

WAIT_S = 25
CONNECT_S = 30.0
RECEIVE_BYTES = 16_384
FROM_AN_ADDRESS = 20_000
"""The maximum number of connections from one loopback address, which has only about 28,000 ports."""
_CURSOR = b'"next_cursor":"'
_SIZE = b'"page_size":'


class UnexpectedPoll(Exception):
    """A poll received an unexpected response."""


@dataclass(slots=True, eq=False)
class Poll:
    """One client. Only its `PollClients` modifies it."""

    sock: socket.socket
    account: str
    key_id: str
    head: bytes
    """The part of a request that follows the cursor."""
    cursor: bytes = b"now"
    received: bytes = b""


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The response to a poll. `status` is 0 if the connection was closed instead."""

    poll: Poll
    status: int
    events: int
    at_ns: int
    """The time of its arrival on CLOCK_MONOTONIC."""
    is_early: bool = False
    """Whether the response came before the end of the poll and says when to poll again."""


@dataclass(slots=True)
class PollClients:
    """All polls. A poll that timed out is sent again immediately. A poll that received events waits for `send`."""

    url: str
    polls: list[Poll] = field(default_factory=list)
    renewed: int = 0
    """The number of polls that timed out."""
    _by_number: dict[int, Poll] = field(default_factory=dict)
    _epoll: select.epoll = field(default_factory=select.epoll)

    def join(self, account: str, key_id: str, key: str) -> None:
        """Add a client, which starts to poll."""
        spec = RequestSpec(self.url, "/v1/events")
        # Explicit loopback addresses are used only if one address has too few ports.
        source = (
            (f"127.0.0.{1 + len(self.polls) // FROM_AN_ADDRESS}", 0) if len(self.polls) >= FROM_AN_ADDRESS else None
        )
        sock = socket.create_connection(spec.address, timeout=CONNECT_S, source_address=source)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(0)
        poll = Poll(
            sock, account, key_id, f"&wait_s={WAIT_S} HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\r\n".encode()
        )
        self.polls.append(poll)
        self._by_number[sock.fileno()] = poll
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self.send(poll)

    def send(self, poll: Poll) -> None:
        """Poll from the position at which the last response ended."""
        poll.sock.send(b"GET /v1/events?cursor=%b%b" % (poll.cursor, poll.head))

    def read(self, timeout_s: float) -> list[PollAnswer]:
        """Return the responses with events, waiting up to `timeout_s` for the first bytes.

        Raises:
            UnexpectedPoll: A response was unexpected, or was empty before its time.
        """
        arrived = []
        for answer in self.answers(timeout_s):
            if answer.status != 200:
                raise UnexpectedPoll(f"a poll was answered with {answer.status or 'a closed connection'}")
            if answer.events:
                arrived.append(answer)
            elif answer.is_early:
                raise UnexpectedPoll("a poll got an empty response too early")
            else:
                self.renewed += 1
                self.send(answer.poll)
        return arrived

    def answers(self, timeout_s: float) -> list[PollAnswer]:
        """Return all responses that have arrived."""
        found = []
        for number, _ in self._epoll.poll(timeout_s):
            answer = self._read(self._by_number[number])
            if answer is not None:
                found.append(answer)
        return found

    def close(self) -> None:
        """Close every connection."""
        for poll in self.polls:
            poll.sock.close()
        self._epoll.close()

    def _read(self, poll: Poll) -> PollAnswer | None:
        try:
            data = poll.sock.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            data = b""
        at_ns = time.monotonic_ns()
        if not data:
            self._epoll.unregister(poll.sock.fileno())
            return PollAnswer(poll, 0, 0, at_ns)
        poll.received += data
        head = whole_head(poll.received)
        if head is None:
            return None
        whole, poll.received = poll.received, b""
        if head[9:12] != b"200":
            return PollAnswer(poll, int(head[9:12]), 0, at_ns)
        poll.cursor = after(whole, _CURSOR, b'"')
        return PollAnswer(poll, 200, int(after(whole, _SIZE, b"}")), at_ns, is_early=b"\r\nx-poll-interval:" in head)


def after(body: bytes, mark: bytes, end: bytes) -> bytes:
    """Return the text between the last `mark` in a response and the following `end`."""
    at = body.rindex(mark) + len(mark)
    return body[at : body.index(end, at)]
