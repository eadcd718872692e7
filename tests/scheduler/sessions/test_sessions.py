"""Sessions of the web over HTTP, in a real Chromium: actions, money, time, and the end for certain (decisions 21)."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import orjson
import trio
from PIL import Image

from tests.fakes.chromium import Chromium, open_chromium
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import Told
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.upstreams.web.test_scraping import HOST, page, serve

FORM = page(
    "<!doctype html><html><head><title>A form</title></head><body><h1>Who are you?</h1>"
    f"<p>{'Words of a page with a form. ' * 8}</p><form action=/hello method=get><input name=who id=who>"
    "<button id=go>Go</button></form><p id=late></p><p id=said></p>"
    "<script>who.oninput = () => { said.append('|') }; setTimeout(() => {"
    " late.innerHTML = '<b class=late>Late</b>' }, 300)</script></body></html>"
)
HELLO = page(
    "<!doctype html><html><head><title>Hello</title></head><body style='margin:0;background:rgb(0,128,0)'>"
    f"<article><h1>Hello</h1><p id=who></p><p>{'Words behind the form. ' * 8}</p></article>"
    "<script>who.textContent = new URLSearchParams(location.search).get('who') + ' ' + document.cookie"
    "</script></body></html>",
    set_cookie="seen=1; Path=/",
)
PATH = "/v1/web/sessions"


def site(node: OpenNode) -> None:
    serve(node, {})
    node.upstream.script = lambda asked: (
        FORM if asked == f"{HOST}/form" else HELLO if asked.startswith(f"{HOST}/hello") else Told(404, b"", {})
    )


def open_node(folder: Path, browser: Chromium, **more: Any) -> Any:
    return open_test_node(folder, web={"browser_url": browser.url}, patience_s=240, **more)


async def send(
    node: OpenNode, method: str, path: str, body: Any = None, *, key: str = "", once: str = ""
) -> tuple[int, dict[str, Any]]:
    headers = {"x-api-key": key or node.key} | ({"idempotency-key": once} if once else {})
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(method, node.url + path, headers=headers, content=content)
    return answer.status_code, orjson.loads(answer.content)


async def open_session(node: OpenNode, **fields: Any) -> dict[str, Any]:
    status, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form", **fields})
    assert status == 201, told
    data: dict[str, Any] = told["data"]
    return data


async def execute(node: OpenNode, session: str, *actions: Any) -> dict[str, Any]:
    status, told = await send(node, "POST", f"{PATH}/{session}/execute", {"actions": list(actions)})
    if status != 200:
        print(node.log.getvalue().decode()[-6000:])
    assert status == 200, told
    data: dict[str, Any] = told["data"]
    return data


async def typed_times(node: OpenNode, session: str) -> int:
    """The times that something was typed, which the page itself counts."""
    done = await execute(node, session, {"type": "scrape", "formats": "text", "only_main_content": False})
    text: str = done["results"][0]["page"]["content"]["text"]
    return text.count("|")


async def closed(node: OpenNode, session: str) -> dict[str, Any]:
    """The session, once it is closed."""
    found: dict[str, Any] = {"status": "open"}
    with trio.fail_after(60):
        while found["status"] != "closed":
            await trio.sleep(0.1)
            found = (await send(node, "GET", f"{PATH}/{session}"))[1]["data"]
    return found


async def contexts(browser: Chromium) -> int:
    async with httpx.AsyncClient() as client:
        found = (await client.get(f"{browser.url}/json/list")).json()
    return sum(one["type"] == "page" and HOST in one["url"] for one in found)


async def until_no_page(browser: Chromium) -> None:
    with trio.fail_after(30):
        while await contexts(browser):  # noqa: ASYNC110 - a browser sets no event
            await trio.sleep(0.1)


async def test_a_session_is_opened_worked_in_and_closed_for_the_price_of_its_time(
    tmp_path: Path, chromium: Chromium
) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        before = await node.money()
        session = await open_session(node, ttl_seconds=3600)
        assert (session["status"], session["credits"]) == ("open", {"reserved": 20, "used": 0, "refunded": 0})
        assert session["session_id"].startswith("ws_")
        assert await node.gauge("sluice_web_sessions_open") == 1
        assert await node.money() == (before[0] - 20, 20)
        done = await execute(
            node,
            session["session_id"],
            {"type": "wait", "selector": ".late"},
            {"type": "type", "selector": "#who", "text": "Ada & Bert"},
            {"type": "click", "selector": "#go"},
            {"type": "scrape", "formats": "text,links"},
            {"type": "screenshot"},
        )
        assert [row["status"] for row in done["results"]] == ["ok"] * 5, done
        assert done["url"] == f"https://{HOST}/hello?who=Ada+%26+Bert"
        assert "Ada & Bert seen=1" in done["results"][3]["page"]["content"]["text"]
        picture = Image.open(BytesIO(b64decode(done["results"][4]["screenshot_url"].split(",")[1]))).convert("RGB")
        assert (picture.size, picture.getpixel((1200, 780))) == ((1280, 800), (0, 128, 0))
        back = await execute(
            node,
            session["session_id"],
            {"type": "goto", "url": f"https://{HOST}/form"},
            {"type": "type", "selector": "#who", "text": "Cleo"},
            {"type": "press", "key": "Enter"},
            {"type": "scroll", "y": 200},
            {"type": "wait", "ms": 10},
            {"type": "click", "selector": "#nothing"},
            {"type": "scrape"},
        )
        assert [row["status"] for row in back["results"]] == ["ok"] * 5 + ["failed", "skipped"]
        assert back["results"][5]["error"]["reason"] == "selector_absent"
        assert back["url"].endswith("who=Cleo")
        status, told = await send(node, "DELETE", f"{PATH}/{session['session_id']}")
        assert (status, told["data"]["closed_because"]) == (200, "owner")
        assert told["data"]["credits"] == {"reserved": 20, "used": 5, "refunded": 15}
        assert await node.money() == (before[0] - 5, 0)
        again = await send(node, "DELETE", f"{PATH}/{session['session_id']}")
        assert again[1]["data"]["credits"] == told["data"]["credits"], "closed once"
        with trio.fail_after(30):
            held = 1.0
            while held:
                await trio.sleep(0.05)
                held = await node.gauge("sluice_web_sessions_open")
        status, over = await send(
            node, "POST", f"{PATH}/{session['session_id']}/execute", {"actions": [{"type": "scrape"}]}
        )
        assert (status, over["error"]["details"]["reason"]) == (400, "session_over")
        await until_no_page(chromium)
        await node.assert_sound()


async def test_what_cannot_be_done_is_refused_by_name_and_for_free(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        for body, param in (
            ({"url": "http://127.0.0.1/"}, "url"),
            ({"url": f"https://{HOST}/form", "ttl_seconds": 3601}, "ttl_seconds"),
            ({"url": f"https://{HOST}/form", "activity_ttl_seconds": 300}, "activity_ttl_seconds"),
            ({"url": f"https://{HOST}/form", "stream_web_view": True}, "stream_web_view"),
        ):
            status, told = await send(node, "POST", PATH, body)
            assert (status, told["error"]["details"]["param"]) == (400, param), told
        session = (await open_session(node))["session_id"]
        for action, param in (
            ({"type": "evaluate", "text": "1"}, "actions[1].type"),
            ({"type": "goto"}, "actions[1].url"),
            ({"type": "goto", "url": "file:///etc/passwd"}, "actions[1].url"),
            ({"type": "goto", "url": "http://169.254.169.254/"}, "actions[1].url"),
            ({"type": "type", "selector": "p"}, "actions[1].text"),
            ({"type": "click", "selector": "p["}, "actions[1].selector"),
            ({"type": "press", "key": "Hyper"}, "actions[1].key"),
            ({"type": "wait"}, "actions[1].ms"),
        ):
            body = {"actions": [{"type": "click", "selector": "#go"}, action]}
            status, told = await send(node, "POST", f"{PATH}/{session}/execute", body)
            assert (status, told["error"]["details"]["param"]) == (400, param), told
        assert (await execute(node, session, {"type": "wait", "ms": 1}))["url"].endswith("/form"), "nothing was done"
        other, _ = await node.new_key(await node.new_account())
        for method, path in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/execute")):
            sent = {"PATCH": {"ttl_seconds": 60}, "POST": {"actions": [{"type": "scrape"}]}}.get(method)
            status, told = await send(node, method, f"{PATH}/{session}{path}", sent, key=other)
            assert (status, told["error"]["details"]["reason"]) == (404, "unknown_session"), method
        lost, told = await send(node, "POST", PATH, {"url": "https://nowhere.example.net/"})
        assert (lost, told["credits_used"]) in ((502, 0), (404, 0), (201, 0))
        await send(node, "DELETE", f"{PATH}/{session}")


async def test_time_is_lengthened_idempotency_keys_open_once_and_limits_hold(
    tmp_path: Path, chromium: Chromium
) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        body = {"url": f"https://{HOST}/form", "ttl_seconds": 60}
        assert (await send(node, "POST", f"{PATH}?dry_run=1", body))[1]["data"]["estimated_credits"] == 5
        assert (await send(node, "POST", f"{PATH}?max_credits=4", body))[0] == 402
        (_, first), (_, second) = [await send(node, "POST", PATH, body, once="one") for _ in range(2)]
        session = first["data"]["session_id"]
        assert second["data"]["session_id"] == session
        assert await contexts(chromium) == 1
        status, longer = await send(node, "PATCH", f"{PATH}/{session}", {"ttl_seconds": 3600})
        assert (status, longer["data"]["credits"]["reserved"]) == (200, 20)
        assert (await node.money())[1] == 20
        more = [await open_session(node) for _ in range(4)]
        status, told = await send(node, "POST", PATH, body)
        assert (status, told["error"]["details"]["reason"]) == (400, "session_limit_reached")
        listed = (await send(node, "GET", f"{PATH}?limit=3"))[1]
        assert [one["session_id"] for one in listed["data"]["items"]] == [one["session_id"] for one in more[:0:-1]]
        for one in (session, *(one["session_id"] for one in more)):
            closed = (await send(node, "DELETE", f"{PATH}/{one}"))[1]["data"]["credits"]
            assert closed["used"] + closed["refunded"] == closed["reserved"]
        await until_no_page(chromium)
        await node.assert_sound()


async def test_actions_with_an_idempotency_key_are_done_once(tmp_path: Path, chromium: Chromium) -> None:
    """Goal: a click is not made twice. Method: the page counts what is typed into it."""
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
        with trio.move_on_after(0.3):  # the client goes, and what it asked for is done all the same
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
        for _ in range(2):  # nothing was done, so the key is free
            status, told = await send(node, "POST", path, body, once="late")
            assert (status, told["error"]["details"]["reason"]) == (400, "session_over")
        await node.assert_sound()


async def test_actions_whose_end_nobody_knows_are_not_done_again(tmp_path: Path) -> None:
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


async def test_a_session_ends_when_its_time_is_up_or_nothing_is_done_in_it(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        session = (await open_session(node, ttl_seconds=60, activity_ttl_seconds=10))["session_id"]
        revoked_key, revoked_id = await node.new_key(node.account)
        status, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form"}, key=revoked_key)
        assert status == 201
        await node.operate("key.revoke", key=revoked_id)
        ends = {session: "expired", told["data"]["session_id"]: "key_revoked"}
        for one, because in ends.items():
            found = await closed(node, one)
            assert (found["closed_because"], found["credits"]["used"]) == (because, 5)
        await until_no_page(chromium)
        await node.assert_sound()


async def test_a_browser_that_dies_ends_its_sessions_for_what_they_were_worth(tmp_path: Path) -> None:
    with open_chromium() as browser:
        async with open_node(tmp_path, browser) as node:
            site(node)
            session = (await open_session(node, ttl_seconds=3600))["session_id"]
            browser.kill()
            found = await closed(node, session)
            assert (found["closed_because"], found["credits"]["used"]) == ("browser_lost", 0)
            away, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form"})
            assert (away, told["error"]["type"], told["credits_used"]) == (502, "UPSTREAM_ERROR", 0)
            await node.assert_sound()


async def test_a_node_that_stops_closes_its_sessions_and_one_without_a_browser_says_so(
    tmp_path: Path, chromium: Chromium
) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        await open_session(node, ttl_seconds=3600)
        key, account = node.key, node.account
    await until_no_page(chromium)
    async with open_test_node(tmp_path, patience_s=240) as node:
        assert await node.money(account) == (100_000, 0)
        status, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form"}, key=key)
        assert (status, told["error"]["details"]["reason"]) == (400, "capability_missing")
        await node.assert_sound()


async def test_a_session_is_worked_in_and_closed_on_the_node_that_does_not_hold_it(
    tmp_path: Path, chromium: Chromium, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    """Goal: any node answers for a session. Method: two whole nodes on one PostgreSQL and one browser."""
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
        for node in (second, first):  # the second time on the other node: it is told, and not done again
            status, told = await send(node, "POST", path, {"actions": actions}, key=first.key, once="work")
            assert status == 200, told
            assert "Ada" in told["data"]["results"][2]["page"]["content"]["text"]
        assert told["idempotent_replay"]
        assert sum("/hello" in asked for asked in first.upstream.requests) == 1
        assert not any("/hello" in asked for asked in second.upstream.requests), "who holds a page makes its requests"
        assert (await send(second, "GET", f"{PATH}/{session}", key=first.key))[1]["data"]["status"] == "open"
        status, longer = await send(second, "PATCH", f"{PATH}/{session}", {"ttl_seconds": 600}, key=first.key)
        assert (status, longer["data"]["ttl_seconds"]) == (200, 600)
        assert [await node.gauge("sluice_web_sessions_open") for node in (first, second)] == [1, 0]
        status, over = await send(second, "DELETE", f"{PATH}/{session}", key=first.key)
        assert (status, over["data"]["closed_because"]) == (200, "owner")
        assert over["data"]["credits"] == {"reserved": 20, "used": 5, "refunded": 15}
        await until_no_page(chromium)
        status, late = await send(first, "POST", path, {"actions": actions}, key=first.key)
        assert (status, late["error"]["details"]["reason"]) == (400, "session_over")
        assert (await first.money())[1] == 0
        await first.assert_sound()
