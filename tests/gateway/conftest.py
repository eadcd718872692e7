"""One node for the tests of a module that only need accounts of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.shared_loop import sharing

MODULE_S = 600.0
"""Seconds for all tests of a module."""


@pytest.fixture(scope="module")
def shared_node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenNode]:
    """A node for all tests of a module, with the arguments of `open_test_node` that the module has in `NODE`."""
    arguments = getattr(request.module, "NODE", {})
    with sharing(open_test_node(tmp_path_factory.mktemp("node"), patience_s=MODULE_S, **arguments)) as node:
        yield node


@pytest.fixture
async def node(shared_node: OpenNode) -> AsyncIterator[OpenNode]:
    """The module's node, with a new account and key, an empty log and cache, and an upstream without a script."""
    node = replace(shared_node, _auditors={})
    await node.renew()
    node.log.seek(0)
    node.log.truncate()
    yield node
    assert node.log_events("page_failed") == []
