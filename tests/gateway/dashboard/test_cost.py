"""The pages need no memory before the first visit, and little after it.

The command `tests.gateway.dashboard.cost` measures their times.
"""

from __future__ import annotations

from pathlib import Path

from tests.gateway.dashboard.cost import measure
from tests.processes.commands import Commands


def test_pages_use_memory_only_once_loaded(tmp_path: Path, commands: Commands) -> None:
    report = measure(tmp_path, commands, rounds=1)
    assert [words for words, is_met in report.memory_marks() if not is_met] == []
    kinds = {"", "/keys", "/usage", "/transactions", "/playground", "/monitors/ID", "/events", "/billing", "/account"}
    assert {f"/dashboard{one}" for one in kinds} <= report.cpu_ms.keys()
