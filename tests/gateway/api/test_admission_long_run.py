"""Tens of thousands of requests through admission, on virtual time: one limit's rejection does not affect the other.

Method: clients whose requests last for a while, and a reference that records every admission and every running request.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import pytest

from billing.keys.cache import Key
from billing.migrations import MIGRATIONS
from gateway.api.admission import Admission
from gateway.http.request import Caller
from limits.errors import ConcurrencyReached, RateLimited
from limits.gate import Leases, MemoryGate
from limits.window import Window
from tests.billing.desk import Desk
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import open_inline

PERIOD_S = 60.0
PER_MINUTE = 600
AT_ONCE = 50
REQUESTS = 40_000
"""Enough for a thousand rejections by each limit, which the test checks."""


@dataclass
class Entrance:
    """The admission under test. Requests of `key` enter at `now`."""

    now: float = 0.0
    window: Window = field(default_factory=lambda: Window(PER_MINUTE, PERIOD_S))
    leases: Leases = field(default_factory=lambda: Leases(AT_ONCE))
    admission: Admission = field(init=False)

    def open(self, store: InlineCalls) -> None:
        desk, gate = Desk(store), MemoryGate(self.window, self.leases, lambda: self.now)
        self.admission = Admission(desk.keys, gate, desk.balances, key_prefix="sl_")

    def counters(self, key_id: str) -> tuple[object, int]:
        return self.window.look(key_id, self.now), self.leases.count(key_id)


@dataclass
class Client:
    """One key: its admitted requests, its running requests with their end times, and how long its requests last."""

    key_id: str
    mean_s: float
    lasts_s: float
    admitted: array[float] = field(default_factory=lambda: array("d"))
    running: list[tuple[float, Caller]] = field(default_factory=list)
    refusals: dict[type[Exception], int] = field(default_factory=lambda: {RateLimited: 0, ConcurrencyReached: 0})

    def expected(self, now: float) -> type[Exception] | None:
        if len(self.admitted) >= PER_MINUTE and self.admitted[-PER_MINUTE] + PERIOD_S > now:
            return RateLimited
        return ConcurrencyReached if len(self.running) >= AT_ONCE else None


@pytest.fixture
def entrance() -> Iterator[Entrance]:
    store = open_inline([MIGRATIONS])
    entrance = Entrance()
    entrance.open(store)
    yield entrance
    store.close()


def end_finished_requests(client: Client, now: float) -> None:
    while client.running and client.running[0][0] <= now:
        lease = heappop(client.running)[1].lease
        assert lease is not None
        lease.release()


def ask(entrance: Entrance, client: Client, lasts_s: float) -> Exception | None:
    """Make one request. A rejection leaves both counters unchanged, and an admission moves both by one."""
    caller = Caller(Key(client.key_id, "acc_1", "", None))
    (window, held), expected = entrance.counters(client.key_id), client.expected(entrance.now)
    refusal = rejection_of(entrance, caller)
    assert (None if refusal is None else type(refusal)) is expected
    if refusal is not None:
        assert entrance.counters(client.key_id) == (window, held)
        assert caller.lease is None
        client.refusals[type(refusal)] += 1
        return refusal
    assert entrance.counters(client.key_id) == (caller.window, held + 1)
    client.admitted.append(entrance.now)
    heappush(client.running, (entrance.now + lasts_s, caller))
    return None


def rejection_of(entrance: Entrance, caller: Caller) -> RateLimited | ConcurrencyReached | None:
    try:
        assert entrance.admission.enter_nowait(caller)
    except (RateLimited, ConcurrencyReached) as refusal:
        return refusal
    return None


def test_each_limit_rejects_exactly_at_its_value_independently(entrance: Entrance) -> None:
    rng = Random(5)
    clients = [
        Client("few long requests", 0.5, 60.0),
        Client("many short requests", 0.02, 0.1),
        Client("near both limits", 0.08, 4.4),
        Client("alternating", 0.05, 3.0),
    ]
    due = [(rng.random(), n) for n in range(len(clients))]
    for count in range(REQUESTS):
        entrance.now, number = heappop(due)
        client = clients[number]
        end_finished_requests(client, entrance.now)
        refusal = ask(entrance, client, rng.expovariate(1 / client.lasts_s))
        pause_s = rng.expovariate(1 / client.mean_s)
        if count % 3000 < 1000 and client.key_id == "alternating":
            pause_s *= 20
        if isinstance(refusal, RateLimited) and rng.random() < 0.01:
            pause_s = float(refusal.state.retry_after_s)
            assert client.expected(entrance.now + pause_s) is not RateLimited
        heappush(due, (entrance.now + pause_s, number))
    for client in clients:
        times = client.admitted
        assert all(late >= early + PERIOD_S for early, late in zip(times, times[PER_MINUTE:], strict=False))
    assert clients[0].refusals[ConcurrencyReached] > 1000
    assert clients[1].refusals[RateLimited] > 1000
    assert min(clients[2].refusals.values()) > 1000
    for client in clients:
        end_finished_requests(client, float("inf"))
    assert len(entrance.leases) == 0
