"""The gate of many nodes on a real Redis: exact under any interleaving, and consistent after every loss."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TypeAlias

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limits.errors import ConcurrencyReached, LimitError, RateLimited
from limits.gate import LeaseHandle
from limits.shared_gate import SharedGate
from limits.window import Window
from tests.fakes.shared_gates import logged_scripts, open_gate, set_clock, virtual_scripts
from tests.servers.redis import RedisServer
from tests.servers.waiting import until

TICKS = 8  # a second, so that the model's floats are exact
START_S = 1_000_000_000.0
WINDOW_S, LEASE_S = 60, 30

Answer: TypeAlias = tuple[str, object]


class Model:
    """The expected window and leases of one key, on a clock in seconds."""

    def __init__(self, requests: int, concurrent: int) -> None:
        self.window = Window(requests, WINDOW_S)
        self.limits = {"requests": requests, "concurrent": concurrent}
        self.ends: dict[object, float] = {}

    def admit(self, now: float) -> Answer:
        try:
            state = self.window.admit("k", now)
        except RateLimited as refusal:
            return "rate", refusal.state
        self.ends = {lease: ends for lease, ends in self.ends.items() if ends > now}
        if len(self.ends) >= self.limits["concurrent"]:
            self.window.take_back("k")
            return "concurrency", self.limits["concurrent"]
        return "admitted", state

    def resize(self, limits: dict[str, int]) -> None:
        self.limits |= limits
        self.window.resize(self.limits["requests"])


async def try_admit(gate: SharedGate) -> tuple[Answer, LeaseHandle | None]:
    try:
        admitted = await gate.admit("a", "k")
    except RateLimited as refusal:
        return ("rate", refusal.state), None
    except ConcurrencyReached as refusal:
        return ("concurrency", refusal.limit), None
    return ("admitted", admitted.window), admitted.lease


class Nodes:
    """Gates over one server on a virtual clock, together with the model of their responses."""

    def __init__(self, server: RedisServer, gates: Sequence[SharedGate], model: Model) -> None:
        self.server = server
        self.gates = gates
        self.model = model
        self.now = START_S
        self.held: list[tuple[int, LeaseHandle]] = []

    async def admit(self, node: int) -> None:
        answer, lease = await try_admit(self.gates[node])
        assert answer == self.model.admit(self.now)
        if lease is not None:
            self.held.append((node, lease))
            self.model.ends[lease] = self.now + LEASE_S

    async def pass_(self, ticks: int) -> None:
        self.now += ticks / TICKS
        set_clock(self.server, round(self.now * 1e6))

    async def release(self, place: int) -> None:
        """Release some lease. Later renewals by all nodes must not restore it."""
        if self.held:
            _, lease = self.held.pop(place % len(self.held))
            lease.release()
            self.model.ends.pop(lease, None)
            for node in range(len(self.gates)):
                await self.renew(node)

    async def renew(self, node: int) -> None:
        await self.gates[node].renew()
        self.model.ends.update({lease: self.now + LEASE_S for owner, lease in self.held if owner == node})

    async def requests(self, limit: int) -> None:
        self._resize({"requests": limit})

    async def concurrent(self, limit: int) -> None:
        self._resize({"concurrent": limit})

    def _resize(self, limits: dict[str, int]) -> None:
        self.model.resize(limits)
        for gate in self.gates:
            gate.resize(requests=self.model.limits["requests"], concurrent=self.model.limits["concurrent"])


@asynccontextmanager
async def open_nodes(server: RedisServer, *, requests: int, concurrent: int) -> AsyncIterator[Nodes]:
    """Two nodes whose heartbeat runs only at the start, because it uses the real clock."""
    server.ask("FLUSHALL")
    set_clock(server, round(START_S * 1e6))
    opened = partial(open_gate, server, requests=requests, concurrent=concurrent, scripts=virtual_scripts())
    with trio.fail_after(20):
        async with opened() as one, opened() as two:
            yield Nodes(server, (one, two), Model(requests, concurrent))


STEPS = st.one_of(
    st.tuples(st.just("admit"), st.integers(0, 1)),
    st.tuples(st.just("admit"), st.integers(0, 1)),
    st.tuples(st.just("pass_"), st.integers(0, 40 * TICKS)),
    st.tuples(st.just("release"), st.integers(0, 5)),
    st.tuples(st.just("requests"), st.integers(1, 6)),
    st.tuples(st.just("concurrent"), st.integers(1, 4)),
    st.tuples(st.just("renew"), st.integers(0, 1)),
)
for_each_example = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@for_each_example
@given(steps=st.lists(STEPS, max_size=40))
async def test_two_nodes_act_like_one_window_and_one_set_of_leases(
    empty_redis: RedisServer, steps: list[tuple[str, int]]
):
    """Goal: exactness. Method: random steps on two nodes, each compared with the model, on a virtual clock."""
    async with open_nodes(empty_redis, requests=4, concurrent=2) as nodes:
        for step, value in steps:
            await getattr(nodes, step)(value)


@for_each_example
@given(bursts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30 * TICKS)), max_size=8))
async def test_simultaneous_requests_fill_the_window_exactly(empty_redis: RedisServer, bursts: list[tuple[int, int]]):
    """Goal: never more than the limit, never a refusal below it. Method: bursts through both nodes concurrently."""
    async with open_nodes(empty_redis, requests=6, concurrent=100) as nodes:
        for size, ticks in bursts:
            answers: list[Answer] = []

            async def enter(gate: SharedGate, answers: list[Answer]) -> None:
                answer, lease = await try_admit(gate)
                answers.append(answer)
                if lease is not None:
                    lease.release()

            async with trio.open_nursery() as nursery:
                for number in range(size):
                    nursery.start_soon(enter, nodes.gates[number % 2], answers)
            assert sorted(map(repr, answers)) == sorted(repr(nodes.model.admit(nodes.now)) for _ in range(size))
            await nodes.pass_(ticks)


async def test_only_admitted_requests_are_counted_when_callers_leave(empty_redis: RedisServer):
    """Goal: a cancelled caller's admission is undone. Method: impatient callers on a wide window."""
    admitted: list[LeaseHandle] = []

    async def enter(gate: SharedGate, patience_s: float) -> None:
        with trio.move_on_after(patience_s):
            admitted.append((await gate.admit("a", "k")).lease)

    with trio.fail_after(20):
        async with open_gate(empty_redis, requests=10_000, concurrent=10_000) as gate:
            await gate.admit("a", "k")
            for round_number in range(40):
                async with trio.open_nursery() as nursery:
                    for number in range(30):
                        nursery.start_soon(enter, gate, 0.0002 * (number % 10) if round_number % 2 else 10)
            left = 40 * 30 - len(admitted)
            assert 0 < left <= 600  # on a busy machine, all impatient callers are cancelled
            await until(lambda: empty_redis.ask("LLEN", "sluice:{a}:window:k") == len(admitted) + 1)
            assert empty_redis.ask("ZCARD", "sluice:{a}:leases:k") == len(admitted) + 1 == len(gate)


