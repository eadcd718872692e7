"""Failures of one page do not block its host for other pages; failures of many pages open the host's circuit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer

HTML: Final = {"content-type": "text/html"}
PAGE: Final = b"<html><title>T</title><body><main><p>Some words of it that go on for a while.</p></main></body></html>"

pytestmark = pytest.mark.critical


def host_with_bad_pages(asked: str) -> ScriptedAnswer:
    path = asked.partition("/")[2]
    if path == "robots.txt":
        return ScriptedAnswer(404, b"", HTML)
    return ScriptedAnswer(500, b"", HTML) if path.startswith("bad") else ScriptedAnswer(200, PAGE, HTML)


async def read(node: OpenNode, page: str, key: str) -> Answered:
    return await node.get(f"/v1/web/scrape?url=https://shop.example.org/{page}", key=key)


async def keys_of(node: OpenNode, accounts: int) -> list[str]:
    return [(await node.new_key(await node.new_account()))[0] for _ in range(accounts)]


async def test_one_failing_page_leaves_its_host_open(tmp_path: Path) -> None:
    """Goal: a read counts once, regardless of its retries. Method: 3 tries each; 5 failures would open the circuit."""
    async with open_test_node(tmp_path) as node:
        node.upstream.script = host_with_bad_pages
        first, second = await keys_of(node, 2)
        for _ in range(9):
            assert (await read(node, "bad", first)).status == 502
        assert (await read(node, "good", second)).status == 200
        assert (await read(node, "good/2", first)).status == 200
        await node.assert_sound()


async def test_nine_failing_pages_of_several_accounts_open_the_circuit_for_all(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.script = host_with_bad_pages
        first, second, third = await keys_of(node, 3)
        answers = [await read(node, f"bad/{number}", (first, second)[number % 2]) for number in range(9)]
        assert answers[-1].status == 503
        requested = len(node.upstream.requests)
        for key in (first, second, third):
            assert_open(await read(node, "good", key))
        assert len(node.upstream.requests) == requested
        await node.assert_sound()


async def test_nine_failing_pages_of_one_account_open_the_circuit_for_that_account_only(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.script = host_with_bad_pages
        first, second = await keys_of(node, 2)
        answers = [await read(node, f"bad/{number}", first) for number in range(9)]
        assert [answer.status for answer in answers] == [502] * 5 + [503] * 4
        assert_open(await read(node, "good", first))
        assert (await read(node, "good", second)).status == 200, "one account cannot close a host to others"
        await node.assert_sound()


def assert_open(answer: Answered) -> None:
    assert (answer.status, answer.json["credits_used"]) == (503, 0), answer.json
    assert 1 <= int(answer.headers["retry-after"]) <= 30
