"""Measures reading and acknowledging.

`python -m bench.scenarios.feed_reads` reads `Reads` and prints `ReadFigures`.
"""

import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from bench.control.control_protocol import ControlAddress, ControlClient, open_control
from bench.core.process import raise_open_files, usage
from bench.load.request_spec import RequestSpec, whole_head
from bench.scenarios.poll_clients import UnexpectedPoll, after

ANSWER_S = 30.0
RECEIVE_BYTES = 262_144
CATCH_UP_LIMIT = 500
ACK_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Reads:
    """The reads to make on the server at `url`, which accepts the bench's commands at `control`."""

    url: str
    control: ControlAddress
    pid: int
    events: int = 200_000
    consumers: int = 16
    seconds: float = 5.0
    """The duration of acknowledging in seconds."""


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """The speed and the cost of reads. CPU is the CPU time of the server's process."""

    events: int
    events_per_s: float
    event_cpu_us: float
    acks: int
    acks_per_s: float
    ack_cpu_us: float
    """The CPU for each page that was read and acknowledged."""


class ReaderLine:
    """A connection with one request at a time. Every response must have status 200."""

    def __init__(self, url: str, key: str) -> None:
        """Connect."""
        self.sock = socket.create_connection(RequestSpec(url, "/").address, timeout=ANSWER_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f" HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n".encode()
        self._received = b""

    def get(self, target: bytes) -> None:
        """Send a GET request."""
        self.sock.sendall(b"GET %b%b\r\n" % (target, self._head))

    def post(self, target: bytes, body: bytes) -> None:
        """Send a JSON body."""
        about = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        self.sock.sendall(b"POST %b%b%b\r\n%b" % (target, self._head, about, body))

    def answer(self) -> bytes:
        """Wait for the complete response and return it."""
        while (whole := self.receive()) is None:
            pass
        return whole

    def receive(self) -> bytes | None:
        """Read from the connection, and return the response once it is complete."""
        data = self.sock.recv(RECEIVE_BYTES)
        if not data:
            raise UnexpectedPoll("the connection was closed instead of a response to a read")
        self._received += data
        head = whole_head(self._received)
        if head is None:
            return None
        whole, self._received = self._received, b""
        if head[9:12] != b"200":
            raise UnexpectedPoll(f"a read was answered with {whole[:1000].decode(errors='replace')}")
        return whole


class ReadingConsumer:
    """Reads and acknowledges pages until no events are left."""

    def __init__(self, line: ReaderLine, name: str) -> None:
        """Send the first read."""
        self.line = line
        self.acks = 0
        self.has_ended = False
        self._reads = True
        self._read_target = f"/v1/events?consumer={name}&limit={ACK_LIMIT}".encode()
        self._ack_target = f"/v1/events/consumers/{name}/ack".encode()
        line.get(self._read_target)

    def go_on(self) -> None:
        """Read from the connection. After a response, send the next request."""
        answer = self.line.receive()
        if answer is None:
            return
        if not self._reads:
            self._acknowledged(answer)
        elif int(after(answer, b'"page_size":', b"}")):
            self.line.post(self._ack_target, b'{"cursor":"%b"}' % after(answer, b'"next_cursor":"', b'"'))
            self._reads = False
        else:
            self.has_ended = True

    def _acknowledged(self, answer: bytes) -> None:
        if after(answer, b'"advanced":', b",") != b"true":
            raise UnexpectedPoll("an acknowledgement did not move its consumer")
        self.acks += 1
        self._reads = True
        self.line.get(self._read_target)


def measure(reads: Reads) -> ReadFigures:
    """Fill a log, read it from the start, and then acknowledge it with many concurrent consumers."""
    with open_control(reads.control) as control:
        account, key = _fill(control, reads.events)
    cpu_s, began_s = usage(reads.pid).cpu_s, time.monotonic()
    events = catch_up(reads.url, key)
    took_s, read_cpu_s = time.monotonic() - began_s, usage(reads.pid).cpu_s - cpu_s
    if events != reads.events:
        raise UnexpectedPoll(f"{events} of {reads.events} events of {account} were read")
    acked = acknowledge(reads, key)
    return ReadFigures(
        events=events,
        events_per_s=events / took_s,
        event_cpu_us=read_cpu_s * 1e6 / events,
        acks=acked.acks,
        acks_per_s=acked.acks / acked.seconds,
        ack_cpu_us=acked.cpu_s * 1e6 / max(acked.acks, 1),
    )


def _fill(control: ControlClient, events: int) -> tuple[str, str]:
    (person,) = control.people(1, 1)
    control.append(person.account, events)
    return person.account, person.keys[0].key


def catch_up(url: str, key: str) -> int:
    """Read from the oldest event to the end, page by page, and return the number of events."""
    line, cursor, has_more, events = ReaderLine(url, key), b"oldest", True, 0
    with line.sock:
        while has_more:
            line.get(b"/v1/events?cursor=%b&limit=%d" % (cursor, CATCH_UP_LIMIT))
            answer = line.answer()
            cursor = after(answer, b'"next_cursor":"', b'"')
            has_more = after(answer, b'"has_more":', b",") == b"true"
            events += int(after(answer, b'"page_size":', b"}"))
    return events


@dataclass(frozen=True, slots=True)
class AckFigures:
    """The number of acknowledgements with a response, and their cost."""

    acks: int
    seconds: float
    cpu_s: float


def acknowledge(reads: Reads, key: str) -> AckFigures:
    """Run all consumers concurrently, until the time is up or no events are left.

    The first page of each consumer is not counted, because some of its work is done only once per consumer.
    """
    epoll, consumers = select.epoll(), dict[int, ReadingConsumer]()
    for nth in range(reads.consumers):
        line = ReaderLine(reads.url, key)
        consumers[line.sock.fileno()] = ReadingConsumer(line, f"bench{nth}")
        epoll.register(line.sock.fileno(), select.EPOLLIN)
    crew = list(consumers.values())
    try:
        _poll_consumers(epoll, consumers, until=lambda: all(each.acks or each.has_ended for each in crew))
        before, cpu_s, began_s = sum(each.acks for each in crew), usage(reads.pid).cpu_s, time.monotonic()
        end_s = began_s + reads.seconds
        _poll_consumers(
            epoll, consumers, until=lambda: time.monotonic() > end_s or all(each.has_ended for each in crew)
        )
        took_s, used_s = time.monotonic() - began_s, usage(reads.pid).cpu_s - cpu_s
    finally:
        epoll.close()
        for each in crew:
            each.line.sock.close()
    return AckFigures(sum(each.acks for each in crew) - before, took_s, used_s)


def _poll_consumers(
    epoll: select.epoll, consumers: Mapping[int, ReadingConsumer], *, until: Callable[[], bool]
) -> None:
    while not until():
        for number, _ in epoll.poll(0.1):
            consumers[number].go_on()


if __name__ == "__main__":
    raise_open_files()
    found = measure(msgspec.json.decode(sys.stdin.buffer.read(), type=Reads))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
