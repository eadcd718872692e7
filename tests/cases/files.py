"""The files of the cases, nodes that read them, and checks of many cases on one node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest

from tests.fakes.calling import Answered
from tests.fakes.gathering import GatheredFailures
from tests.fakes.node import OpenNode
from tests.fakes.scripted_upstream import ScriptedAnswer

T = TypeVar("T")

CASES = Path(__file__).parents[3] / "shared" / "cases"
ABSENT = ScriptedAnswer(404, b"", {"content-type": "text/plain"})

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the case files are not available")


def case(name: str) -> bytes:
    """Return the bytes of a case's file."""
    return (CASES / name).read_bytes()


async def read_at(node: OpenNode, address: str, answer: ScriptedAnswer, target: str, **values: Any) -> Answered:
    """Call an endpoint that takes a `url`. Only this URL gets a response, which is `answer`."""
    node.upstream.script = lambda asked: answer if asked == address else ABSENT
    more = "".join(f"&{name}={quote(str(value), safe='')}" for name, value in values.items())
    return await node.get(f"/v1/{target}?url={quote(f'https://{address}', safe='')}{more}")


async def check_all(cases: Mapping[str, T], check: Callable[[str, T], Awaitable[None]]) -> None:
    """Run `check` for each case by its name, and report all failed cases together."""
    failures = GatheredFailures()
    for name, one in cases.items():
        with failures.case(name):
            await check(name, one)
    failures.report()
