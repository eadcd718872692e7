"""A fixture for tests that need a new node with the default settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.node import OpenNode, open_test_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    """A running node with the default settings."""
    async with open_test_node(tmp_path) as opened:
        yield opened
