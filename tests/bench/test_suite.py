"""The parts of a run, and a short complete run with a real node, the sandbox and the load."""

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from bench.core.errors import ChildFailed, WrongUse
from bench.core.results import MemorySample, Point, new_results
from bench.core.scenarios import PEERS, SCENARIOS
from bench.load.keys import KEYS
from bench.marks import added_latency, lost_throughput
from bench.peers.servers import SERVERS
from bench.suite import (
    SuiteOptions,
    growth_mb,
    run_suite,
    seconds_of,
    soak_marks,
    works_of,
)
from bench.sweep import Sweep, check_sweep, read_sweep, run_sweep, works_of_sweep
from tests.bench.samples import COST, STEP


def test_every_scenario_has_its_name_and_a_known_server_and_key_mode() -> None:
    assert all(name == row.name for name, row in SCENARIOS.items())
    assert {row.stage.server for row in SCENARIOS.values()} <= {*SERVERS, "sandbox"}
    assert {row.keys for row in SCENARIOS.values()} <= set(KEYS)
    assert set(PEERS) < set(SCENARIOS)


async def test_scenario_runs_its_repeats_and_fails_if_its_node_dies() -> None:
    """Method: the node is killed when the last step starts; every finished step is kept."""
    rates = {"hit": {"100/s": 100.0}}
    options = SuiteOptions(scenarios=("hit",), rates=rates, seconds=0.3, repeats=3)
    results, told = new_results(), list[str]()

    def announce(what: str) -> None:
        told.append(what)
        if len(told) == works_of(options):
            os.kill(pid_of(b"serve"), signal.SIGKILL)

    with trio.fail_after(90), pytest.raises(ChildFailed, match=r"serve .* ended with -9"):
        await run_suite(options, results, announce)
    assert len(told) == 1 + 3
    assert [(point.label, len(point.steps)) for point in results.points] == [("100/s", 2)]
    for point in results.points:
        for step in point.steps:
            assert (step.unexpected, step.unanswered) == ({}, 0)
            assert step.requests == pytest.approx(0.3 * step.rate, abs=2)
            assert step.cpu_us > 0
    assert len(results.hello_us) == 1


