"""Session actions that are sent again, or to another node, run once in a real Chromium (decisions 21)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.fakes.chromium import Chromium, open_chromium
from tests.fakes.node import OpenNode
from tests.scheduler.sessions.test_sessions import (
    PATH,
    execute,
    open_node,
    open_session,
    send,
    site,
    wait_until_no_page,
)
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


async def typed_times(node: OpenNode, session: str) -> int:
    """Return how often text was typed into the page, according to the page's own counter."""
    done = await execute(node, session, {"type": "scrape", "formats": "text", "only_main_content": False})
    text: str = done["results"][0]["page"]["content"]["text"]
    return text.count("|")


async def test_actions_with_an_idempotency_key_run_once(tmp_path: Path, chromium: Chromium) -> None:
    """Goal: no action runs twice. Method: the page counts how often text is typed."""
    async with open_node(tmp_path, chromium) as node:
        site(node)
        session = (await open_session(node))["session_id"]
        path, typed = f"{PATH}/{session}/execute", {"type": "type", "selector": "#who", "text": "Ada"}
        body = {"actions": [typed, {"type": "scrape", "formats": "raw_html"}]}
        (status, first), (again, second) = [await send(node, "POST", path, body, once="click") for _ in range(2)]
        assert (status, again) == (200, 200)
        assert second["data"] == first["data"]
        assert (second["idempotent_replay"], second["replayed"]) == (True, True)
        assert second["request_id"] == first["request_id"]
        assert await typed_times(node, session) == 1
        status, told = await send(node, "POST", path, {"actions": [typed, typed]}, once="click")
        assert (status, told["error"]["type"]) == (422, "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH")
        assert await typed_times(node, session) == 1
        with trio.move_on_after(0.3):  # the client disconnects, but its actions still run
            slow = {"actions": [{"type": "wait", "ms": 1000}, typed]}
            await send(node, "POST", path, slow, once="gone")
        told = {}
        with trio.fail_after(30):
            while "data" not in told:
                status, told = await send(node, "POST", path, slow, once="gone")
                await trio.sleep(0.1)
        assert told["idempotent_replay"]
        assert await typed_times(node, session) == 2
        await send(node, "DELETE", f"{PATH}/{session}")
        for _ in range(2):  # no action ran, so the key is free
            status, told = await send(node, "POST", path, body, once="late")
            assert (status, told["error"]["details"]["reason"]) == (400, "session_over")
        await node.assert_sound()


async def test_actions_with_an_unknown_outcome_are_not_repeated(tmp_path: Path) -> None:
    with open_chromium() as browser:
        async with open_node(tmp_path, browser) as node:
            site(node)
            session = (await open_session(node))["session_id"]
            path, body = f"{PATH}/{session}/execute", {"actions": [{"type": "wait", "ms": 20_000}]}

            async def lose() -> None:
                assert (await send(node, "POST", path, body, once="lost"))[0] == 502

            async with trio.open_nursery() as nursery:
                nursery.start_soon(lose)
                await trio.sleep(1)
                status, told = await send(node, "POST", path, body, once="lost")
                assert (status, told["error"]["type"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
                browser.kill()
            status, told = await send(node, "POST", path, body, once="lost")
            assert (status, told["error"]["type"]) == (409, "IDEMPOTENCY_REPLAY_UNAVAILABLE")


async def test_session_is_used_and_closed_from_another_node(
    tmp_path: Path, chromium: Chromium, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    """Goal: any node can serve a session. Method: two complete nodes on one PostgreSQL and one browser."""
    shared = {"store": {"url": postgres.fresh()}, "state": {"url": empty_redis.url}}
    async with (
        open_node(tmp_path / "first", chromium, **shared) as first,
        open_node(tmp_path / "second", chromium, **shared) as second,
    ):
        site(first)
        site(second)
        session = (await open_session(first, ttl_seconds=3600))["session_id"]
        path, told = f"{PATH}/{session}/execute", dict[str, Any]()
        actions = [
            {"type": "type", "selector": "#who", "text": "Ada"},
            {"type": "click", "selector": "#go"},
            {"type": "scrape", "formats": "text"},
        ]
        # The second request goes to the other node, which returns the result without running the actions again.
        for node in (second, first):
            status, told = await send(node, "POST", path, {"actions": actions}, key=first.key, once="work")
            assert status == 200, told
            assert "Ada" in told["data"]["results"][2]["page"]["content"]["text"]
        assert told["idempotent_replay"]
        assert sum("/hello" in asked for asked in first.upstream.requests) == 1
        assert not any("/hello" in asked for asked in second.upstream.requests), "the page's node makes its requests"
        assert (await send(second, "GET", f"{PATH}/{session}", key=first.key))[1]["data"]["status"] == "open"
        status, longer = await send(second, "PATCH", f"{PATH}/{session}", {"ttl_seconds": 600}, key=first.key)
        assert (status, longer["data"]["ttl_seconds"]) == (200, 600)
        assert [await node.gauge("sluice_web_sessions_open") for node in (first, second)] == [1, 0]
        status, over = await send(second, "DELETE", f"{PATH}/{session}", key=first.key)
        assert (status, over["data"]["closed_because"]) == (200, "owner")
        assert over["data"]["credits"] == {"reserved": 20, "used": 5, "refunded": 15}
        await wait_until_no_page(chromium)
        status, late = await send(first, "POST", path, {"actions": actions}, key=first.key)
        assert (status, late["error"]["details"]["reason"]) == (400, "session_over")
        assert (await first.money())[1] == 0
        await first.assert_sound()
