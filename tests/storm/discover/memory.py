"""`python -m tests.storm.discover.memory --runs 100`: the memory of a node that has so many discover runs under way.

Runs are begun for several accounts, since a node has 20 of one under way. It prints the node's resident memory before,
after one run, and at its highest while all of them go on; each run ends as it has to, and the ledger verifies.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from tests.fakes.scripted_upstream import Upstream, open_upstream
from tests.processes.commands import Commands, open_commands
from tests.processes.fleet import open_fleet
from tests.processes.place import Place
from tests.storm.discover.run import PAGES, PATIENCE_S, PROGRAM, RUNS, Searches, Size

EACH: Final = 20
"""Runs of an account that a node has under way."""
GROWTH_MB_MAX: Final = 96.0
"""Beside what one run takes: rows stand in the store, and of a run only what its four steps bring is in memory."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in megabytes."""

    runs: int
    rows: int
    idle_mb: float
    after_one_mb: float
    highest_mb: float


async def measure(folder: Path, runs: int, commands: Commands) -> Memory:
    """Begin so many runs at once, and wait until all have ended."""
    size, upstream = Size(legs=20), Upstream()
    upstream.script = Searches(size).answer
    environ = {"SLUICE_SECRET": "a secret of tests, long enough", "STORM_SEARCHES": str(size.searches)}
    async with open_upstream(upstream) as address:
        place = Place(folder, commands, environ)
        place.configure(upstreams={"egress": address}, limits={"requests_per_minute": 1_000_000}, log={"access": False})
        keys = [place.new_key(balance=1_000_000)[1]["key"] for _ in range(-(-runs // EACH))]
        with open_fleet(commands) as fleet:
            node = fleet.start(place.config, environ, program=PROGRAM)
            url, pid = (await node.listening())["url"], node.pid
            idle = _resident_mb(pid, "VmRSS")
            await _ended(url, [(keys[0], await _begin(url, keys[0], size))])
            after_one = _resident_mb(pid, "VmRSS")
            begun = [(keys[place_ // EACH], await _begin(url, keys[place_ // EACH], size)) for place_ in range(runs)]
            rows = await _ended(url, begun)
            highest = _resident_mb(pid, "VmHWM")
            fleet.kill(node)
        assert await trio.to_thread.run_sync(place.told, "ledger", "verify") == {"ok": True, "violations": []}
    assert highest - after_one < GROWTH_MB_MAX, (after_one, highest)
    return Memory(runs, rows, idle, after_one, highest)


def _resident_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024, 1)


async def _begin(url: str, key: str, size: Size) -> str:
    body = {"keywords": size.words, "max_credits": 1_000, "max_rows": 10_000, "background": True}
    run_id: str = (await _ask("POST", url + RUNS, key, json=body))["run_id"]
    return run_id


async def _ended(url: str, begun: list[tuple[str, str]]) -> int:
    """The rows of all runs, once they have ended."""
    rows = 0
    for key, run_id in begun:
        with trio.fail_after(PATIENCE_S):
            while (run := await _ask("GET", f"{url}{RUNS}/{run_id}", key))["finished_at"] is None:  # noqa: ASYNC110 - the node's
                await trio.sleep(0.5)
        assert (run["status"], run["credits"]["spent"]) == ("completed", PAGES * 20)
        rows += run["counts"]["rows_kept"]
    return rows


async def _ask(method: str, url: str, key: str, **terms: Any) -> Any:
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as client:
        return (await client.request(method, url, headers={"x-api-key": key}, **terms)).json()["data"]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.discover.memory", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        print(trio.run(partial(measure, Path(folder), parser.parse_args().runs, commands)))


if __name__ == "__main__":
    main()
