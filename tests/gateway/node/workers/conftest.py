"""Folders in which supervisors run."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes.commands import Commands
from tests.processes.place import Place, Served

WORKERS = 2
DRAIN_S = 60
"""Longer than any test, so that requests held during a drain are answered and never aborted, even on a slow machine."""


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A folder whose `serve` starts two workers, each a whole node."""
    return _place(tmp_path, commands)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[Served]:
    """Two workers that no test stops or replaces."""
    with _place(tmp_path_factory.mktemp("running"), commands).serve() as node:
        yield node


def _place(folder: Path, commands: Commands) -> Place:
    program = (
        sys.executable,
        "-m",
        "tests.gateway.node.workers.supervised",
        str(WORKERS),
        "tests.gateway.node.workers.node",
    )
    place = replace(Place(folder, commands), program=program)
    place.configure(server={"drain_s": DRAIN_S})
    return place
