"""Many nodes on one PostgreSQL database."""

from collections.abc import Iterator

import pytest

from tests.fakes.commands import Commands, open_commands


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """What runs short commands."""
    with open_commands() as commands:
        yield commands
