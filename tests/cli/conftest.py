"""Places in which commands run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.commands import Commands, open_commands
from tests.fakes.sluice_process import Place


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """What runs short commands."""
    with open_commands() as commands:
        yield commands


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A folder of the test's own, with a config that works."""
    place = Place(tmp_path, commands)
    place.configure()
    return place
