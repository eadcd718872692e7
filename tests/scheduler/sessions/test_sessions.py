"""Web sessions over HTTP, in a real Chromium: actions, credits, time limits and guaranteed ends (decisions 21)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import orjson
import trio
from PIL import Image

from tests.fakes.chromium import Chromium, open_chromium
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
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
        FORM
        if asked == f"{HOST}/form"
        else HELLO
        if asked.startswith(f"{HOST}/hello")
        else ScriptedAnswer(404, b"", {})
    )


def open_node(folder: Path, browser: Chromium, web: Mapping[str, Any] | None = None, **more: Any) -> Any:
    return open_test_node(folder, web={"browser_url": browser.url, **(web or {})}, patience_s=240, **more)


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
    assert status == 200, (told, node.log.getvalue().decode()[-6000:])
    data: dict[str, Any] = told["data"]
    return data


async def closed(node: OpenNode, session: str) -> dict[str, Any]:
    """Return the session once it is closed."""
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


async def wait_until_no_page(browser: Chromium) -> None:
    with trio.fail_after(30):
        while await contexts(browser):  # noqa: ASYNC110 - a browser sets no event
            await trio.sleep(0.1)


async def test_session_costs_the_price_of_its_time(tmp_path: Path, chromium: Chromium) -> None:
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
        assert again[1]["data"]["credits"] == told["data"]["credits"], "the session closes once"
        with trio.fail_after(30):
            held = 1.0
            while held:
                await trio.sleep(0.05)
                held = await node.gauge("sluice_web_sessions_open")
        status, over = await send(
            node, "POST", f"{PATH}/{session['session_id']}/execute", {"actions": [{"type": "scrape"}]}
        )
        assert (status, over["error"]["details"]["reason"]) == (400, "session_over")
        await wait_until_no_page(chromium)
        await node.assert_sound()


async def test_invalid_session_requests_are_rejected_for_free(tmp_path: Path, chromium: Chromium) -> None:
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
            ({"type": "wait", "ms": 1, "second": 1}, "actions[1].second"),
        ):
            body = {"actions": [{"type": "click", "selector": "#go"}, action]}
            status, told = await send(node, "POST", f"{PATH}/{session}/execute", body)
            assert (status, told["error"]["details"]["param"]) == (400, param), told
        assert (await execute(node, session, {"type": "wait", "ms": 1}))["url"].endswith("/form"), "no action was done"
        other, _ = await node.new_key(await node.new_account())
        for method, path in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/execute")):
            sent = {"PATCH": {"ttl_seconds": 60}, "POST": {"actions": [{"type": "scrape"}]}}.get(method)
            status, told = await send(node, method, f"{PATH}/{session}{path}", sent, key=other)
            assert (status, told["error"]["details"]["reason"]) == (404, "unknown_session"), method
        lost, told = await send(node, "POST", PATH, {"url": "https://nowhere.example.net/"})
        assert (lost, told["credits_used"]) in ((502, 0), (404, 0), (201, 0))
        await send(node, "DELETE", f"{PATH}/{session}")


async def test_session_is_priced_extended_listed_and_limited(tmp_path: Path, chromium: Chromium) -> None:
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
        await wait_until_no_page(chromium)
        await node.assert_sound()


async def test_session_ends_when_it_expires_or_its_key_is_revoked(tmp_path: Path, chromium: Chromium) -> None:
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
        await wait_until_no_page(chromium)
        await node.assert_sound()


async def test_dead_browser_ends_its_sessions_and_charges_only_open_time(tmp_path: Path) -> None:
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


async def test_stopping_node_closes_sessions_and_node_without_browser_rejects_them(
    tmp_path: Path, chromium: Chromium
) -> None:
    async with open_node(tmp_path, chromium) as node:
        site(node)
        await open_session(node, ttl_seconds=3600)
        key, account = node.key, node.account
    await wait_until_no_page(chromium)
    async with open_test_node(tmp_path, patience_s=240) as node:
        assert await node.money(account) == (100_000, 0)
        status, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form"}, key=key)
        assert (status, told["error"]["details"]["reason"]) == (400, "capability_missing")
        await node.assert_sound()


async def test_account_opens_at_most_half_of_a_nodes_sessions(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium, web={"browser_sessions": 3}) as node:
        site(node)
        opened = await open_session(node)
        status, told = await send(node, "POST", PATH, {"url": f"https://{HOST}/form", "ttl_seconds": 60})
        assert (status, told["error"]["details"]["reason"]) == (400, "session_limit_reached")
        assert (await send(node, "DELETE", f"{PATH}/{opened['session_id']}"))[0] == 200
        await node.assert_sound()
