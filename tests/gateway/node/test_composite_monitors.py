"""Composites as recipes of Monitors: their numbers are tracked, and rules on them fire (decisions 18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.feeding import post
from tests.fakes.monitoring import MONITORS
from tests.fakes.node import OpenNode, open_test_node

HOURLY = {"cadence": "hourly"}
CARD = {"recipe": "prism/creator-card", "params": {"handle": "ada", "platforms": "lemmy,mastodon"}}
AUDIT = {"recipe": "prism/handle-audit", "params": {"handle": "ada", "platforms": "lemmy,mastodon"}}
EVERYWHERE = {"recipe": "search/everywhere", "params": {"query": "trio"}}
COMMENTS = {"recipe": "prism/comments", "params": {"url": "https://news.ycombinator.com/item?id=8863"}}


async def made(node: OpenNode, **body: Any) -> Any:
    return await post(node, f"{MONITORS}?dry_run=1", orjson.dumps({**HOURLY, **body}))


@pytest.mark.parametrize(
    ("recipe", "metrics", "cost"),
    [
        (CARD, ["totals.followers", "totals.platforms", "coverage"], 6),
        (AUDIT, ["score", "score_components.audience", "available_weight"], 6),
        (EVERYWHERE, ["items[].score", "items[].post.engagement.likes"], 21),
        (COMMENTS, ["items[].comment.engagement.likes", "scanned"], 3),
    ],
)
async def test_numbers_of_a_composite_are_tracked_and_alerted_on(
    recipe: dict[str, Any], metrics: list[str], cost: int, tmp_path: Path
) -> None:
    async with open_test_node(tmp_path) as node:
        track: dict[str, Any] = {"metrics": metrics}
        if recipe is EVERYWHERE:
            track["row_key"] = "post.id"
        rules = [{"metric": metrics[0], "op": "gt", "value": 1}]
        answer = await made(node, **recipe, track=track, alert_rules=rules)
        assert answer.status in (200, 201), answer.body
        assert answer.json["data"]["monitor"]["estimated_cost_per_run"] == cost


async def test_a_path_that_a_composite_has_not_is_refused_with_the_right_one(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await made(node, **CARD, track={"metrics": ["followers"]})
        assert answer.status == 400
        assert "totals.followers" in answer.body.decode()
