"""Operator commands for circuits, run through the operations of the admin address."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.admin.operations import OperationRefused
from tests.fakes.node import open_test_node

PROFILE = "/v1/github/profile?handle=octocat"


async def test_calls_of_an_isolated_platform_are_rejected_for_free_until_its_reset(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        shown = await node.operate("platform.isolate", platform="github")
        assert shown == {"platform": "github", "sources": dict.fromkeys(("api", "search", "graphql", "raw"), "open")}
        refused = await node.get(PROFILE)
        assert (refused.status, refused.json["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json["credits_used"] == 0
        status = (await node.get("/v1/status", key=None)).json["data"]
        assert (status["status"], status["platforms"]["github"]["status"]) == ("degraded", "down")
        assert (await node.get("/v1/hackernews/story?id=1")).status == 200
        assert node.upstream.requests[0].startswith("hn.algolia.com")

        await node.operate("platform.reset", platform="github")
        assert (await node.get(PROFILE)).status == 200
        assert (await node.get("/v1/status", key=None)).json["data"]["status"] == "operational"
        await node.assert_sound()


async def test_unknown_platform_is_named_in_the_error(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        with pytest.raises(OperationRefused, match="gitbuh is not served"):
            await node.operate("platform.isolate", platform="gitbuh")
