"""Measures the cost of parked polls, and the time until events reach them.

`python -m bench.scenarios.parked` reads a `PollLoad` and prints `Parked`. A poll lasts 25 s and is then sent again,
which is work for the server. Parked polls are therefore measured while all of them are new. If they are too old, they
are woken first.
"""

import math
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from bench.control.control_protocol import APPEND, Append, Appended, ControlAddress, ControlClient, Person, open_control
from bench.core.process import raise_open_files, usage
from bench.load.histogram import Histogram
from bench.scenarios.poll_clients import WAIT_S, PollAnswer, PollClients

KEYS_EACH = 5
POLLS_A_KEY = 5
POLLS_EACH = KEYS_EACH * POLLS_A_KEY
ANSWER_S = 60.0
TOGETHER = 500
"""The number of polls to send before waiting until the server has parked them. More could overflow its backlog."""
SETTLE_S = 0.3
POLL_EVERY_S = 0.002
FRESH_S = 0.9 * WAIT_S - 2
"""Seconds during which polls count as new. A node may end polls up to 4 % early."""
SPREAD = 7_919
"""The step from one account to the next. It is a prime, so that the steps reach all accounts."""


@dataclass(frozen=True, slots=True)
class PollLoad:
    """The number of polls to park on the server at `url`, which accepts the bench's commands at `control`."""

    url: str
    control: ControlAddress
    pid: int
    count: int = 10_000
    to_a_key: int = 1_000
    """The number of events that are published only to the polls of one key."""
    to_an_account: int = 200
    """The number of events that are published to all polls of one account."""
    idle_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Parked:
    """The memory, CPU and times of parked polls. CPU is the CPU time of the server's process."""

    count: int
    bytes_each: float
    park_cpu_us: float
    """The CPU for each poll to connect, send its request and read the store."""
    all_woken_s: float
    """The seconds from the command to append one event to every account until the last response."""
    wake_cpu_us: float
    idle_cpu_share: float | None
    """The CPU without events; None if polls ended and were sent again in that time."""
    to_a_key: dict[int, int]
    """The times from the commit to each response, as a histogram."""
    to_an_account: dict[int, int]
    drained_s: float
    """The seconds from SIGTERM to the last response."""
    ended_s: float
    """The seconds from SIGTERM to the end of the server's process."""
    lost: int
    """The number of polls that received no response with status 200 when the server stopped."""


