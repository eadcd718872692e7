"""A too costly page is the only failure that costs credits: the price of one page, on every kind of read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import json_answer

pytestmark = pytest.mark.critical


def assert_too_costly(answer: Answered, cost: int) -> None:
    error = answer.json["error"]
    assert (answer.status, error["type"]) == (404, "RESOURCE_NOT_FOUND")
    assert error["details"]["reason"] == "page_too_costly"
    assert answer.json["credits_used"] == cost


async def test_too_costly_page_is_charged_as_one_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        left = 100_000
        for path, cost, amounts in (("costly", 5, [-5]), ("costly/metered", 2, [5, -7])):
            answer = await node.get(f"/v1/odd/{path}")
            assert_too_costly(answer, cost)
            left -= cost
            entries = await node.entries(answer.json["request_id"])
            assert [entry["amount"] for entry in entries] == amounts
            assert (answer.json["credits_remaining"], await node.money()) == (left, (left, 0))
        claimed = {"idempotency-key": "one-costly-page"}
        assert_too_costly(await node.get("/v1/odd/costly", headers=claimed), 5)
        node.upstream.requests.clear()
        assert_too_costly(await node.get("/v1/odd/costly", headers=claimed), 0)
        assert (node.upstream.requests, await node.money()) == ([], (left - 5, 0))
        await node.assert_sound()


async def test_monitor_run_is_charged_for_a_too_costly_page(tmp_path: Path) -> None:
    """The run fails and costs the price of a page, without the credit for scheduling."""
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        body = {"recipe": "odd/costly", "cadence": "daily", "run_now": True, "webhook_url": "https://example.com/hook"}
        made = await node.client.post(f"{node.url}/v1/monitors", json=body, headers={"x-api-key": node.key})
        assert made.status_code == 201, made.text
        run = await _ended_run(node, made.json()["monitor"]["id"])
        assert (run["status"], run["credits_used"]) == ("failed", 5)
        assert [(leg["status"], leg["credits_used"]) for leg in run["legs"]] == [("failed", 5)]
        assert await node.money() == (99_995, 0)
        await node.assert_sound()


async def _ended_run(node: OpenNode, monitor: str) -> dict[str, Any]:
    """Return the monitor's run after it has ended."""
    while True:
        answer = await node.get(f"/v1/monitors/{monitor}/runs")
        assert answer.status == 200, answer.json
        runs = answer.json["data"]["items"]
        ended: list[dict[str, Any]] = [run for run in runs if run["finished_at"]]
        if ended:
            return ended[0]
        await trio.sleep(0.1)
