"""Commands refuse to start with a faulty declaration: exit 2, and one line for each fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.written_platform import TWO_KINDS, write_platform
from tests.processes.commands import PROJECT

PROGRAM = """
import sys
import upstreams.platforms
upstreams.platforms.__path__.append(sys.argv.pop(1))
from gateway.cli import main
main()
"""


def run_with(folder: Path, command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a program with one more platform."""
    platforms = folder / "platforms"
    write_platform(platforms, **changes)
    config = folder / "config.toml"
    config.write_text(f'[server]\nport = 0\n[admin]\nport = 0\n[store]\nurl = "sqlite:///{folder}/sluice.db"\n')
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(platforms), command, "--config", str(config)],
        cwd=folder,
        env={"PYTHONPATH": str(PROJECT), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


FAULTS = {
    "an unknown field": (
        {"fields": "nick=read.text('a'), id=read.ident('id')"},
        ["unknown field of `author`: `nick`. Known: `id`, `username`, "],
    ),
    "an unknown reader": (
        {"fields": "id=read.idnt('id')"},
        ["AttributeError: module 'upstreams.model.fields.readers' has no attribute 'idnt'"],
    ),
    "a member of two kinds and a source": (
        {**TWO_KINDS, "source": "apj"},
        [
            "endpoint `profile`: map of `author`: member `user` is read as an object and as a value; ",
            "endpoint `profile`: call `/x`: unknown source: `apj`. Did you mean `api`?",
        ],
    ),
}
"""The first two are found when the platform is imported, the last when the index is built."""


def assert_refused(ended: subprocess.CompletedProcess[str], messages: list[str]) -> None:
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == len(messages), lines
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"sluice: platform `odd_forum`: {message}")


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize(("changes", "messages"), FAULTS.values(), ids=FAULTS)
def test_fault_is_refused(command: str, changes: dict[str, str], messages: list[str], tmp_path: Path) -> None:
    assert_refused(run_with(tmp_path, command, **changes), messages)


def test_sound_platform_is_accepted(tmp_path: Path) -> None:
    ended = run_with(tmp_path, "check")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the config is valid\n", "")
