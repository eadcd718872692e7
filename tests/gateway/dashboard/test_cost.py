"""The pages cost a node no memory before the first of them, and little after; times are the command's to tell."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.dashboard.cost import measure
from tests.processes.commands import Commands


def test_pages_use_memory_only_once_loaded(tmp_path: Path, commands: Commands) -> None:
    report = measure(tmp_path, commands, rounds=1)
    assert [words for words, is_held in report.memory_marks() if not is_held] == []
    kinds = {"", "/keys", "/usage", "/transactions", "/playground", "/monitors/ID", "/events", "/billing", "/account"}
    assert {f"/dashboard{one}" for one in kinds} <= report.cpu_ms.keys()
