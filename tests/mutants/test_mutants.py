"""Faults are put into the right place, and leave a module that can still be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import FOLDERS, ROOT, chosen_faults
from tests.mutants.faults import faults_of

SOURCE = """
def spend(balance: int, cost: int = 2) -> bool:
    if not balance and cost:
        warn("é", cost)
    return balance - cost >= 0
"""
CHANGED = (
    "def spend(balance: int, cost: int = 3) -> bool:",
    "    if balance and cost:",
    "    if not balance or cost:",
    "        pass",
    "    return balance + cost >= 0",
    "    return balance - cost > 0",
    "    return balance - cost >= 1",
)


def test_each_fault_changes_one_place(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    lines = SOURCE.splitlines()
    changed = []
    for fault in faults_of(tmp_path, "module.py"):
        (line,) = (new for new, old in zip(fault.applied(SOURCE).splitlines(), lines, strict=True) if new != old)
        changed.append(line)
    assert sorted(changed) == sorted(CHANGED)


@pytest.mark.parametrize("seed", [1, 2])
def test_sample_is_repeatable_and_compiles(seed: int) -> None:
    faults = chosen_faults(FOLDERS, seed, 300)
    assert faults == chosen_faults(FOLDERS, seed, 300)
    assert len({fault.path for fault in faults}) > 20
    for fault in faults:
        compile(fault.applied((ROOT / fault.path).read_text()), fault.path, "exec")
