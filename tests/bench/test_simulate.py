"""The simulated installation has as many platforms and endpoints as requested, and a report has each figure's aim."""

import os
import subprocess
import sys
from pathlib import Path

from bench.simulate import SimulationFigure, write_simulation
from upstreams.composites import load_all

COUNT = """
from upstreams.index import load_indexed
platforms = load_indexed()
copies = [one for one in platforms if one.slug.rpartition("_")[2].isdecimal()]
print(len(platforms), len(copies), sum(len(one.endpoints) for one in platforms))
"""


def test_copies_are_platforms_of_their_own(tmp_path: Path) -> None:
    existing = load_all()
    wanted = len(existing) + 3, sum(len(one.endpoints) for one in existing) + 10
    write_simulation(tmp_path, *wanted)
    project = str(Path(__file__).parents[2])
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{project}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):  # the first run builds the index
        done = subprocess.run(
            [sys.executable, "-c", COUNT], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
        )
    platforms, copies, endpoints = map(int, done.stdout.split())
    assert (platforms, copies) == (wanted[0], 3)
    assert wanted[1] <= endpoints < wanted[1] + 12  # some endpoints are derived from others


def test_figure_above_its_aim_is_missed() -> None:
    assert SimulationFigure("start", 2.4, 2.5).line.endswith("2.400  aim 2.5: reached")
    assert SimulationFigure("start", 2.6, 2.5).line.endswith("2.600  aim 2.5: missed")
    assert SimulationFigure("start", 2.6).line.endswith("2.600")