@dataclass(slots=True)
class ParkedRun:
    """One run against one server. Used only by `measure`."""

    polls: PollLoad
    control: ControlClient
    clients: PollClients
    people: list[Person] = field(default_factory=list)
    fresh_until: float = 0.0

    def make_people(self) -> None:
        """Create enough accounts for the polls, and complete one poll, so that one-time costs are not measured."""
        self.people += self.control.people(math.ceil(self.polls.count / POLLS_EACH), KEYS_EACH)
        first = self.people[0]
        warm = PollClients(self.polls.url)
        try:
            warm.join(first.account, first.keys[0].id, first.keys[0].key)
            while not self.control.waiting():
                time.sleep(POLL_EVERY_S)
            self.control.append(first.account, 1)
            _collect(warm, 1)
        finally:
            warm.close()

    def park(self) -> None:
        """Connect and park all polls."""
        self.fresh_until = time.monotonic() + FRESH_S
        every = (
            (person.account, key.id, key.key)
            for person in self.people
            for key in person.keys
            for _ in range(POLLS_A_KEY)
        )
        for nth, (account, key_id, key) in enumerate(islice(every, self.polls.count), start=1):
            self.clients.join(account, key_id, key)
            if nth % TOGETHER == 0:
                self.settle()
        self.settle()
        time.sleep(SETTLE_S)

    def settle(self) -> None:
        """Wait until the server has parked all polls."""
        until = time.monotonic() + ANSWER_S
        while self.control.waiting() < len(self.clients.polls):
            self.clients.read(POLL_EVERY_S)
            if time.monotonic() > until:
                raise TimeoutError(f"{self.control.waiting()} of {len(self.clients.polls)} polls were parked")

    def wake_all(self) -> tuple[float, float]:
        """Append one event for each account, and park all polls again after they have received it.

        Return the seconds until every poll had received its event, and the server's CPU seconds in that time.
        """
        began_s, cpu_s = time.monotonic(), usage(self.polls.pid).cpu_s
        self.control.send(APPEND, Append())
        answers = _collect(self.clients, len(self.clients.polls))
        took_s, used_s = time.monotonic() - began_s, usage(self.polls.pid).cpu_s - cpu_s
        self.control.receive(Appended)
        self.fresh_until = time.monotonic() + FRESH_S
        for nth, answer in enumerate(answers, start=1):
            self.clients.send(answer.poll)
            if nth % TOGETHER == 0:
                self.clients.read(0)
        self.settle()
        time.sleep(SETTLE_S)
        return took_s, used_s

    def idle(self, seconds: float) -> float | None:
        """Return the server's CPU seconds per second without events."""
        renewed, cpu_s, began_s = self.clients.renewed, usage(self.polls.pid).cpu_s, time.monotonic()
        while (left_s := began_s + seconds - time.monotonic()) > 0:
            self.clients.read(left_s)
        used = (usage(self.polls.pid).cpu_s - cpu_s) / seconds
        return used if self.clients.renewed == renewed else None

    def publish(self, count: int, *, to_a_key: bool) -> Histogram:
        """Append events one after another, each for one account or for one of its keys.

        Return the times from commit to response as a histogram.
        """
        took = Histogram()
        for nth in range(count):
            if time.monotonic() > self.fresh_until:
                self.wake_all()
            poll = self.clients.polls[nth * SPREAD % len(self.clients.polls)]
            key_id = poll.key_id if to_a_key else None
            meant = [
                each for each in self.clients.polls if each.account == poll.account and key_id in (None, each.key_id)
            ]
            self.control.send(APPEND, Append(poll.account, key_id))
            answers = _collect(self.clients, len(meant))
            committed_ns = self.control.receive(Appended).committed_ns
            for answer in answers:
                took.record(answer.at_ns - committed_ns)
                self.clients.send(answer.poll)
            self.settle()
        return took

    def drain(self) -> tuple[float, float, int]:
        """Stop the server.

        Return the seconds until all polls have a response, the seconds until the server ended, and the number of polls
        without a 200.
        """
        ended, left, lost = select.poll(), len(self.clients.polls), 0
        pidfd = os.pidfd_open(self.polls.pid)
        ended.register(pidfd, select.POLLIN)
        began_s = time.monotonic()
        os.kill(self.polls.pid, signal.SIGTERM)
        answered: set[int] = set()
        while len(answered) < left and time.monotonic() < began_s + ANSWER_S:
            for answer in self.clients.answers(1.0):
                if id(answer.poll) not in answered:
                    answered.add(id(answer.poll))
                    lost += answer.status != 200
        drained_s = time.monotonic() - began_s
        ended.poll(ANSWER_S * 1000)
        os.close(pidfd)
        return drained_s, time.monotonic() - began_s, lost + left - len(answered)


def _collect(clients: PollClients, count: int) -> list[PollAnswer]:
    """Wait until this many polls have received their one event."""
    answers: list[PollAnswer] = []
    until = time.monotonic() + ANSWER_S
    while len(answers) < count:
        answers += clients.read(1.0)
        if time.monotonic() > until:
            raise TimeoutError(f"{len(answers)} of {count} polls were woken")
    if wrong := [answer.events for answer in answers if answer.events != 1]:
        raise RuntimeError(f"{len(wrong)} polls did not receive exactly one event, for example {wrong[0]}")
    return answers


def measure(polls: PollLoad) -> Parked:
    """Park all polls, wake all of them, leave them idle, publish to some, and stop the server."""
    with open_control(polls.control) as control:
        run = ParkedRun(polls, control, PollClients(polls.url))
        try:
            return _measure(run)
        finally:
            run.clients.close()


def _measure(run: ParkedRun) -> Parked:
    polls = run.polls
    run.make_people()
    before = usage(polls.pid)
    run.park()
    after = usage(polls.pid)
    woken_s, woken_cpu_s = run.wake_all()
    idle = run.idle(polls.idle_s)
    to_a_key = run.publish(polls.to_a_key, to_a_key=True)
    to_an_account = run.publish(polls.to_an_account, to_a_key=False)
    drained_s, ended_s, lost = run.drain()
    return Parked(
        count=polls.count,
        bytes_each=(after.rss_bytes - before.rss_bytes) / polls.count,
        park_cpu_us=(after.cpu_s - before.cpu_s) * 1e6 / polls.count,
        all_woken_s=woken_s,
        wake_cpu_us=woken_cpu_s * 1e6 / polls.count,
        idle_cpu_share=idle,
        to_a_key=dict(to_a_key.counts),
        to_an_account=dict(to_an_account.counts),
        drained_s=drained_s,
        ended_s=ended_s,
        lost=lost,
    )


if __name__ == "__main__":
    raise_open_files()
    found = measure(msgspec.json.decode(sys.stdin.buffer.read(), type=PollLoad))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
