"""Small runs of the scenarios, one per item; `python -m tests.hostile.neighbours` runs them at full size."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.hostile.neighbours.run import Length, run_scenario
from tests.hostile.neighbours.scenarios import SCENARIOS
from tests.hostile.neighbours.verdict import SMALL, flaws
from tests.processes.commands import Commands
from tests.processes.place import Place

GATE = (
    "control",
    "selectors-siblings",
    "pages-attributes",
    "hang-ups",
    "one-expensive",
    "scripts-endless",
    "crawls",
    "reads-fewer",
)
SHORT = Length(alone_s=1.0, beside_s=4.5, grace_s=2.0)
RENDERINGS = Length(alone_s=3.0, beside_s=10.0, grace_s=25.0)
"""A rendering shares two cores with endless scripts and with other tests, which alone may cost it ten seconds.

A starved neighbor gets 503 after 24 s, so the grace is longer and the bound (`Kind.small_s`) lies between the two.
"""


@pytest.mark.parametrize("name", GATE)
async def test_neighbor_is_served_during_an_attack(name: str, tmp_path: Path, commands: Commands) -> None:
    scenario = SCENARIOS[name]
    with trio.fail_after(240):
        length = RENDERINGS if scenario.has_browser else SHORT
        figures = await run_scenario(scenario, Place(tmp_path, commands), length)
    assert flaws(scenario, figures, SMALL) == [], figures
