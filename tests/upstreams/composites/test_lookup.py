"""The record for any URL, over HTTP (decisions 14): it costs as much as its target, is cached, or refused for free."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

STORY = "https://news.ycombinator.com/item?id=8863"
PAGE = b'<html><head><link rel="alternate" type="application/json+oembed" href="%b"></head></html>'
HTML = {"content-type": "text/html"}
EMBED = {
    "type": "video",
    "title": "A talk",
    "author_name": "Ada",
    "author_url": "https://video.example.org/ada",
    "provider_name": "Videos",
    "thumbnail_url": "https://video.example.org/1.jpg",
}


def lookup(url: str, **more: str) -> str:
    return f"/v1/prism/lookup?url={quote(url, safe='')}" + "".join(f"&{name}={value}" for name, value in more.items())


@asynccontextmanager
async def open_answering(folder: Path, script: Callable[[str], ScriptedAnswer | None]) -> AsyncIterator[OpenNode]:
    async with open_test_node(folder) as node:
        node.upstream.script = script
        yield node


async def test_lookup_returns_record_and_endpoint(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(lookup(STORY))
        assert answer.status == 200
        direct = (await node.get("/v1/hackernews/story?id=8863")).json["data"]
        data = answer.json["data"]
        assert data["resolved"] == {
            "platform": "hackernews",
            "endpoint": "/v1/hackernews/story",
            "archetype": "Post",
            "params": {"id": "8863"},
        }
        assert (data["post"], data["computed"]) == (direct["post"], direct["computed"])
        assert data["author"] is data["repository"] is data["app"] is data["article"] is data["collection"] is None
        assert [(leg["endpoint"], leg["status"], leg["credits_used"]) for leg in data["legs"]] == [
            ("hackernews/story", "ok", 1)
        ]
        assert (answer.json["credits_used"], answer.headers["x-cache"]) == (1, "MISS")
        again = await node.get(lookup(STORY))
        assert (again.json["credits_used"], again.headers["x-cache"]) == (0, "HIT")
        replay = [await node.get(lookup(STORY), headers={"Idempotency-Key": "a"}) for _ in range(2)]
        assert [one.json["data"] for one in replay] == [data, data]
        fields = await node.get(lookup(STORY, fields="post.id,resolved.platform"))
        assert fields.json["data"] == {"post": {"id": "8863"}, "resolved": {"platform": "hackernews"}}
        await node.assert_sound()


async def test_dry_run_resolves_without_calls(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        own = (await node.get(lookup(STORY, dry_run="1"))).json
        assert (own["credits_used"], own["data"]["estimated_credits"]) == (0, 1)
        assert own["data"]["resolved"]["endpoint"] == "/v1/hackernews/story"
        other = (await node.get(lookup("https://lemmy.ml/c/asklemmy", dry_run="1"))).json["data"]
        assert other["resolved"] is None
        assert [one["endpoint"] for one in other["candidates"]] == [
            "/v1/gitlab/repo",
            "/v1/lemmy/community",
            "/v1/peertube/channel",
        ]
        assert node.upstream.requests == []


async def test_unresolvable_url_is_a_free_400(tmp_path: Path) -> None:
    refused = {
        "https://bit.ly/x": "url is a short link of bit.ly: send the URL that it leads to.",
        "https://127.0.0.1/x": "url is not a public web address",
        "https://github.com/topics/python": "url is at GitHub, but does not lead to any profile, repo",
        "https://www.youtube.com/@GoogleDevelopers": "url can be looked up only with the operator's YouTube key",
        "https://en.wikipedia.org/wiki/Paris": "url this node cannot serve it: wikipedia",
    }
    async with open_test_node(tmp_path) as node:
        for url, words in refused.items():
            answer = await node.get(lookup(url))
            assert (answer.status, answer.json["error"]["type"]) == (400, "INVALID_REQUEST")
            assert answer.json["error"]["message"].startswith(words)
            assert answer.json["error"]["details"]["param"] == "url"
            assert answer.json["credits_used"] == 0
        assert answer.json["error"]["details"]["reason"] == "capability_missing"
        assert node.upstream.requests == []


async def test_unknown_host_is_read_by_its_software(tmp_path: Path) -> None:
    """Goal: the platform that reads the host's software returns the record. Method: a Lemmy server."""

    def script(asked: str) -> ScriptedAnswer | None:
        return None if "/api/v3/community" in asked else ScriptedAnswer(404, b"<html>", HTML)

    async with open_answering(tmp_path, script) as node:
        answer = await node.get(lookup("https://forum.example.org/c/asklemmy"))
        assert answer.status == 200, answer.json
        data = answer.json["data"]
        assert data["resolved"]["endpoint"] == "/v1/lemmy/community"
        assert data["author"]["username"] is not None
        assert (answer.json["credits_used"], len(data["legs"])) == (1, 1)
        asked = len(node.upstream.requests)
        await node.get(lookup("https://forum.example.org/c/asklemmy"), headers={"Cache-Control": "no-cache"})
        assert len(node.upstream.requests) == asked + 1, "the other software is known to be absent"
        await node.assert_sound()


