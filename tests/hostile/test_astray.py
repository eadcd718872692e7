"""Values that lead to other addresses are refused for free, with a 400 that names the parameter and without a call."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.spec.rows import CREDENTIALS, ENVIRON

DOTS = ("..", ".", "\uff0e\uff0e", "..\\", "../..", "a/../../user")
ASKED = (
    *(("github/profile", "handle", dots) for dots in DOTS),
    ("github/profile", "handle", "@"),
    *(("github/profile/repos", "handle", dots) for dots in DOTS),
    *(("github/user/profile-velocity", "handle", dots) for dots in DOTS),
    *(("github/repo", "url", f"a/{dots}") for dots in ("..", ".", ".git", "...git")),
    *(("github/repo/dossier", "url", f"https://github.com/a/{dots}") for dots in ("..", "%2e%2e", "%252e%252e")),
    *(("github/repo/readme", "url", f"https://github.com/{dots}/a") for dots in ("..", "%2e%2e", "%252e%252e")),
    *(("hackernews/profile", "handle", dots) for dots in DOTS),
    *(("bluesky/post", "url", f"https://bsky.app/profile/{dots}/post/x") for dots in ("..", "%2e%2e", "a%2Fb")),
)


async def refused(node: OpenNode, resource: str, name: str, value: str) -> None:
    for more in ("", "&dry_run=1", "&max_credits=5"):
        answer = await node.get(f"/v1/{resource}?{name}={quote(value, safe='')}{more}")
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), (resource, value, answer.json)
        assert answer.json["error"]["details"]["param"] == name
        assert answer.json["credits_used"] == 0


async def test_dot_segments_are_refused_for_free_without_a_call(tmp_path: Path) -> None:
    upstreams = {"defaults": {"retries": 0}, **CREDENTIALS}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=upstreams) as node:
        for resource, name, value in ASKED:
            await refused(node, resource, name, value)
        assert node.upstream.requests == []
        assert await node.money() == (CREDITS, 0)
        await node.assert_sound()


@pytest.mark.parametrize("value", DOTS)
async def test_monitor_recipe_with_dot_segments_is_refused(value: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        recipe = {"recipe": "github/profile", "params": {"handle": value}}
        body = {**recipe, "cadence": "daily", "track": {"metrics": ["author.followers"]}}
        answer = await node.client.post(f"{node.url}/v1/monitors", json=body, headers={"x-api-key": node.key})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["details"]["param"] == "params.handle"
        assert node.upstream.requests == []
