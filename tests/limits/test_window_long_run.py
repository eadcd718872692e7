"""Many requests through the window in virtual time: exact to the request, for any clients and operators.

Method: several keys, each with a client that behaves differently, in the order of one clock. The reference keeps all
admissions and checks only whether the admission `limit` admissions ago has left the window. It therefore shares no idea
with the implementation.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from random import Random

import pytest

from limits.errors import RateLimited
from limits.window import Window

PERIOD_S = 60.0
LIMIT = 600
REQUESTS = 300_000
"""Enough for each client to fill and leave its window dozens of times."""
MOODS = ("hammering", "bursting", "pacing", "obeying", "idling", "synchronous")


class Reference:
    """All admissions of one key, oldest first."""

    def __init__(self) -> None:
        self.admitted = array("d")

    def is_open(self, now: float, limit: int) -> bool:
        """Return whether fewer than `limit` of them are younger than a period."""
        return len(self.admitted) < limit or self.admitted[-limit] + PERIOD_S <= now

    def remaining(self, now: float, limit: int) -> int:
        """Return how many more would be admitted now, by counting."""
        left = bisect_right(self.admitted, now, key=lambda at: at + PERIOD_S)
        return max(0, limit - (len(self.admitted) - left))


@dataclass
class Client:
    """One key's client: the time of its next request, and its reaction to a refusal."""

    key: str
    mood: str
    rng: Random
    reference: Reference = field(default_factory=Reference)
    refused: int = 0
    waited_out: bool = False
    in_burst: int = 0

    def pause_s(self, retry_after_s: int) -> float:
        """Return the seconds until its next request. Clients of every mood sometimes only wait, obeying Retry-After."""
        rng = self.rng
        self.waited_out = bool(retry_after_s) and rng.random() < (1.0 if self.mood == "obeying" else 0.001)
        if self.waited_out:
            return float(retry_after_s)
        if rng.random() < 0.0005:
            return rng.choice((30.0, 59.75, PERIOD_S, 61.0, 300.0))
        return self._usual_pause_s()

    def _usual_pause_s(self) -> float:
        rng = self.rng
        if self.mood == "synchronous":  # all of its requests arrive at the same few times
            return rng.choice((0.0, 0.0, 0.0, 0.25))
        if self.mood == "bursting":
            self.in_burst = (self.in_burst + 1) % 900
            return rng.random() * 0.002 if self.in_burst else 70.0 * rng.random()
        mean_s = {"hammering": 0.02, "pacing": PERIOD_S / LIMIT, "obeying": 0.05, "idling": 0.5}[self.mood]
        return rng.expovariate(1 / mean_s)


def schedule(clients: list[Client], window: Window) -> Iterator[tuple[float, Client]]:
    """Requests in order of time. `look` returns how long a refused client must wait."""
    waiting = [(client.rng.random(), number) for number, client in enumerate(clients)]
    heapify(waiting)
    while True:
        now, number = waiting[0]
        client = clients[number]
        yield now, client
        heapreplace(waiting, (now + client.pause_s(window.look(client.key, now).retry_after_s), number))


def check_request(window: Window, client: Client, now: float, limit: int) -> None:
    """Make one request and compare it with the reference."""
    is_open = client.reference.is_open(now, limit)
    assert is_open or not client.waited_out, "a client that waits for Retry-After is admitted"
    if is_open:
        window.admit(client.key, now)
        client.reference.admitted.append(now)
        return
    client.refused += 1
    assert window.look(client.key, now).remaining == 0
    if client.refused % 16 == 0:
        check_refusal(window, client, now, limit)


def check_refusal(window: Window, client: Client, now: float, limit: int) -> None:
    """Check that it returns the fewest whole seconds, and changes nothing."""
    with pytest.raises(RateLimited) as refusal:
        window.admit(client.key, now)
    wait_s = refusal.value.state.retry_after_s
    assert client.reference.is_open(now + wait_s, limit)
    assert wait_s >= 1
    assert not client.reference.is_open(now + (wait_s - 1), limit)


def check_every_period(client: Client, limit: int) -> None:
    """Check that no period ever contained `limit` + 1 admissions."""
    times = client.reference.admitted
    assert all(late >= early + PERIOD_S for early, late in zip(times, times[limit:], strict=False))


def test_requests_pass_exactly_at_600_per_minute() -> None:
    window = Window(LIMIT, PERIOD_S)
    clients = [Client(f"{mood}-{n}", mood, Random(f"{mood}-{n}")) for mood in MOODS for n in range(2)]
    for count, (now, client) in enumerate(schedule(clients, window)):
        check_request(window, client, now, LIMIT)
        if count % 64 == 0:
            assert window.look(client.key, now).remaining == client.reference.remaining(now, LIMIT)
        if count % 500 == 0:
            window.admit(f"visitor-{count}", now)  # idle keys are removed during requests of active ones
        if count == REQUESTS:
            break
    for client in clients:
        check_every_period(client, LIMIT)
        assert len(client.reference.admitted) > LIMIT
    assert sum(client.refused for client in clients) > REQUESTS // 4
    assert len(window) < 1000


@pytest.mark.parametrize("seed", range(2))
def test_repeatedly_changed_limit_is_exact_at_all_times(seed: int) -> None:
    """A reload that lowers a limit and one that raises it again lose no admission in between."""
    rng, limit = Random(seed), 60
    window = Window(limit, PERIOD_S)
    clients = [Client(mood, mood, Random(f"{mood}-{seed}")) for mood in MOODS]
    for count, (now, client) in enumerate(schedule(clients, window)):
        if rng.random() < 0.002:
            limit = rng.choice((1, 5, 30, 60, 60, 100))
            window.resize(limit)
            for one in clients:
                one.waited_out = False  # the earlier response was correct for the limit at that time
        check_request(window, client, now, limit)
        assert window.look(client.key, now).remaining == client.reference.remaining(now, limit)
        if count == 50_000:
            break
    assert all(client.refused for client in clients if client.mood != "idling")
