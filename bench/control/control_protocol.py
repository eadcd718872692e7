"""Commands to a server under test: make people, append events, plant monitors, queue deliveries. On its admin address.

`bench.control.feed_node` runs them with a real node, `bench.peers.parking` with a bare server; a client needs
no other knowledge.
"""

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

PEOPLE = "bench.people"
APPEND = "bench.append"
WAITING = "bench.waiting"
PLANT = "bench.plant"
RAN = "bench.ran"
HOOK = "bench.hook"
UNHOOK = "bench.unhook"
POST = "bench.post"
POSTED = "bench.posted"
LEFT = "bench.left"
TRUST = "bench.trust"
ANSWER_S = 120.0
IDLE_S = 2.0
"""A node closes connections that were idle for longer than a few seconds."""
PEOPLE_AT_ONCE = 20
"""Few, so that what the server needs for making them is not taken for the memory of what comes after."""

T = TypeVar("T")


class ControlAddress(msgspec.Struct, frozen=True):
    """The address at which a server takes the bench's commands, and the token that lets a caller in."""

    url: str
    token: str


class People(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Make so many accounts with so many keys each; the answer is a list of `Person`."""

    accounts: int
    keys_each: int


class PersonKey(msgspec.Struct, frozen=True):
    """A key, and the id by which events belong to it."""

    id: str
    key: str


class Person(msgspec.Struct, frozen=True):
    """One account."""

    account: str
    keys: tuple[PersonKey, ...]


class Append(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Append `count` events to one account, or in one transaction one event to each that was made here.

    With `key_id` only that key sees them. The answer is `Appended`.
    """

    account: str | None = None
    key_id: str | None = None
    count: int = 1


class Appended(msgspec.Struct, frozen=True):
    """The instant of the last commit, before anybody was told of it, in nanoseconds of CLOCK_MONOTONIC."""

    committed_ns: int


class Waiting(msgspec.Struct, frozen=True):
    """The number of polls that the server holds, or of deliveries that have not ended."""

    count: int


class Plant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Store so many monitors of so many new accounts; the nth is first due in the second `stagger_s` * n after `slot`.

    They deliver to `urls`, in turn.
    """

    count: int
    accounts: int
    slot: float
    stagger_s: float
    urls: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True):
    """The number of runs that wait or are under way; once there are none, how many ended, how many well, and when.

    `lags` is a histogram in nanoseconds.
    """

    waiting: int
    ended: int
    ok: int
    ended_at: float
    lags: dict[int, int]


class Hook(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Make so many accounts, each with one monitor for each URL, which nothing runs and which delivers to it."""

    urls: tuple[str, ...]
    accounts: int


class Unhook(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delete all monitors of `Hook` that deliver to a URL, with what waits for it."""

    url: str


class PostWebhooks(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Queue so many deliveries, to these URLs in turn, in one transaction. The answer is `Posting`."""

    urls: tuple[str, ...]
    count: int


class Posting(msgspec.Struct, frozen=True):
    """The instant of the commit in Unix seconds, and what CPU the node's process had used by then."""

    at: float
    cpu_s: float


class Posted(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Tell which deliveries were queued from an instant on. The answer is `QueuedAt`."""

    since: float


class QueuedAt(msgspec.Struct, frozen=True):
    """The instant at which each delivery was queued, in the transaction that did it."""

    at: dict[str, float]


class Trust(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Trust receivers that the authority in this file vouches for; to be said before the first of them is posted to."""

    file: str


class ControlClient:
    """A connection for commands. One command at a time."""

    def __init__(self, place: ControlAddress) -> None:
        """Nothing is connected yet."""
        at = urlsplit(place.url)
        assert at.hostname is not None
        self._connection = http.client.HTTPConnection(at.hostname, at.port, timeout=ANSWER_S)
        self._headers = {"authorization": f"Bearer {place.token}"}
        self._used_at = time.monotonic()

    def send(self, name: str, arguments: msgspec.Struct | None = None) -> None:
        """Send a command; `receive` has to follow."""
        body = b"{}" if arguments is None else msgspec.json.encode(arguments)
        if time.monotonic() - self._used_at > IDLE_S:
            self._connection.close()  # the next request opens it again
        self._connection.request("POST", f"/admin/{name}", body, self._headers)

    def receive(self, kind: type[T]) -> T:
        """Return the answer to the command that was sent."""
        answer = self._connection.getresponse()
        body, self._used_at = answer.read(), time.monotonic()
        if answer.status != 200:
            raise RuntimeError(f"a command was answered with {answer.status}: {body.decode(errors='replace')}")
        return msgspec.json.decode(body, type=kind)

    def call(self, name: str, arguments: msgspec.Struct, kind: type[T]) -> T:
        """Send a command and return its answer."""
        self.send(name, arguments)
        return self.receive(kind)

    def people(self, accounts: int, keys_each: int) -> Iterator[Person]:
        """Make accounts with keys, and yield them."""
        for first in range(0, accounts, PEOPLE_AT_ONCE):
            self.send(PEOPLE, People(min(PEOPLE_AT_ONCE, accounts - first), keys_each))
            yield from self.receive(list[Person])

    def append(self, account: str, count: int) -> None:
        """Append events for every key of an account."""
        self.send(APPEND, Append(account, None, count))
        self.receive(Appended)

    def waiting(self) -> int:
        """Return the number of polls that wait."""
        self.send(WAITING)
        return self.receive(Waiting).count

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def open_control(place: ControlAddress) -> Iterator[ControlClient]:
    """Open a connection for commands until the block ends."""
    control = ControlClient(place)
    try:
        yield control
    finally:
        control.close()