def pid_of(command: bytes) -> int:
    """Return the child of this process that runs this command."""
    children = (pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split())
    (found,) = (pid for pid in children if command in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
    return int(found)


async def test_sweep_runs_the_scenario_with_each_value_and_allows_refusals() -> None:
    """Method: the window first admits 20 requests per key, then 1,000,000; at least 60 are sent."""
    sweep = Sweep("limits.requests_per_minute", (20, 1_000_000))
    options = SuiteOptions(("hit",), {"hit": {"100/s": 100.0}}, 0.2, 1)
    results, told = new_results(), list[str]()
    with trio.fail_after(90):
        await run_sweep(sweep, options, results, told.append)
    assert len(told) == works_of_sweep(sweep, options)
    narrow, wide = (point.steps[0] for point in results.points)
    assert [point.setting for point in results.points] == [
        "limits.requests_per_minute=20",
        "limits.requests_per_minute=1000000",
    ]
    assert narrow.refused_per_s > 50
    assert (wide.refused_per_s, wide.unexpected, narrow.unexpected) == (0, {}, {})


@pytest.mark.parametrize(
    ("seconds", "name", "expected"), [(None, "hit", 3.0), (0.5, "hit", 0.5), (None, "soak", 500.0), (2.0, "soak", 2.0)]
)
def test_step_is_measured_in_seconds_and_soak_in_requests(seconds: float | None, name: str, expected: float) -> None:
    assert seconds_of(SCENARIOS[name], SuiteOptions(seconds=seconds), 2_000.0) == expected


def test_growth_is_measured_in_own_memory_per_million_requests() -> None:
    own = [100e6] * 10 + [150e6] * 80 + [104e6] * 10
    memory = tuple(MemorySample(float(at), 200_000_000 + at, round(held)) for at, held in enumerate(own))
    step = replace(STEP, requests=500_000, memory=memory)
    assert growth_mb([step]) == pytest.approx(8)
    (mark,) = soak_marks(SCENARIOS["soak"], [Point("soak", "50%", "", [step])])
    assert (mark.value, mark.met) == (pytest.approx(8), False)


def test_growth_has_a_mark_only_in_long_soak_runs() -> None:
    long, short = (Point("soak", "50%", "", [replace(STEP, requests=count)]) for count in (200_000, 50_000))
    assert soak_marks(SCENARIOS["hit"], [long]) == []
    assert soak_marks(SCENARIOS["soak"], [short]) == []


def test_added_latency_is_the_difference_of_the_medians() -> None:
    direct, miss = replace(COST, p50_ms=0.5), replace(COST, p50_ms=1.5)
    assert added_latency([direct, miss]).value == pytest.approx(1.0)
    assert added_latency([direct, replace(miss, unexpected={"500": 1})]).value is None


def test_lost_throughput_is_computed_from_both_turns() -> None:
    costs = [replace(COST, per_second=rate) for rate in (1_000.0, 900.0, 1_200.0, 860.0)]
    assert lost_throughput(costs).value == pytest.approx(20)
    assert lost_throughput([replace(cost, per_second=0.0) for cost in costs]).value is None


def test_sweep_is_parsed_into_a_setting_and_its_values() -> None:
    assert read_sweep("cache.max_bytes=0,1000000") == Sweep("cache.max_bytes", (0, 1_000_000))
    assert read_sweep("server.engine=native,hypercorn").values == ("native", "hypercorn")
    assert read_sweep("limits.long_polls = 5, 5, 10").values == (5, 10)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a setting with values"),
        ("limits.long_polls", "not a setting with values"),
        ("limits.long_polls=", "not a setting with values"),
        ("limits.long_polls=1,,2", "a value is missing"),
        ("limits=1", "'limits' is not a setting of config.toml"),
        ("=1", "'' is not a setting of config.toml"),
        ("a b.c=1", "'a b.c' is not a setting of config.toml"),
        ("limits.long_poll=1,2", 'limits.long_poll: unknown key; did you mean "limits.long_polls"?'),
        ("limits.long_polls=1,x", "limits.long_polls=x: limits.long_polls: must be a whole number"),
        ("server.engine=native,hypercron", 'did you mean "hypercorn"?'),
        ("webhooks.backoff_s=[5],[0]", r"webhooks.backoff_s=[0]: webhooks.backoff_s: must be an array"),
        ("log.access=2024-01-01", "2024-01-01 is not a valid setting"),
        ("server.workers=1,2", "server.workers=2: store.url: server.workers = 2 needs PostgreSQL"),
        ("upstreams.egress=https://example.com", "upstreams.egress cannot be varied"),
        ("store.url=postgresql://db/main", "store.url cannot be varied"),
    ],
)
def test_setting_that_a_node_rejects_is_rejected_before_anything_runs(text: str, said: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(said)):
        check_sweep(read_sweep(text), SCENARIOS["hit"])


@pytest.mark.parametrize(
    "text",
    [
        "webhooks.backoff_s=[5, 300],[1]",
        "log.access=true,false",
        "cache.max_bytes=0,64_000_000",
        "server.engine=native,hypercorn",
        'upstreams.operator_contact="a, b",me@example.com',
        "upstreams.github.timeout_s=0.5,10",
        "limits.concurrent_requests=10,50",
    ],
)
def test_every_kind_of_setting_can_be_varied(text: str) -> None:
    check_sweep(read_sweep(text), SCENARIOS["overload"])


def test_workers_can_be_varied_if_their_servers_are_installed() -> None:
    check_sweep(Sweep("server.workers", (1, 2)), SCENARIOS["shared"])
