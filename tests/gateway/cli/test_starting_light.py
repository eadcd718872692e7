"""Short commands import little, because imports take most of their time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from gateway.cli import cli

HEAVY = {
    "quart",
    "flask",
    "numpy",
    "httpx",
    "psycopg",
    "coredis",
    "sqlite_utils",
    "prometheus_client",
    "h2",
    "matplotlib",
}
NODE = {"gateway.node.wiring", "gateway.api.app", "upstreams.model.endpoint", "gateway.server.connection"}
PROGRAM = """
import sys
from gateway.cli import main
try:
    main()
finally:
    sys.stdout.flush()
    sys.stderr.write("\\n" + " ".join(sys.modules))
"""
SHORT = [
    (("--version",), HEAVY | NODE | {"trio"}),
    (("--help",), HEAVY | NODE | {"trio"}),
    (("key", "--help"), HEAVY | NODE),
    (("check",), (HEAVY | NODE | {"trio"}) - {"upstreams.model.endpoint"}),
    (("admin", "token"), HEAVY | NODE),
    (("account", "list"), HEAVY | NODE),
    (("monitor", "run", "--help"), HEAVY | NODE | {"rich"}),
    (("platforms", "list"), (HEAVY | NODE | {"trio"}) - {"upstreams.model.endpoint"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an existing store."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "config.toml").write_text('[admin]\nport = 0\n[store]\nurl = "sqlite:///store.db"\n')
    run(folder, "account", "create", "--name", "me")
    return folder


def run(folder: Path, *arguments: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:500]
    return set(done.stderr.rpartition("\n")[2].split())


@pytest.mark.parametrize(("arguments", "not_loaded"), SHORT, ids=[" ".join(row[0]) for row in SHORT])
def test_short_command_imports_nothing_heavy(folder: Path, arguments: tuple[str, ...], not_loaded: set[str]) -> None:
    assert run(folder, *arguments) & not_loaded == set()


def test_command_list_matches_each_command_help() -> None:
    context = click.Context(cli)
    for line in cli.get_help(context).partition("Commands:\n")[2].splitlines():
        name, _, help_text = line.strip().partition("  ")
        command = cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200).startswith(help_text.strip().rstrip("."))
