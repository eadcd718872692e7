"""`python -m tests.hostile.neighbours`: each scenario at full size, and what the neighbor noticed.

Exits with 1 if a bound does not hold, and with 2 for a name that no scenario has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.hostile.neighbours.neighbour import Record
from tests.hostile.neighbours.run import Figures, Length, run_scenario
from tests.hostile.neighbours.scenarios import SCENARIOS, Scenario
from tests.hostile.neighbours.verdict import FULL, flaws
from tests.processes.commands import Commands, open_commands
from tests.processes.place import Place

SHARE = 1 / 3
"""The times before and after the attack, as shares of its length: with the neighbor alone, and for the last calls."""
ALONE_LEAST_S = 5.0
GRACE_S = 30.0
_MS = "{:>28}"


def main() -> int:
    """Run the chosen scenarios one after the other, and print a table for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.neighbours", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(SCENARIOS), help="scenarios to run")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each attack (default 60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.only if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]}; there are: {', '.join(SCENARIOS)}")
    length = Length(max(ALONE_LEAST_S, chosen.seconds * SHARE), chosen.seconds, min(GRACE_S, chosen.seconds * SHARE))
    results = []
    with open_commands() as commands:
        for name in chosen.only:
            results.append(_run(SCENARIOS[name], commands, length))
            if chosen.json:
                chosen.json.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
    failed = [result["scenario"] for result in results if result["flaws"]]
    print(
        f"\n{len(results) - len(failed)} of {len(results)} scenarios passed" + "".join(f"\n  {one}" for one in failed)
    )
    return 1 if failed else 0


def _run(scenario: Scenario, commands: Commands, length: Length) -> dict[str, Any]:
    """Run one scenario, print its table, and return its figures."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        figures = trio.run(partial(run_scenario, scenario, Place(Path(folder), commands), length))
    found = flaws(scenario, figures, FULL)
    print(f"\n{scenario.name} (item {scenario.item}): {'FAILED' if found else 'passed'}")
    print("\n".join((*_table(scenario, figures), *(f"  - {flaw}" for flaw in found))), flush=True)
    return _record(scenario, figures, found)


def _table(scenario: Scenario, figures: Figures) -> list[str]:
    """The figures of both accounts as lines."""
    lines = [f"  {'neighbour':12}{'alone p50/p95/max ms':>28}{'beside p50/p95/max ms':>28}  answers beside"]
    for kind in scenario.kinds:
        alone, beside = figures.alone.records[kind.name], figures.beside.records[kind.name]
        answers = ", ".join(f"{number} x {status}" for status, number in sorted(beside.statuses.items()))
        lines.append(f"  {kind.name:12}{_MS.format(_times(alone))}{_MS.format(_times(beside))}  {answers}")
    tally, money = figures.tally, figures.money
    calls = ", ".join(
        f"{tally[f'{kind}_calls']} {kind}" for kind in ("charged", "refunded", "refused", "free", "left", "cut")
    )
    answers = ", ".join(f"{number} x {status}" for status, number in sorted(tally["statuses"].items()))
    peaks = figures.beside.peaks_mb
    return [
        *lines,
        f"  hostile: {calls} ({answers or 'no answers'})",
        f"  its ledger: {money.taken} credits taken, {money.refunded} refunded by {money.refunds} entries, "
        f"{money.kept} kept; CPU by refunded calls {figures.unpaid_s:.1f} s",
        f"  CPU {figures.beside.cpu_s:.1f} s; peak memory in MB: "
        + ", ".join(
            f"{part} {mb:.0f} (alone {figures.alone.peaks_mb.get(part, 0.0):.0f})" for part, mb in peaks.items()
        ),
    ]


def _times(record: Record) -> str:
    return f"{record.p50_s * 1000:.0f}/{record.p95_s * 1000:.0f}/{record.max_s * 1000:.0f}"


def _record(scenario: Scenario, figures: Figures, found: list[str]) -> dict[str, Any]:
    """The figures as JSON."""
    phases = {"alone": figures.alone, "beside": figures.beside}
    return {
        "scenario": scenario.name,
        "item": scenario.item,
        "flaws": found,
        "neighbour": {
            kind.name: {
                name: {
                    "p50_s": phase.records[kind.name].p50_s,
                    "p95_s": phase.records[kind.name].p95_s,
                    "max_s": phase.records[kind.name].max_s,
                    "statuses": dict(phase.records[kind.name].statuses),
                }
                for name, phase in phases.items()
            }
            for kind in scenario.kinds
        },
        "hostile": {**figures.tally, "ledger": asdict(figures.money), "unpaid_cpu_s": figures.unpaid_s},
        "cpu_s": {name: phase.cpu_s for name, phase in phases.items()},
        "peaks_mb": {name: phase.peaks_mb for name, phase in phases.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