async def test_window_is_exact_under_load_on_the_servers_clock(empty_redis: RedisServer):
    """Goal: exactness in real time. Method: three nodes flood a short window; the script's own log is checked."""
    window_s, limit = 0.4, 25
    opened = partial(
        open_gate, empty_redis, requests=limit, concurrent=1000, scripts=logged_scripts(), window_s=window_s
    )

    async def hammer(gate: SharedGate, rng: Random) -> None:
        while True:
            with suppress(LimitError):
                (await gate.admit("a", "k")).lease.release()
            await trio.sleep(rng.uniform(0, 0.02))

    with trio.fail_after(20):
        async with opened() as one, opened() as two, opened() as three:
            with trio.move_on_after(2.0):
                async with trio.open_nursery() as nursery:
                    for number in range(12):
                        nursery.start_soon(hammer, (one, two, three)[number % 3], Random(number))
    log = _log(empty_redis, "log")
    window_us = round(window_s * 1e6)
    assert len(log) > 4 * limit
    assert all(later - earlier >= window_us for earlier, later in zip(log, log[limit:], strict=False))
    for refused in _log(empty_redis, "refused"):
        assert sum(refused - window_us < admitted <= refused for admitted in log) >= limit


def _log(server: RedisServer, name: str) -> list[int]:
    told = server.ask("LRANGE", name, 0, -1)
    assert isinstance(told, list)
    return [int(entry) for entry in told]
