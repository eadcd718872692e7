"""Commands to a server under test, sent to its admin address.

The commands create accounts, append events, create monitors and queue deliveries. `bench.control.feed_node` runs them
in a real node. The load needs no other access to the server's internals.
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
"""Seconds after which a connection is replaced, because a node closes idle connections."""
PEOPLE_AT_ONCE = 20
"""The number of accounts to create per command. Small, so that the memory for creating accounts is not attributed to
later work."""

T = TypeVar("T")


class ControlAddress(msgspec.Struct, frozen=True):
    """The address where a server accepts the bench's commands, and the token that authorizes them."""

    url: str
    token: str


class People(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Create `accounts` accounts with `keys_each` keys each. The response is a list of `Person`."""

    accounts: int
    keys_each: int


class PersonKey(msgspec.Struct, frozen=True):
    """A key, and the id that its events contain."""

    id: str
    key: str


class Person(msgspec.Struct, frozen=True):
    """One account."""

    account: str
    keys: tuple[PersonKey, ...]


class Append(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Append `count` events to one account, or, in a single transaction, one event to each account created here.

    With `key_id`, the events are visible only to that key. The response is `Appended`.
    """

    account: str | None = None
    key_id: str | None = None
    count: int = 1


class Appended(msgspec.Struct, frozen=True):
    """The time of the last commit, before any client was notified, in nanoseconds of CLOCK_MONOTONIC."""

    committed_ns: int


class Waiting(msgspec.Struct, frozen=True):
    """The number of polls that wait on the server, or of deliveries that have not ended yet."""

    count: int


class Plant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Store monitors of new accounts.

    The first slot of the nth monitor is n * `stagger_s` seconds after `slot`. The monitors deliver to `urls` in
    rotation.
    """

    count: int
    accounts: int
    slot: float
    stagger_s: float
    urls: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True):
    """The number of waiting and active runs, and, when none is left, the results.

    The results are the number of ended runs, the number of `ok` runs, and the time of the last end. `lags` is a
    histogram in nanoseconds.
    """

    waiting: int
    ended: int
    ok: int
    ended_at: float
    lags: dict[int, int]


class Hook(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Create accounts that have one monitor for each URL. The monitor never runs, and delivers to the URL."""

    urls: tuple[str, ...]
    accounts: int


class Unhook(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delete all monitors of `Hook` that deliver to a URL, with their queued deliveries."""

    url: str


class PostWebhooks(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Queue deliveries to these URLs in rotation, in one transaction. The response is `Posting`."""

    urls: tuple[str, ...]
    count: int


class Posting(msgspec.Struct, frozen=True):
    """The time of the commit in Unix seconds, and the CPU time that the node's process had used until then."""

    at: float
    cpu_s: float


class Posted(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """List the deliveries that were queued since a given time. The response is `QueuedAt`."""

    since: float


class QueuedAt(msgspec.Struct, frozen=True):
    """The time at which each delivery was queued, as set in its transaction."""

    at: dict[str, float]


class Trust(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Trust receivers whose certificate comes from the authority in this file. Send this before the first delivery."""

    file: str


class ControlClient:
    """A connection that sends one command at a time."""

    def __init__(self, place: ControlAddress) -> None:
        """Create a client without connecting it."""
        at = urlsplit(place.url)
        assert at.hostname is not None
        self._connection = http.client.HTTPConnection(at.hostname, at.port, timeout=ANSWER_S)
        self._headers = {"authorization": f"Bearer {place.token}"}
        self._used_at = time.monotonic()

    def send(self, name: str, arguments: msgspec.Struct | None = None) -> None:
        """Send a command. Call `receive` before the next command."""
        body = b"{}" if arguments is None else msgspec.json.encode(arguments)
        if time.monotonic() - self._used_at > IDLE_S:
            self._connection.close()  # the next request reconnects
        self._connection.request("POST", f"/admin/{name}", body, self._headers)

    def receive(self, kind: type[T]) -> T:
        """Return the response to the command that `send` sent."""
        answer = self._connection.getresponse()
        body, self._used_at = answer.read(), time.monotonic()
        if answer.status != 200:
            raise RuntimeError(f"a command was answered with {answer.status}: {body.decode(errors='replace')}")
        return msgspec.json.decode(body, type=kind)

    def call(self, name: str, arguments: msgspec.Struct, kind: type[T]) -> T:
        """Send a command and return its response."""
        self.send(name, arguments)
        return self.receive(kind)

    def people(self, accounts: int, keys_each: int) -> Iterator[Person]:
        """Create accounts with keys, and yield them."""
        for first in range(0, accounts, PEOPLE_AT_ONCE):
            self.send(PEOPLE, People(min(PEOPLE_AT_ONCE, accounts - first), keys_each))
            yield from self.receive(list[Person])

    def append(self, account: str, count: int) -> None:
        """Append events for every key of an account."""
        self.send(APPEND, Append(account, None, count))
        self.receive(Appended)

    def waiting(self) -> int:
        """Return the number of waiting polls."""
        self.send(WAITING)
        return self.receive(Waiting).count

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def open_control(place: ControlAddress) -> Iterator[ControlClient]:
    """Open a connection for commands, until the block ends."""
    control = ControlClient(place)
    try:
        yield control
    finally:
        control.close()
