"""Hosts named by callers, and bodies that are not JSON, through a node: failures are free and do not block the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hosted_platform import HOSTED, SECRET
from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, json_answer, open_upstream
from tests.fakes.timed_node import open_timed_node
from tests.gateway.node.test_loop_steps import open_client

MB = 1_000_000
QUIET: dict[str, Any] = {
    "upstreams": {"defaults": {"retries": 0}, "hosted": {"token_env": "HOSTED_TOKEN"}},
    "breaker": {"failures": 10_000},
    "limits": {"requests_per_minute": 100_000, "concurrent_requests": 100},
}
RSS = (
    b'<?xml version="1.0"?><rss version="2.0"><channel><title>T</title>'
    + b"".join(
        b"<item><guid>%d</guid><title>Number %d</title><description>&lt;p&gt;%b</description></item>"
        % (at, at, b"w " * 99)
        for at in range(900)
    )
    + b"</channel></rss>"
)
SHELF = b"<html><h1>Shelf</h1>" + b'<div class="m" data-id="1"><p class="t">One</p></div>' * 900
BODIES: dict[str, tuple[str, ScriptedAnswer, int]] = {
    "a feed": ("feed", ScriptedAnswer(200, RSS, {"content-type": "text/xml"}), 200),
    "a page": ("shelf", ScriptedAnswer(200, SHELF, {"content-type": "text/html"}), 200),
    "a feed of 7 MB": (
        "feed", ScriptedAnswer(200, RSS[:300] + b"w " * (7 * MB // 2), {"content-type": "text/xml"}), 502,
    ),
    "a feed of 5 MB": ("feed", ScriptedAnswer(200, RSS.replace(b"w w ", b"word and words " * 4), {}), 200),
    "a feed without an end": ("feed", ScriptedAnswer(200, RSS[: len(RSS) // 2], {"content-type": "text/xml"}), 200),
    "a feed that is not XML": ("feed", ScriptedAnswer(200, b"<html><body>Sorry", {"content-type": "text/html"}), 502),
    "a feed that is a text": ("feed", ScriptedAnswer(200, b"Sorry", {"content-type": "text/plain"}), 502),
    "a feed of entities": ("feed", ScriptedAnswer(200, b"<rss>" + b"&x;" * MB, {"content-type": "text/xml"}), 502),
    "a short feed of items": (
        "feed", ScriptedAnswer(200, b"<rss><channel>" + b"<item><a:b c='d'/></item>" * 5_000, {}), 200,
    ),
    "a short feed of authors": (
        "feed",
        ScriptedAnswer(200, b"<rss><channel><item>" + b"".join(b"<author>%d</author>" % at for at in range(5_900)), {}),
        200,
    ),
    "a short page": ("shelf", ScriptedAnswer(200, b"<div class=m><p class=t>&amp;<b>x</b></div>" * 900, {}), 200),
    "a feed that is gone": ("feed", ScriptedAnswer(404, b"<p>Not found", {"content-type": "text/html"}), 404),
    "an empty feed": ("feed", ScriptedAnswer(200, b"", {"content-type": "text/xml"}), 404),
    "an error page": ("feed", ScriptedAnswer(500, b"<p>Sorry", {"content-type": "text/html"}), 502),
    "a page of 10 MB": ("shelf", ScriptedAnswer(200, b"<p>x" * (10 * MB // 4), {"content-type": "text/html"}), 502),
    "a deeply nested page": ("shelf", ScriptedAnswer(200, b"<div>" * 240_000, {"content-type": "text/html"}), 502),
    "a page of attributes": (
        "shelf", ScriptedAnswer(200, b"<a " + b"".join(b"b%d " % at for at in range(200_000)), {}), 502,
    ),
    "a page that declares another charset": (
        "shelf", ScriptedAnswer(200, "<div class=m data-id=é><p class=t>Ünïcödé".encode("cp1252") * 9,
                                {"content-type": "text/html; charset=utf-8"}), 200,
    ),
    "a page with an unknown charset": (
        "shelf", ScriptedAnswer(200, SHELF, {"content-type": "text/html; charset=rot13"}), 200,
    ),
    "a page without a type": ("shelf", ScriptedAnswer(200, SHELF, {}), 200),
    "a page that is an image": (
        "shelf", ScriptedAnswer(200, bytes(range(256)) * 4_000, {"content-type": "image/png"}), 200,
    ),
    "a text that is a page": ("note", ScriptedAnswer(200, SHELF, {"content-type": "text/html"}), 200),
}  # fmt: skip


async def test_unreadable_body_is_free_and_does_not_block_the_loop(tmp_path: Path) -> None:
    upstream = Upstream()
    async with (
        open_upstream(upstream) as egress,
        open_timed_node(tmp_path, platforms=(HOSTED,), egress=egress, **QUIET) as node,
        open_client(node) as client,
    ):
        for name, (endpoint, answer, status) in BODIES.items():
            upstream.always(answer)
            before, _ = await node.call(node.opened.money)
            async with node.timed(name):
                address = f"/v1/hosted/{endpoint}?instance=host.example.com"
                got = await client.get(address, headers={"cache-control": "no-cache"})
            assert got.status_code == status, (name, got.text[:300])
            after, held = await node.call(node.opened.money)
            is_charged = status == 200 and got.json()["data"].get("items") != []
            assert ((before - after > 0), held) == (is_charged, 0), name
        await node.call(node.opened.assert_sound)


NO_HOSTS = ("localhost", "127.0.0.1", "0x7f.1", "db.internal", "u%40a.social", "a.social:23", "%5B::1%5D", "a..social")


async def test_nonpublic_host_returns_400_for_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(HOSTED,), **QUIET) as node:
        before = await node.money()
        for host in NO_HOSTS:
            got = await node.get(f"/v1/hosted/profile?instance={host}")
            assert got.status == 400, host
            assert got.json["error"]["details"]["param"] == "instance"
        assert node.upstream.requests == []
        assert await node.money() == before


async def test_status_and_metrics_combine_named_hosts(tmp_path: Path) -> None:
    trips = {**QUIET, "breaker": {"failures": 1, "open_s": 60}}
    async with open_test_node(tmp_path, platforms=(HOSTED,), environ={"HOSTED_TOKEN": SECRET}, **trips) as node:
        node.upstream.script = lambda asked: (
            json_answer({"id": "1"}) if asked.startswith("up") else json_answer({}, 500)
        )
        other, _ = await node.new_key(await node.new_account())
        for host, status in (("up1.example.com", 200), ("up2.example.com", 200), ("down.example.com", 502)):
            assert (await node.get(f"/v1/hosted/profile?instance={host}")).status == status
        assert (await node.get("/v1/hosted/note?instance=down.example.com", key=other)).status == 502
        data = (await node.get("/v1/status", key=None)).json["data"]["platforms"]["hosted"]
        assert data == {
            "status": "operational",
            "circuit": "closed",
            "sources": {"instance": {"circuit": "closed", "hosts": 3, "open": 1}},
        }
        assert "example.com" not in (await node.client.get(f"{node.admin_url}/metrics")).text
        node.upstream.always(json_answer({}, 500))
        assert (await node.get("/v1/hosted/profile")).status == 502
        assert (await node.get("/v1/hosted/note", key=other)).status == 502
        assert (await node.get("/v1/status", key=None)).json["data"]["platforms"]["hosted"]["circuit"] == "open"
        assert (await node.operate("platform.reset", platform="hosted"))["sources"] == {"instance": "closed"}


@pytest.mark.critical
async def test_account_cannot_block_a_named_host_for_others(tmp_path: Path) -> None:
    """Earlier, two requests for a page with a 500, or one for a page with a 429 and a long wait, closed its host."""
    bad = {
        "down.example.com": json_answer({}, 500),
        "slow.example.com": json_answer({}, 429, **{"retry-after": "86400"}),
    }
    tables = {**QUIET, "breaker": {"failures": 5}, "upstreams": {"hosted": {"retries": 2}}}
    async with open_test_node(tmp_path, platforms=(HOSTED,), **tables) as node:
        other, _ = await node.new_key(await node.new_account())
        good = ScriptedAnswer(200, b"hello")
        node.upstream.script = lambda asked: bad[asked.partition("/")[0]] if "/profile" in asked else good
        for host, status in (("down.example.com", 502), ("slow.example.com", 503)):
            for _ in range(10):
                assert (await node.get(f"/v1/hosted/profile?instance={host}")).status == status
            for key in (other, node.key):
                got = await node.get(f"/v1/hosted/note?instance={host}", key=key, headers={"cache-control": "no-cache"})
                assert got.status == 200, (host, got.body)
        await node.assert_sound()


@pytest.mark.critical
async def test_failing_requests_block_only_their_account(tmp_path: Path) -> None:
    """Earlier, any five failing requests closed a platform for every account, for up to five minutes."""
    tables = {"upstreams": {"defaults": {"retries": 0}}}
    async with open_test_node(tmp_path, **tables) as node:
        other, _ = await node.new_key(await node.new_account())
        good = node.upstream.script
        node.upstream.script = lambda asked: json_answer({}, 502) if "heavy" in asked else good(asked)
        statuses = [(await node.get("/v1/github/profile?handle=heavy")).status for _ in range(7)]
        assert statuses == [502] * 5 + [503] * 2
        assert (await node.get("/v1/github/profile?handle=octocat")).status == 503
        assert (await node.get("/v1/github/profile?handle=octocat", key=other)).status == 200
        assert (await node.get("/v1/github/profile?handle=torvalds")).status == 200, "the circuit is closed"
        await node.assert_sound()


async def test_host_with_other_software_returns_400_for_free_without_a_second_call(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(HOSTED,), environ={"HOSTED_TOKEN": SECRET}, **QUIET) as node:
        node.upstream.always(ScriptedAnswer(200, b"<html>A blog", {"content-type": "text/html"}))
        before = await node.money()
        for _ in range(2):
            got = await node.get("/v1/hosted/profile?instance=blog.example.com")
            assert (got.status, got.json["error"]["details"]["param"]) == (400, "instance")
            assert "must be a Hosted server" in got.json["error"]["message"]
        assert len(node.upstream.requests) == 1
        assert await node.money() == before
