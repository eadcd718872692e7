"""Charges and balances as owners see them: the cost of a request, and the credits that are still reserved."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from tests.cases.files import check_all
from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.spec.rows import CREDENTIALS, ENVIRON

pytestmark = pytest.mark.critical

STORY = "https://news.ycombinator.com/item?id={}"
BALANCE = "/v1/credits/balance"


async def post(node: OpenNode, path: str, body: Any, **headers: str) -> Answered:
    named = {"x-api-key": node.key, "content-type": "application/json", **headers}
    answer = await node.client.post(node.url + path, content=orjson.dumps(body), headers=named)
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def test_credits_stay_reserved_until_the_call_is_answered(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:

        async def ask() -> None:
            await node.get("/v1/github/profile?handle=octocat")

        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(ask)
                await until(lambda: len(node.upstream.requests) == 1)
                shown = (await node.get(BALANCE)).json["data"]
                assert (shown["balance"], shown["held"]) == (CREDITS - 1, 1)
        shown = (await node.get(BALANCE)).json["data"]
        assert (shown["balance"], shown["held"]) == (CREDITS - 1, 0)


async def test_balance_is_readable_while_the_store_refuses_to_settle(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node, node.store_refusing("settlement"):
        assert (await node.get("/v1/github/profile?handle=octocat")).status == 200
        shown = await node.get(BALANCE)
        assert (shown.status, shown.json["data"]["balance"], shown.json["data"]["held"]) == (200, CREDITS - 1, 0)


@pytest.mark.parametrize("keywords", [["trio"], ["trio", "anyio"], ["nothing"]])
async def test_awaited_discover_run_reports_its_cost(keywords: list[str], tmp_path: Path) -> None:
    body = {"keywords": keywords, "platforms": ["hackernews"], "max_credits": 20}
    async with open_test_node(tmp_path) as node:
        if keywords == ["nothing"]:
            node.upstream.always(json_answer({"hits": [], "nbHits": 0, "nbPages": 0}))
        answer = await post(node, "/v1/prism/discover/runs", body, **{"idempotency-key": "one"})
        assert answer.status == 200, answer.body
        used = answer.json["data"]["credits"]["spent"]
        assert (used > 0) == (keywords != ["nothing"])
        assert answer.json["credits_used"] == int(answer.headers["x-credits-used"]) == used
        assert await node.net(answer.json["request_id"]) == used
        assert answer.json["credits_remaining"] == CREDITS - used
        again = await post(node, "/v1/prism/discover/runs", body, **{"idempotency-key": "one"})
        assert (again.json["credits_used"], again.json["replayed"]) == (0, True)
        read = await node.get(f"/v1/prism/discover/runs/{answer.json['data']['run_id']}")
        assert read.json["credits_used"] == 0
        await node.assert_sound()


BATCHES: dict[str, tuple[dict[str, Any], int]] = {
    "/v1/prism/post-stats": ({"urls": [STORY.format(n) for n in (8863, 8864, 8863, 8863)]}, 2),
    "/v1/prism/profiles": (
        {"items": [{"platform": "github", "handle": one} for one in ("octocat", "OctoCat", "octocat", "hubot")]},
        2,
    ),
    "/v1/youtube/videos": ({"ids": ["dQw4w9WgXcQ"] * 51}, 5),
    "/v1/youtube/channels": ({"ids": ["UC_x5XG1OV2P6uZZ5FSM9Ttw"] * 51}, 5),
    "/v1/prism/post-stats?twenty": ({"urls": [STORY.format(8863)] * 40}, 1),
}


async def test_repeated_batch_rows_are_read_and_charged_once(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        await check_all(BATCHES, partial(check_batch, node))


async def check_batch(node: OpenNode, path: str, batch: tuple[dict[str, Any], int]) -> None:
    body, most = batch
    await node.renew()
    priced = await post(node, f"{path.partition('?')[0]}?dry_run=1", body)
    assert priced.json["data"]["estimated_credits"] == most
    answer = await post(node, path.partition("?")[0], body)
    data = answer.json["data"]
    results = data["results"]
    assert len(results) == len(next(iter(body.values())))
    assert sum(one["credits_used"] for one in results) == answer.json["credits_used"] <= most
    assert answer.json["credits_used"] == await node.net(answer.json["request_id"])
    seen: set[bytes] = set()
    for sent, row in zip(next(iter(body.values())), results, strict=True):
        assert row["input"] == sent
        name = orjson.dumps(sent).lower()
        assert row["credits_used"] == 0 or name not in seen
        seen.add(name)
    statuses = {(orjson.dumps(one["input"]).lower(), one["status"]) for one in results}
    assert len(statuses) == len(seen), "identical rows have identical statuses"
    assert sum(leg["rows"] for leg in data["legs"]) == len(results)
    await node.assert_sound()


async def test_repeated_rows_that_fail_are_free_and_all_reported(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        node.upstream.always(ScriptedAnswer(500, b""))
        answer = await post(node, "/v1/prism/post-stats", {"urls": [STORY.format(1)] * 3})
        assert [one["status"] for one in answer.json["data"]["results"]] == ["failed"] * 3
        assert answer.json["credits_used"] == 0
        assert len(node.upstream.requests) <= 2, "one call per source"
        await node.assert_sound()


async def test_one_credit_composite_below_half_of_its_parts_is_free(tmp_path: Path) -> None:
    """A composite of 1 credit with fewer than half of its parts."""
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        node.upstream.script = lambda asked: None if "algolia" in asked else ScriptedAnswer(500, b"")
        answer = await node.get("/v1/prism/mentions?phrase=trio&platforms=hackernews,github,mastodon,bluesky")
        assert answer.status == 200, answer.body
        assert answer.json["data"]["coverage"] < 0.5
        assert answer.json["data"]["items"]
        assert answer.json["credits_used"] == 0 == await node.net(answer.json["request_id"])
        await node.assert_sound()
