"""Runs worlds: one by its seed, or many on all cores, and reports the ones that break an invariant."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import NamedTuple

from tests.simulation.faults import FAULTS
from tests.simulation.scheduling import run_seeded
from tests.simulation.trace import Trace
from tests.simulation.world import World

LAST_EVENTS = 30


class Verdict(NamedTuple):
    """How a world ended: the first broken invariant, if any, and a report for diagnosis."""

    seed: int
    invariant: str | None
    text: str


def simulate(seed: int, fault: str = "none") -> Trace:
    """Run the world of a seed to its end, or to the first broken invariant."""
    spoiled = FAULTS[fault]
    world = World(seed, spoiled.plant, spoiled.schema)
    with closing(world):
        run_seeded(world.run, seed, instruments=[world])
    return world.trace


def judge(seed: int, fault: str = "none") -> Verdict:
    """Run the world of a seed and return how it ended."""
    trace = simulate(seed, fault)
    if trace.broken is None:
        return Verdict(seed, None, f"seed {seed}: every invariant holds, {len(trace.lines)} events")
    return Verdict(seed, trace.broken.invariant, told(seed, fault, trace))


def told(seed: int, fault: str, trace: Trace) -> str:
    """Return the last events, the broken invariant, and the command that replays it."""
    again = f"python -m tests.simulation {seed}" + ("" if fault == "none" else f" --fault {fault}")
    return "\n".join([*trace.lines[-LAST_EVENTS:], f"seed {seed}: {trace.broken}", f"replay: {again}"])


def judge_many(seeds: Iterable[int], fault: str = "none") -> Iterator[Verdict]:
    """Yield the verdicts on many seeds as they arrive, using one process per core."""
    with multiprocessing.get_context("forkserver").Pool() as pool:
        yield from pool.imap_unordered(partial(judge, fault=fault), seeds, chunksize=4)
