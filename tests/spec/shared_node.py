"""Many cases on one node: each has an account of its own, and the failures of all cases are reported together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.fakes.gathering import GatheredFailures
from tests.fakes.node import CREDITS, OpenNode, open_test_node

T = TypeVar("T")
PATIENCE_S = 400.0
"""Seconds for all cases of a node."""


async def check_cases(
    cases: Mapping[str, T],
    check: Callable[[OpenNode, T], Awaitable[None]],
    folder: Path,
    *,
    credits: int = CREDITS,  # noqa: A002 - the specification's name
    **options: Any,
) -> None:
    """Run `check` for each case on one new node with these `options`; see `check_on`."""
    async with open_test_node(folder, **{"patience_s": PATIENCE_S, **options}) as node:
        await check_on(node, cases, check, credits=credits)


async def check_on(
    node: OpenNode,
    cases: Mapping[str, T],
    check: Callable[[OpenNode, T], Awaitable[None]],
    *,
    credits: int = CREDITS,  # noqa: A002 - the specification's name
) -> None:
    """Run `check` for each case on a node, and raise the failures of all cases together.

    Each check begins with a new account and key, an empty cache, the upstream's usual answers, and no recorded upstream
    request. Limits of sources and circuits are not reset.
    """
    failures = GatheredFailures()
    for name, case in cases.items():
        await node.renew(credits)
        with failures.case(name):
            await check(node, case)
    failures.report()
