"""`python -m tests.simulation SEED` replays one world, `--seeds N [--start S]` runs many on all cores."""

from __future__ import annotations

import argparse
import sys

from tests.fakes.stores import open_stores
from tests.simulation.faults import FAULTS
from tests.simulation.running import judge_many, simulate, told


def main() -> int:
    """Run according to the arguments. Return 1 if an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("seed", type=int, nargs="?", help="the world to replay, with its whole trace")
    what.add_argument("--seeds", type=int, metavar="N", help="run N worlds")
    parser.add_argument("--start", type=int, default=0, metavar="S", help="the first of the N seeds")
    parser.add_argument("--fault", choices=FAULTS, default="none", help="a fault to plant")
    arguments = parser.parse_args()
    with open_stores():
        if arguments.seed is not None:
            return _replay(arguments.seed, arguments.fault)
        return _search(range(arguments.start, arguments.start + arguments.seeds), arguments.fault)


def _replay(seed: int, fault: str) -> int:
    trace = simulate(seed, fault)
    print("\n".join(trace.lines))
    if trace.broken is None:
        print(f"seed {seed}: all invariants hold; {len(trace.lines)} events, {trace.digest[:16]}")
        return 0
    print(told(seed, fault, trace).rpartition("\nseed ")[2])
    return 1


def _search(seeds: range, fault: str) -> int:
    failed = 0
    for verdict in judge_many(seeds, fault):
        if verdict.invariant is not None:
            failed += 1
            print(verdict.text, end="\n\n", flush=True)
    print(f"{len(seeds)} worlds, {failed} broke an invariant")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
