"""Small runs of the scenarios, one for each point; at full size by `python -m tests.hostile.neighbours`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

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
NOT_YET: Mapping[str, str] = MappingProxyType(
    {
        "selectors-siblings": "issue 34, item 4",
        "pages-attributes": "issue 34, item 5",
        "hang-ups": "issue 34, item 6",
        "one-expensive": "issue 34, item 7",
        "scripts-endless": "issue 34, item 8",
        "crawls": "issue 34, item 9",
        "reads-fewer": "issue 34, item 10",
    }
)
"""Scenarios that fail until this item is fixed. Remove the name with the fix."""
SHORT = Length(alone_s=1.0, beside_s=4.5, grace_s=2.0)
RENDERINGS = Length(alone_s=3.0, beside_s=10.0, grace_s=3.0)


@pytest.mark.parametrize("name", [name for name in GATE if name not in NOT_YET])
async def test_neighbour_is_served_beside_a_hostile_account(name: str, tmp_path: Path, commands: Commands) -> None:
    scenario = SCENARIOS[name]
    with trio.fail_after(240):
        length = RENDERINGS if scenario.has_browser else SHORT
        figures = await run_scenario(scenario, Place(tmp_path, commands), length)
    assert flaws(scenario, figures, SMALL) == [], figures
