"""An owner at the node that the tests of a module share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.node import OpenNode
from tests.gateway.dashboard.owner import Owner, open_owner


@pytest.fixture
async def owner(node: OpenNode) -> AsyncIterator[Owner]:
    """The signed-in owner of a new account."""
    async with open_owner(node) as owner:
        yield owner
