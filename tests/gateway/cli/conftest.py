"""Folders in which commands run."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.processes.commands import Commands
from tests.processes.place import Place


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A folder for one test, with a valid config."""
    place = Place(tmp_path, commands)
    place.configure()
    return place


@pytest.fixture(scope="module", params=["nobody else on the store", "a node on the store"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, commands: Commands
) -> Iterator[Place]:
    """A place for all tests of a module, alone and then with a running node."""
    place = Place(tmp_path_factory.mktemp("shared"), commands)
    place.configure()
    with place.serve("--sandbox") if request.param == "a node on the store" else nullcontext():
        yield place
