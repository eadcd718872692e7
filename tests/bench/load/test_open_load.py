"""The open loop omits nothing: it counts the wait that a caller would have had."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bench.core.process import PYTHON, open_server
from bench.core.scenarios import SCENARIOS
from bench.load.driving import REQUESTS_MAX, Tempo, bounded, drive_open, split_load
from bench.load.histogram import Histogram
from bench.load.keys import NEW_FROM
from bench.load.open_load import OpenLoad, OpenLoadCounts, OpenLoop, Ticker
from bench.load.request_spec import RequestSpec
from bench.peers.servers import ServerTarget
from tests.bench.scripted_server import OK, Asked, open_scripted
from tests.bench.stalling_server import open_stalling

BUSY = OK.replace(b"200 OK", b"429 Too Many Requests")
CLOSING = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


async def counts_of(url: str, *, rate: float, count: int, **rest: object) -> OpenLoadCounts:
    """Run in this process, with the first request a moment from now."""
    ask_fields = {name: rest.pop(name) for name in ("path", "keys", "tolerated", "head") if name in rest}
    first_ns = time.monotonic_ns() + 20_000_000
    fields = {"first_ns": first_ns, "interval_ns": round(1e9 / rate), "count": count, "drain_s": 5}
    load = msgspec.convert({"spec": {"url": url, "path": "/", **ask_fields}, **fields, **rest}, OpenLoad)
    with trio.fail_after(90):
        return await OpenLoop(load).run()


async def test_stall_is_counted_for_every_request_scheduled_in_it() -> None:
    """Goal: no coordinated omission. Method: 200 requests per second for 1 s; after 50, the server stalls for 0.5 s.

    The half of them that falls into the stall waits for its end: the first for half a second, later ones evenly less.
    With one connection, one request waits for its response, and the others for the connection.
    """
    for most in (2_000, 1):
        async with open_stalling(after=50, stall_s=0.5) as url:
            result = await counts_of(url, rate=200, count=200, connections=most)
        latencies = Histogram(result.latencies)
        assert (result.meant, latencies.total, result.unanswered, result.unexpected) == (200, 200, 0, {})
        assert result.connections <= most
        assert latencies.percentile_ms(0.99) > 470
        assert latencies.percentile_ms(0.75) > 220


async def test_slow_server_gets_every_request_and_a_fast_one_needs_few_connections() -> None:
    async with open_stalling(after=0, stall_s=0.3) as url:
        result = await counts_of(url, rate=100, count=25)
    assert (result.meant, Histogram(result.latencies).total) == (25, 25)
    assert result.connections > 20
    async with open_scripted() as asked:
        result = await counts_of(asked.url, rate=100, count=25)
    assert len(asked.heads) == 25
    assert asked.connections == result.connections <= 12


async def test_unanswered_requests_are_counted_with_their_waiting_time() -> None:
    async with open_scripted(lambda nth: [OK] if nth <= 10 else []) as asked:
        result = await counts_of(asked.url, rate=100, count=20, drain_s=0.3)
    assert (result.meant, result.unanswered) == (20, 10)
    assert Histogram(result.latencies).total == 20
    assert Histogram(result.latencies).percentile_ms(0.75) >= 300
    async with open_scripted(lambda _: []) as asked:
        result = await counts_of(asked.url, rate=100, count=20, drain_s=0.1, connections=2)
    assert (len(asked.heads), result.unanswered) == (2, 20), "requests wait for a free connection"


async def test_warm_up_is_sent_but_not_counted() -> None:
    async with open_scripted() as asked:
        counted_from_ns = time.monotonic_ns() + 20_000_000 + 245_000_000
        result = await counts_of(asked.url, rate=100, count=50, counted_from_ns=counted_from_ns)
    assert len(asked.heads) == 50
    assert 20 <= result.meant < 50
    assert Histogram(result.latencies).total == Histogram(result.lags).total == result.meant


async def test_tolerated_refusals_are_separate_and_other_refusals_invalidate_the_run() -> None:
    async with open_scripted(lambda nth: [BUSY if nth % 2 else OK]) as asked:
        tolerant = await counts_of(asked.url, rate=200, count=20, tolerated=[429])
        strict = await counts_of(asked.url, rate=200, count=20)
    assert (tolerant.refused, tolerant.unexpected) == ({"429": 10}, {})
    assert Histogram(tolerant.latencies).total == 10
    assert strict.unexpected == {"429": 10}


async def test_each_request_carries_its_own_key() -> None:
    async with open_scripted() as asked:
        await counts_of(asked.url, rate=500, count=20, path="/user{n}", keys="new", first_key=5, key_step=2)
    assert Counter(asked.targets) == Counter(b"/user%d" % (NEW_FROM + n) for n in range(5, 45, 2))


async def test_connection_closed_by_the_server_is_reopened_and_reported_during_a_request() -> None:
    async with open_scripted(lambda _: [CLOSING]) as asked:
        result = await counts_of(asked.url, rate=100, count=10)
    assert (result.unexpected, asked.connections) == ({}, 10)
    async with open_scripted(lambda nth: None if nth == 5 else [OK]) as asked:
        result = await counts_of(asked.url, rate=100, count=10)
    assert (result.unexpected, result.unanswered) == ({"ConnectionAbortedError": 1}, 0)


async def test_missing_server_is_reported_for_every_request() -> None:
    async with open_scripted() as asked:
        pass
    result = await counts_of(asked.url, rate=100, count=10)
    assert result.unexpected == {"ConnectionRefusedError": 10}


async def test_ticker_counts_ticks_that_no_task_waited_for() -> None:
    first_ns, interval_ns = time.monotonic_ns() - 100_000_000, 10_000_000
    with trio.fail_after(90), Ticker(first_ns=first_ns, interval_ns=interval_ns) as ticker:
        before = (time.monotonic_ns() - first_ns) // interval_ns + 1
        seen = await ticker.wait_due()
        assert seen >= before > 10
        time.sleep(0.1)  # noqa: ASYNC251 - the loop is to be late
        seen += await ticker.wait_due()
        assert before + 10 <= seen <= (time.monotonic_ns() - first_ns) // interval_ns + 1


@given(
    rate=st.floats(min_value=1, max_value=60_000),
    seconds=st.floats(min_value=0.1, max_value=5),
    warmup_s=st.floats(min_value=0, max_value=2),
)
def test_parts_of_a_load_combine_to_an_even_rate(rate: float, seconds: float, warmup_s: float) -> None:
    loads = split_load(RequestSpec("http://h:1", "/"), Tempo(rate, seconds, warmup_s), connections=100, first_key=7)
    assert sum(load.count for load in loads) == max(round(rate * (seconds + warmup_s)), 1)
    assert len({load.counted_from_ns for load in loads}) == 1
    instants = sorted(instant for load in loads for instant in first_instants(load, 50))[: 40 * len(loads)]
    assert {later - earlier for earlier, later in pairwise(instants)} <= {round(1e9 / rate)}
    assert sorted(load.first_key for load in loads) == list(range(7, 7 + len(loads)))
    assert {load.key_step for load in loads} == {len(loads)}


def first_instants(load: OpenLoad, many: int) -> Iterator[int]:
    return (load.first_ns + ticket * load.interval_ns for ticket in range(min(many, load.count)))


@contextmanager
def working(asked: Asked, pid: int) -> Iterator[ServerTarget]:
    """Return the scripted server, as if it were the process with this id."""
    yield ServerTarget(url=asked.url, pid=pid)


async def test_processes_share_a_load_and_only_the_servers_cpu_is_counted(tmp_path: Path) -> None:
    """Method: the process named as the server sleeps, while this process, the real server, works."""
    sleeping = (PYTHON, "-c", "print('ready', flush=True); import time; time.sleep(600)")
    pace = Tempo(rate=12_500, seconds=0.3, warmup_s=0.1)
    with trio.fail_after(90):
        async with open_server(sleeping, log=tmp_path / "log") as child, open_scripted() as asked:
            with working(asked, child.pid) as target:
                idle = await drive_open(SCENARIOS["hello"], target, pace)
            with working(asked, os.getpid()) as target:
                busy = await drive_open(SCENARIOS["hello"], target, pace)
    assert len(asked.heads) == 2 * 5_000
    assert idle.requests == busy.requests == pytest.approx(3_750, abs=2)
    assert idle.unexpected == busy.unexpected == {}
    assert idle.cpu_share < min(0.05, busy.cpu_share)
    assert busy.memory[0].rss_bytes > idle.memory[0].rss_bytes > 0


def generators() -> list[str]:
    """Return the load generators that this process has started and that still run."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in children if b"open_load" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_cancelled_run_leaves_no_process() -> None:
    async with open_scripted(lambda _: []) as asked:
        with trio.move_on_after(2.5) as scope:
            await drive_open(SCENARIOS["hello"], ServerTarget(asked.url, os.getpid()), Tempo(100, 60))
        assert scope.cancelled_caught
        assert 0 < len(asked.heads) < 1_000
    assert generators() == []


def test_step_with_too_many_requests_is_shortened_at_the_same_rate() -> None:
    """The figures are divided by the seconds that were actually counted."""
    assert bounded(Tempo(10_000, 3_600)) == Tempo(10_000, REQUESTS_MAX / 10_000)
    assert bounded(Tempo(10_000, 5)) == Tempo(10_000, 5)
    loads = split_load(RequestSpec("http://h:1", "/"), bounded(Tempo(10_000, 3_600)), connections=100, first_key=1)
    assert sum(load.count for load in loads) == REQUESTS_MAX + 10_000
