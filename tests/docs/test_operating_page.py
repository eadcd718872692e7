"""docs/operating.md: it lists exactly the existing commands, admin operations and metrics."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gateway.cli import cli
from gateway.node.stores import MIGRATIONS
from storage.nodes import MIGRATIONS as NODES
from storage.store import Tx
from tests.fakes.inline_store import InlineStore
from tests.fakes.node import open_test_node
from tests.processes.commands import PROJECT

PAGE = (PROJECT / "docs" / "operating.md").read_text()
BENCH_PAGE = (PROJECT / "bench" / "README.md").read_text()
SOURCES = [file.read_text() for file in (PROJECT / "gateway").rglob("*.py")]
LISTS = {"_sqlite_migrations", "sqlite_sequence"}
NAMED = set(re.findall(r"`((?:sluice|process)_[a-z_]+)", PAGE))


def leaves(command: click.Command, path: str) -> Iterator[str]:
    """Yield the full names of all commands without subcommands."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, f"{path} {name}")


def in_sources(pattern: str) -> set[str]:
    return {found for text in SOURCES for found in re.findall(pattern, text)}


@pytest.mark.parametrize("command", sorted(leaves(cli, "sluice")))
def test_every_command_is_documented(command: str) -> None:
    page = BENCH_PAGE if command.startswith("sluice bench ") else PAGE
    assert re.search(rf"\b{command}\b", page)


def test_every_admin_operation_is_documented() -> None:
    operations = in_sources(r'"([a-z.]+)": Operation\(') | in_sources(r'operations\.add\("([a-z.]+)"')
    assert {"account.create", "monitor.run", "reload"} <= operations
    assert {name for name in operations if f"`{name}`" not in PAGE} == set()


async def test_every_metric_of_a_running_node_is_documented(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        told = set(re.findall(r"^# HELP (\S+)", (await node.client.get(f"{node.admin_url}/metrics")).text, re.M))
    assert {"sluice_requests_total", "sluice_build_info"} <= told
    assert told - NAMED == set()


def test_every_documented_metric_exists() -> None:
    # The metrics library adds the suffixes of counters.
    of_the_library = {name for name in NAMED if name.startswith("process_")}
    given = (
        of_the_library
        | {"sluice_build_info"}
        | in_sources(r'"(sluice_[a-z_]+)"')
        | in_sources(r"# HELP (sluice_[a-z_]+)")
    )
    assert {name for name in NAMED if not {name, name.removesuffix("_total")} & given} == set()
    assert {name for name in given if not {name, f"{name}_total", f"{name}_info"} & NAMED} == set()


def test_every_table_is_documented_with_its_retention() -> None:
    """Method: compare with the tables of a store with all migrations, except the tables that track migrations."""
    store = InlineStore([*MIGRATIONS, NODES])
    tables = set(store.look(tables_of)) - LISTS
    store.close()
    section = PAGE.partition("## How the store grows")[2].partition("\n## ")[0]
    assert tables - set(re.findall(r"`([a-z_]+)`", section)) == set()
    rows = re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE)
    assert set(rows) - tables == set(), "a table that does not exist"


def tables_of(tx: Tx) -> list[str]:
    return [str(row[0]) for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
