"""A node with every platform and all credentials, which the tests of a module share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.shared_loop import sharing
from tests.spec.rows import CREDENTIALS, ENVIRON, unpaced

MODULE_S = 3_600.0
"""Seconds for all tests of a module, in which a whole matrix takes long."""


@pytest.fixture(scope="module")
def whole_node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenNode]:
    """A node for all tests of a module, which also has the arguments of `open_test_node` in the module's `NODE`."""
    arguments = {"upstreams": CREDENTIALS, **getattr(request.module, "NODE", {})}
    with unpaced(), sharing(open_sound(tmp_path_factory.mktemp("node"), **arguments)) as node:
        yield node


@asynccontextmanager
async def open_sound(folder: Path, **arguments: Any) -> AsyncIterator[OpenNode]:
    """Open a node, and verify its ledger after all tests."""
    async with open_test_node(folder, environ=ENVIRON, patience_s=MODULE_S, **arguments) as node:
        yield node
        await node.assert_sound()


@pytest.fixture
async def node(request: pytest.FixtureRequest, whole_node: OpenNode) -> AsyncIterator[OpenNode]:
    """The module's node, with a new account and key, an empty log and cache, and an upstream without a script.

    At the end, no credits may be reserved.
    """
    node = replace(whole_node, _auditors={})
    await node.renew(getattr(request.module, "NODE", {}).get("credits", CREDITS))
    node.log.seek(0)
    node.log.truncate()
    yield node
    assert (await node.money())[1] == 0