async def test_page_outside_all_platforms_is_described_by_its_oembed(tmp_path: Path) -> None:
    def script(asked: str) -> ScriptedAnswer | None:
        if asked.startswith("video.example.org/api/oembed?"):
            return json_answer(EMBED)
        return ScriptedAnswer(200, PAGE % b"/api/oembed?url=x&format=json", HTML)

    async with open_answering(tmp_path, script) as node:
        answer = await node.get(lookup("https://video.example.org/talk?t=5"))
        assert answer.status == 200, answer.json
        data: dict[str, Any] = answer.json["data"]
        assert data["resolved"] == {
            "platform": "oembed",
            "endpoint": "https://video.example.org/api/oembed",
            "archetype": "Post",
            "params": {"url": "https://video.example.org/talk?t=5"},
        }
        assert data["post"]["content"]["text"] == "A talk"
        assert data["post"]["author"]["display_name"] == "Ada"
        assert data["post"]["engagement"]["views"] is None
        assert node.upstream.requests == [
            "video.example.org/robots.txt",
            "video.example.org/talk?t=5",
            "video.example.org/api/oembed?url=x&format=json",
        ]
        assert answer.json["credits_used"] == 1


async def test_unusable_oembed_offer_costs_nothing(tmp_path: Path) -> None:
    pages = {
        "no-offer": (ScriptedAnswer(200, b"<html><head></head></html>", HTML), 404, "JavaScript"),
        "no-page": (ScriptedAnswer(404, b"<html>", HTML), 404, ""),
        "private-offer": (ScriptedAnswer(200, PAGE % b"https://127.0.0.1/oembed", HTML), 502, "public"),
        "other-kind-of-offer": (ScriptedAnswer(200, PAGE % b"ftp://example.org/oembed", HTML), 404, "JavaScript"),
        "broken-offer": (ScriptedAnswer(200, PAGE % b"https://[", HTML), 502, ""),
        "broken-page": (ScriptedAnswer(500), 502, ""),
    }
    async with open_answering(tmp_path, lambda asked: pages[asked.partition(".")[0]][0]) as node:
        for host, (_, status, words) in pages.items():
            answer = await node.get(lookup(f"https://{host}.example.org/talk"))
            assert (answer.status, answer.json["credits_used"]) == (status, 0), answer.json
            assert words in answer.json["error"]["message"]
        await node.assert_sound()


async def test_page_without_oembed_is_scraped(tmp_path: Path) -> None:
    text = "<html><head><title>A talk</title></head><body><p>Some words of it.</p></body></html>"
    async with open_answering(tmp_path, lambda _asked: ScriptedAnswer(200, text.encode(), HTML)) as node:
        answer = await node.get(lookup("https://video.example.org/talk"))
        data = answer.json["data"]
        assert (answer.status, answer.json["credits_used"]) == (200, 1)
        assert (data["page"]["metadata"]["title"], data["page"]["content"]["markdown"]) == (
            "A talk",
            "Some words of it.",
        )
        assert data["resolved"]["endpoint"] == "/v1/web/scrape"
        direct = await node.get(f"/v1/web/scrape?url={quote(data['resolved']['params']['url'], safe='')}")
        assert direct.json["data"]["page"]["content"] == data["page"]["content"]


async def test_failing_server_is_not_reported_as_missing_record(tmp_path: Path) -> None:
    async with open_answering(tmp_path, lambda _asked: ScriptedAnswer(500)) as node:
        answer = await node.get(lookup("https://forum.example.org/@ada/5"))
        assert (answer.status, answer.json["credits_used"]) == (502, 0)
        assert not any(asked.startswith("forum.example.org/@ada") for asked in node.upstream.requests)
