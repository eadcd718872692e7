"""A node's event loop in virtual time: it runs pass by pass, and sheds load according to the shedder."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gateway.api.overload import LAG_S, TICK_S, WARY_TICK_S
from limits.overload.shedding import LoadShedder

STEPS = 4
"""The number of pieces into which a request's work is split. Between two pieces, the loop makes a pass."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request and the key that sends it."""

    at: float
    key: bytes


@dataclass(slots=True)
class Ended:
    """The finished requests: each arrival with its latency in seconds."""

    served: list[tuple[Arrival, float]] = field(default_factory=list)
    refused: list[tuple[Arrival, float]] = field(default_factory=list)

    def of(self, key: bytes) -> Ended:
        """Return the requests of one key."""
        return Ended(*([each for each in one if each[0].key == key] for one in (self.served, self.refused)))

    def between(self, begin: float, end: float) -> Ended:
        """Return the requests that arrived in a time span."""
        return Ended(*([each for each in one if begin <= each[0].at < end] for one in (self.served, self.refused)))

    @property
    def served_share(self) -> float:
        """Return the share of the finished requests that were served."""
        return len(self.served) / max(1, len(self.served) + len(self.refused))


def percentile(ended: Sequence[tuple[Arrival, float]], share: float) -> float:
    """Return the latency that this share of requests does not exceed."""
    ordered = sorted(latency for _, latency in ended)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def steady(rate: float, begin: float, end: float, *, key: bytes = b"flood", rng: random.Random) -> list[Arrival]:
    """Return arrivals at a given rate, with the random gaps of many independent callers."""
    arrivals, at = [], begin
    while (at := at + rng.expovariate(rate)) < end:
        arrivals.append(Arrival(at, key))
    return arrivals


class SimulatedLoop:
    """Serves arrivals. Each takes `work_s` of CPU and waits `wait_s` upstream, or takes `refusal_s` if refused."""

    def __init__(
        self,
        shedder: LoadShedder,
        rng: random.Random,
        *,
        work_s: float = 250e-6,
        refusal_s: float = 20e-6,
        wait_s: float = 0.0,
    ) -> None:
        self._shedder = shedder
        self._rng = rng
        self._work_s = work_s
        self._refusal_s = refusal_s
        self._wait_s = wait_s
        self._at = 0.0
        self._busy = self._waiting = 0
        self._tick_at = TICK_S
        self._looked_at: float | None = None
        self.ended = Ended()
        self.limits: list[tuple[float, int]] = []
        """The limit at each tick, while the node sheds load."""
        self.busy_max = 0

    def run(self, arrivals: Iterable[Arrival], until: float) -> Ended:
        """Run everything until a given time."""
        coming = [(each.at, n, each, 0) for n, each in enumerate(sorted(arrivals, key=lambda each: each.at))]
        heapq.heapify(coming)
        numbers = len(coming)
        while self._at < until:
            ready = []
            while coming and coming[0][0] <= self._at:
                ready.append(heapq.heappop(coming))
            is_due = self._tick_at <= self._at or self._looked_at is not None
            if not ready and not is_due:
                self._at = min(self._tick_at, coming[0][0] if coming else until, until)
                continue
            self._rng.shuffle(ready)
            tick_place = self._rng.randrange(len(ready) + 1) if is_due else -1
            for place, (_, _, arrival, step) in enumerate(ready):
                if place == tick_place:
                    self._tick()
                again_at = self._step(arrival, step)
                if again_at is not None:
                    numbers += 1
                    heapq.heappush(coming, (again_at, numbers, arrival, step + 1))
            if tick_place == len(ready):
                self._tick()
        return self.ended

    def _step(self, arrival: Arrival, step: int) -> float | None:
        """Do a piece of a request's work. Return when the next one is ready."""
        if step == 0:
            if self._shedder.active and not self._shedder.admits(arrival.key):
                self._at += self._refusal_s
                self.ended.refused.append((arrival, self._at - arrival.at))
                return None
            self._busy += 1
            self.busy_max = max(self.busy_max, self._busy)
        if step == STEPS // 2 + 1:
            self._waiting -= 1
        self._at += self._work_s / STEPS
        if step == STEPS - 1:
            self._busy -= 1
            self.ended.served.append((arrival, self._at - arrival.at - self._wait_s))
            return None
        if step == STEPS // 2:
            self._waiting += 1
            return self._at + self._wait_s
        return self._at

    def _tick(self) -> None:
        """Tick like `Overload.watch`, where each measurement needs two passes of the loop."""
        if self._looked_at is None:
            self._looked_at = self._at
            return
        lag_s = max(self._looked_at - self._tick_at, self._at - self._looked_at)
        self._looked_at = None
        self._shedder.observe(self._at, lag_s / LAG_S, self._busy - self._waiting)
        if self._shedder.active:
            self.limits.append((self._at, self._shedder.statistics().limit))
        tick_s = WARY_TICK_S if self._shedder.is_wary else TICK_S
        self._tick_at = self._at + tick_s * (0.5 + self._rng.random())
