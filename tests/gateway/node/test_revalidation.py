"""An unchanged response is revalidated by its tag where that does not count against a quota."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer

USER = {"id": 1, "login": "ada", "name": "Ada", "type": "User"}
TAGGED = {"content-type": "application/json", "etag": 'W/"1"'}
FRESH = {"cache-control": "no-cache"}


async def test_stored_response_is_revalidated_only_with_a_token(tmp_path: Path) -> None:
    """Method: the second response is a 304. Without a token the node sent no tag, so a 304 is an error."""
    for environ, status in (({"GITHUB_TOKEN": "t"}, 200), ({}, 502)):
        folder = tmp_path / str(status)
        tables = {"upstreams": {"defaults": {"retries": 0}, "github": {"token_env": "GITHUB_TOKEN"}}}
        async with open_test_node(folder, environ=environ, **tables) as node:
            node.upstream.always(ScriptedAnswer(200, orjson.dumps(USER), TAGGED))
            first = await node.get("/v1/github/profile?handle=ada")
            assert first.status == 200
            node.upstream.always(ScriptedAnswer(304, b"", {"etag": 'W/"1"'}))
            again = await node.get("/v1/github/profile?handle=ada", headers=FRESH)
            assert again.status == status
            if status == 200:
                assert again.json["data"] == first.json["data"]
            else:
                assert again.json["credits_used"] == 0
