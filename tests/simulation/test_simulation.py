"""Whole nodes in generated worlds: no invariant breaks, planted faults break the right one, and a seed replays.

`python -m tests.simulation --seeds 5000` searches more worlds, and `python -m tests.simulation SEED` shows a whole
trace.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.fakes.stores import ENGINES, SWITCH, engine
from tests.gate.matrix import seed as commit_seed
from tests.servers.postgres import PostgresServer
from tests.simulation import answers, breaker_model, shadow
from tests.simulation.running import judge, simulate, told

FIXED = 30
"""The seeds that every run tries. Together, they contain every kind of fault."""
CHOSEN = 70
"""The seeds that the commit chooses, so that each commit searches other worlds."""
PART = 10
ROOT = Path(__file__).parents[2]
CAUGHT_WITHIN = 10
"""The number of seeds to try for each fault. Most of them reveal it."""


@cache
def lines_of(seed: int) -> list[str]:
    """Return the trace of a world in which every invariant holds."""
    trace = simulate(seed)
    assert trace.broken is None, told(seed, "none", trace)
    return trace.lines


def replay(seed: int, *options: str, hash_seed: str = "0", **more: str) -> subprocess.CompletedProcess[str]:
    """Return the command that a failing seed prints."""
    command = [sys.executable, "-m", "tests.simulation", str(seed), *options]
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed, **more}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("part", range((FIXED + CHOSEN) // PART))
def test_no_seed_breaks_an_invariant(part: int) -> None:
    seeds = [*range(FIXED), *Random(commit_seed()).sample(range(FIXED, 100_000), CHOSEN)]
    for seed in seeds[part * PART : (part + 1) * PART]:
        assert lines_of(seed)


@pytest.mark.parametrize(
    ("fault", "invariants"),
    [
        ("unshielded", {answers.CLOSED}),
        ("double-refund", {shadow.ONCE}),
        ("stale-breaker", {breaker_model.STATES, breaker_model.SHUT, breaker_model.ONE_PROBE}),
    ],
)
def test_planted_fault_is_caught_and_its_invariant_named(fault: str, invariants: set[str]) -> None:
    caught = {verdict.invariant for seed in range(CAUGHT_WITHIN) if (verdict := judge(seed, fault)).invariant}
    assert caught
    assert caught <= invariants


def test_same_seed_gives_the_same_run_regardless_of_hashing() -> None:
    here = simulate(3)
    assert here.digest == simulate(3).digest != simulate(4).digest
    for hash_seed in ("1", "2"):
        assert replay(3, hash_seed=hash_seed).stdout.strip().endswith(here.digest[:16])


def test_same_seed_gives_the_same_run_on_each_engine(postgres: PostgresServer) -> None:
    """Goal: a node notices no difference between the engines, including failing commits and deaths."""
    other = next(name for name in ENGINES if name != engine())
    for seed in (3, 4):
        assert replay(seed, **{SWITCH: other}).stdout.strip().endswith(simulate(seed).digest[:16])


def test_failing_seed_prints_the_fault_and_how_to_replay_it() -> None:
    fault = "double-refund"
    seed = next(seed for seed in range(CAUGHT_WITHIN) if judge(seed, fault).invariant)
    text = judge(seed, fault).text
    assert text.endswith(f"replay: python -m tests.simulation {seed} --fault {fault}")
    again = replay(seed, "--fault", fault)
    assert again.returncode == 1
    assert again.stdout.strip().endswith(text.splitlines()[-1])
    assert f"BROKEN {shadow.ONCE}" in again.stdout


def test_worlds_contain_every_kind_of_fault() -> None:
    """Goal: the simulation keeps covering its cases. Method: events that must occur in some of the first traces."""
    happened = "\n".join(line for seed in range(FIXED) for line in lines_of(seed))
    codes = ("RATE_LIMITED", "CONCURRENCY_LIMIT", "INSUFFICIENT_CREDITS", "KEY_BUDGET_EXCEEDED", "INVALID_API_KEY")
    claims = ("IDEMPOTENCY_IN_PROGRESS", "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", "IDEMPOTENCY_KEY_CONFLICT")
    failures = ("UPSTREAM_ERROR", "SERVICE_UNAVAILABLE", "RESOURCE_NOT_FOUND", "INVALID_REQUEST")
    for name in (*codes, *claims, *failures):
        assert f" {name} for 0" in happened, name
    for event in (
        "hung up",
        "was gone",
        "dies",
        "could not start",
        "cached",
        "replayed",
        "recovered",
        "was refused, StoreUnavailable",
    ):
        assert event in happened, event
    for act in ("grant", "limit", "reset usage", "revoke", "isolate", "reset circuits", "reload"):
        assert f"operator: {act}\n" in happened, act
