"""The feed over a WebSocket: the handshake, pages, acknowledgements, and continuing after a lost connection."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import trio

from tests.fakes.feeding import alert, append, append_some, drop_before
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.feed.feed_client import BOTH, PATH, Talk, numbers, refused, talking


@BOTH
async def test_rejected_handshake_gets_the_usual_response(engine: str, tmp_path: Path):
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        for query, key, status, code in (
            ("", None, 401, "MISSING_API_KEY"),
            ("", "sl_nobody", 401, "INVALID_API_KEY"),
            (f"api_key={node.key}", None, 401, "MISSING_API_KEY"),
            ("cursor=zzz", "", 400, "INVALID_REQUEST"),
            ("limti=2", "", 400, "INVALID_REQUEST"),
            ("consumer=a&cursor=oldest", "", 400, "INVALID_REQUEST"),
            ("/v1/events/wss", "", 404, "ENDPOINT_NOT_FOUND"),
        ):
            answer = await refused(node, query, key=key)
            assert (answer.status, answer.code) == (status, code), query
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-request-id"] == answer.json["request_id"]
            is_admitted = "x-ratelimit-remaining" in answer.headers
            assert is_admitted == (key == ""), "only an admitted request has window headers"
        await append_some(node, 1)
        ahead = await refused(node, "cursor=evt_00000000000000000000000000000000")
        assert ahead.json["error"]["details"]["param"] == "cursor"
        plain = await node.get(PATH)
        assert (plain.status, plain.code) == (426, "UPGRADE_REQUIRED")
        assert (plain.headers["upgrade"], plain.headers["connection"]) == ("websocket", "upgrade")
        assert "/v1/events" in plain.json["error"]["details"]["next_step"]
        assert (await node.get(PATH, method="POST")).status == 405
        assert len(node.node.feed.hub) == 0


async def test_handshake_beyond_the_concurrency_limit_gets_retry_after(tmp_path: Path):
    limits = {"concurrent_requests": 3, "long_polls": 5}
    async with open_test_node(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        for _ in range(3):
            await (await stack.enter_async_context(talking(node))).next()
        answer = await refused(node)
        assert (answer.status, answer.code) == (429, "CONCURRENCY_LIMIT")
        assert (answer.headers["x-concurrency-limit"], answer.headers["x-concurrency-remaining"]) == ("3", "0")
        assert answer.headers["retry-after"] == "1"


async def test_socket_counts_once_in_the_keys_window(tmp_path: Path):
    async with open_test_node(tmp_path, limits={"requests_per_minute": 3}) as node:
        for _ in range(3):
            async with talking(node) as talk:
                await talk.next()
                await append_some(node, 5)
                await talk.events(5)
        answer = await refused(node)
        assert (answer.status, answer.code, answer.headers["x-ratelimit-remaining"]) == (429, "RATE_LIMITED", "0")
        assert int(answer.headers["retry-after"]) >= 1


@BOTH
async def test_socket_sends_pages_in_order_then_new_events(engine: str, tmp_path: Path):
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        async with talking(node, "cursor=now") as talk:
            assert (await talk.next())["items"] == [], "a socket opens immediately on an empty log"
        await append_some(node, 5)
        async with talking(node, "limit=2") as talk:
            pages = [await talk.next() for _ in range(3)]
            assert [numbers(page["items"]) for page in pages] == [[0, 1], [2, 3], [4]]
            assert [page["has_more"] for page in pages] == [True, True, False]
            assert [page["next_cursor"] for page in pages] == [page["items"][-1]["cursor"] for page in pages]
            assert pages[0].keys() == {"type", "items", "next_cursor", "has_more"}
            for number in (5, 6):
                await append_some(node, 1, first=number)
                assert numbers((await talk.next())["items"]) == [number]
        same = (await node.get("/v1/events?limit=1")).json["data"]["items"]
        assert pages[0]["items"][:1] == same, "the WebSocket and the feed return the same event"


async def test_keepalive_reports_the_new_position(node: OpenNode):
    node.node.feed.polls.beat_s = 0.2
    async with talking(node, "types=credits.low") as talk:
        opened = await talk.next()
        alive = await talk.next()
        assert alive == {"type": "alive", "next_cursor": opened["next_cursor"]}
        await append_some(node, 1)
        while (moved := await talk.next()) == alive:
            pass
        assert moved["type"] == "alive"
    async with talking(node, f"cursor={moved['next_cursor']}") as talk:
        assert (await talk.next())["items"] == []


@BOTH
async def test_consumer_acknowledges_and_never_moves_back(engine: str, tmp_path: Path):
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        await append_some(node, 4)
        async with talking(node, "consumer=one&limit=2") as talk:
            first, second = await talk.next(), await talk.next()
            assert (first["unread"], second["unread"]) == (4, 4)
            await talk.ack(second["next_cursor"])
            acked = {"type": "acked", "consumer": "one", "cursor": second["next_cursor"]}
            assert await talk.next() == {**acked, "advanced": True, "unread": 0}
            await talk.ack(first["next_cursor"])
            assert await talk.next() == {**acked, "advanced": False, "unread": 0}
            await append_some(node, 2, first=4)
            third = await talk.next()
            assert (numbers(third["items"]), third["unread"]) == ([4, 5], 2)
            await talk.ack(third["items"][0]["cursor"])
            assert (await talk.next())["unread"] == 1
        async with talking(node, "consumer=one") as talk:
            assert numbers((await talk.next())["items"]) == [5]


async def test_invalid_acknowledgement_gets_an_error_message(node: OpenNode):
    await append_some(node, 2)
    stranger = (await node.new_key(await node.new_account()))[0]
    foreign = (await node.get("/v1/events?cursor=now", key=stranger)).json["pagination"]["next_cursor"]
    async with talking(node) as talk:
        await talk.ack((await talk.next())["next_cursor"])
        assert await _error(talk) == "type", "a reader by cursor has nothing to acknowledge"
    async with talking(node, "consumer=one&limit=1") as talk:
        page = await talk.next()
        assert numbers(await talk.events(1)) == [1]
        await append(node, alert(node.account, "key_of_another"))
        unserved = (await node.get("/v1/events?cursor=now")).json["pagination"]["next_cursor"]
        for cursor in ("zzz", "cur_zzz", "evt_none", "", "\0", "é" * 20_000, foreign, unserved):
            await talk.ack(cursor)
            assert await _error(talk) == "cursor", cursor
        await talk.ack(page["next_cursor"])
        assert (await talk.next())["advanced"] is True
        await node.node.feed.readers.consumers.delete(node.key_id, "one")
        await talk.ack(page["next_cursor"])
        gone = await talk.next()
        assert (gone["type"], gone["error"]["type"]) == ("error", "RESOURCE_NOT_FOUND")


@BOTH
async def test_invalid_message_gets_an_error_message(engine: str, tmp_path: Path):
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        await append_some(node, 1)
        async with talking(node, "consumer=one") as talk:
            cursor = (await talk.next())["next_cursor"]
            odd: tuple[object, ...] = ("", "hello", "[]", "{}", b"\xff", "[" * 60_000)
            for said in (
                *odd,
                {"type": "ack"},
                {"type": "ack", "cursor": 1},
                '{"type":"ack","cursor":"\\ud800"}',
                {"type": "nack", "cursor": cursor},
                {"type": "ack", "cursor": cursor, "consumer": "one"},
            ):
                await talk.say(said)
                assert await _error(talk) == "message", said
            await talk.say(b'{"type":"ack","cursor":"%b"}' % cursor.encode())
            assert (await talk.next())["advanced"] is True, "a binary message is read like text"


async def _error(talk: Talk) -> str:
    """Read the next message, which must be an error, and return the parameter that it names."""
    message = await talk.next()
    assert (message["type"], message["error"]["status"]) == ("error", 400), message
    assert message["error"]["details"]["next_step"]
    param: str = message["error"]["details"]["param"]
    return param


async def test_burst_of_acknowledgements_is_answered_in_order(node: OpenNode):
    await append_some(node, 300)
    async with talking(node, "consumer=one&limit=10") as talk, trio.open_nursery() as nursery:
        first = (await talk.next())["items"]
        nursery.start_soon(append_some, node, 100)
        for item in first:
            await talk.ack(item["cursor"])
        given, acked = len(first), []
        while given < 400 or len(acked) < len(first):
            message = await talk.next()
            if message["type"] == "events":
                given += len(message["items"])
            else:
                acked.append(message["cursor"])
        assert acked == [item["cursor"] for item in first]


async def test_reconnecting_client_gets_each_event_once_by_cursor(tmp_path: Path):
    async with open_test_node(tmp_path) as node, trio.open_nursery() as nursery:
        nursery.start_soon(_append_now_and_then, node, 100)
        got: list[int] = []
        cursor = "oldest"
        while len(got) < 100:
            async with talking(node, f"limit=3&cursor={cursor}") as talk:
                until = min(100, len(got) + 10)
                while len(got) < until:
                    page = await talk.next()
                    got += numbers(page["items"])
                    cursor = page["next_cursor"]
                await trio.aclose_forcefully(talk.stream)
        assert got == list(range(100))


async def test_reconnecting_consumer_gets_unacknowledged_events_again(tmp_path: Path):
    async with open_test_node(tmp_path) as node, trio.open_nursery() as nursery:
        nursery.start_soon(_append_now_and_then, node, 50)
        acked = -1
        while acked < 49:
            async with talking(node, "consumer=one&limit=3") as talk:
                while not (page := await talk.next())["items"]:
                    pass
                got = numbers(page["items"])
                assert got == list(range(acked + 1, acked + 1 + len(got)))
                await talk.ack(page["next_cursor"])
                while (await talk.next())["type"] == "events":
                    pass
                acked = got[-1]
                await trio.aclose_forcefully(talk.stream)


async def _append_now_and_then(node: OpenNode, count: int) -> None:
    for first in range(0, count, 5):
        await append_some(node, 5, first=first)
        await trio.sleep(0.005)


async def test_lapsed_consumer_gets_its_restart_position(node: OpenNode):
    await append_some(node, 3)
    async with talking(node, "consumer=one&limit=1") as talk:
        page = await talk.next()
        await talk.ack(page["next_cursor"])
        while (await talk.next())["type"] == "events":
            pass
    await drop_before(node, 3)
    lapse = await refused(node, "consumer=one")
    assert (lapse.status, lapse.code) == (410, "CURSOR_EXPIRED")
    async with talking(node, "consumer=one") as talk:
        restart = await talk.next()
        assert numbers(restart["items"]) == [2]
        assert (restart["restarted_from"], restart["dropped"]) == (page["next_cursor"], 1)
        await append_some(node, 1, first=3)
        assert "restarted_from" not in await talk.next(), "the restart is reported twice"
