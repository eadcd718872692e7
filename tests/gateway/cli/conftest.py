"""Folders in which commands run."""

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
