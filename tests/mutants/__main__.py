"""Break the program in seeded places, one at a time, and report which faults no test finds.

    python -m tests.mutants [--seed 1] [--count 200] [--processes 2] [FOLDER ...]

Each fault is put into a copy of the program, and the tests of the same folder run until one fails: those in
`tests/billing/charges` for a module in `billing/charges`. A fault that they miss may still be found by the tests of a
whole node. Exits 1 if a fault was missed. Two hundred faults take about 40 minutes of CPU time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from random import Random
from typing import Final

from tests.mutants.faults import Fault, faults_of

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("billing", "limits", "gateway/calls", "gateway/feed", "upstreams/fetching", "events")
"""The folders where a missed fault costs credits, breaks a limit or loses an event."""
TIMEOUT_S: Final = 300.0
"""A fault can make a test wait forever. This counts as found, because the gate would fail."""
LEFT_OUT: Final = shutil.ignore_patterns(".git", "node_modules", "__pycache__", ".*_cache", ".hypothesis", "results")


def chosen_faults(folders: tuple[str, ...], seed: int, count: int) -> list[Fault]:
    """Return a seeded sample of all faults of these folders; the same for the same seed and program."""
    paths = [path.relative_to(ROOT).as_posix() for one in folders for path in sorted((ROOT / one).rglob("*.py"))]
    every = [fault for path in paths if tests_of(path) is not None for fault in faults_of(ROOT, path)]
    return Random(seed).sample(every, min(count, len(every)))


def tests_of(path: str) -> str | None:
    """Return the folder of the tests of a module: the nearest one with the same name; None if there is none."""
    for folder in Path(path).parents:
        if folder != Path() and (ROOT / "tests" / folder).is_dir():
            return f"tests/{folder.as_posix()}"
    return None


def is_found(fault: Fault, copy: Path) -> bool:
    """Return whether a test fails with this fault in the copy of the program."""
    changed = copy / fault.path
    source = changed.read_text()
    changed.write_text(fault.applied(source))
    tests = tests_of(fault.path)
    assert tests is not None, "faults are chosen from folders that have tests"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", tests]
    environ = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        with open(os.devnull, "wb") as nothing:
            ended = subprocess.run(
                command, cwd=copy, env=environ, stdout=nothing, stderr=nothing, check=False, timeout=TIMEOUT_S
            )
    except subprocess.TimeoutExpired:
        return True
    else:
        return ended.returncode != 0
    finally:
        changed.write_text(source)


def main() -> int:
    """Try the chosen faults on several copies of the program at once."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="folders of the program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    faults = chosen_faults(tuple(args.folders), args.seed, args.count)
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for number in range(args.processes):
            copy = Path(folder, str(number), "sluice")
            shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
            (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
            copies.put(copy)

        def try_one(fault: Fault) -> bool:
            copy = copies.get()
            try:
                found = is_found(fault, copy)
            finally:
                copies.put(copy)
            print("found " if found else "MISSED", fault.shown((ROOT / fault.path).read_text()), flush=True)
            return found

        with ThreadPoolExecutor(args.processes) as threads:
            found_total = sum(threads.map(try_one, faults))
    print(f"{found_total} of {len(faults)} faults were found")
    return int(found_total < len(faults))


if __name__ == "__main__":
    sys.exit(main())
