"""web/search over HTTP: it tries the configured engines in order, and its price depends on the number of results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.upstreams.web.test_scraping import HTML, PAGE

ENVIRON = {"BRAVE": "brave-secret", "MARGINALIA": "marginalia-secret", "TAVILY": "tavily-secret"}
ALL = {
    "searxng_url": "http://search.test:8888/",
    "brave_key_env": "BRAVE",
    "marginalia_key_env": "MARGINALIA",
    "tavily_key_env": "TAVILY",
}
DOWN = ScriptedAnswer(500, b"{}")


def searxng(count: int, page: int = 1, host: str = "found.example.org") -> ScriptedAnswer:
    rows = [
        {
            "url": f"https://{host}/{page}-{n}",
            "title": f"Result <b>{n}</b>",
            "content": "A line &amp; more.",
            "publishedDate": f"2026-05-{n + 1:02d}T00:00:00" if n else None,
        }
        for n in range(count)
    ]
    return json_answer({"query": "q", "results": rows})


async def search(node: OpenNode, query: str = "trio", **values: Any) -> Answered:
    more = "".join(f"&{name}={quote(str(value))}" for name, value in values.items())
    return await node.get(f"/v1/web/search?query={quote(query)}{more}")


def urls(answer: Answered) -> list[str]:
    return [item["page"]["url"] for item in answer.json["data"]["items"]]


def only(host: str, answer: Callable[[str], ScriptedAnswer]) -> Callable[[str], ScriptedAnswer | None]:
    return lambda asked: answer(asked) if asked.startswith(host) else DOWN


async def test_results_match_the_engine_and_cost_two_per_ten(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, web={"search": {"searxng_url": ALL["searxng_url"]}}) as node:
        node.upstream.script = only(
            "search.test:8888/search", lambda asked: searxng(20, int(parse_qs(asked)["pageno"][0]))
        )
        first = await search(node, limit=10)
        assert (first.status, first.json["credits_used"], len(urls(first))) == (200, 2, 10)
        page = first.json["data"]["items"][1]["page"]
        assert (page["url"], page["metadata"]["title"]) == ("https://found.example.org/1-1", "Result 1")
        assert page["metadata"]["description"] == "A line & more."
        assert page["metadata"]["published_at"] == "2026-05-02T00:00:00Z"
        assert page["content"]["markdown"] is None
        many = await search(node, limit=45)
        assert (many.json["credits_used"], len(set(urls(many)))) == (10, 45)
        newest = await search(node, limit=5, sort_by_date="true")
        assert urls(newest)[0].endswith("-4")
        assert urls(newest)[-1].endswith("-0")
        assert (await search(node, limit=45, dry_run=1)).json["data"]["would_hit_cache"]
        await node.assert_sound()


async def test_engines_are_tried_in_turn(tmp_path: Path) -> None:
    async with open_test_node(
        tmp_path, environ=ENVIRON, web={"search": ALL}, upstreams={"defaults": {"retries": 0}}
    ) as node:
        brave = json_answer(
            {"web": {"results": [{"url": "https://b.example.org/", "title": "B", "page_age": "2026-05-03T10:00:00"}]}}
        )
        marginalia = json_answer({"results": [{"url": "https://m.example.org/", "title": "M", "description": "d"}]})
        tavily = json_answer({"results": [{"url": "https://t.example.org/", "title": "T", "content": "c"}]})
        hosts = ("api.search.brave.com", "api2.marginalia-search.com", "api.tavily.com")
        for number, (host, answer, due) in enumerate(zip(hosts, (brave, marginalia, tavily), "bmt", strict=True)):
            node.upstream.script = only(host, lambda _asked, answer=answer: answer)  # type: ignore[misc]
            found = await search(node, f"q{number}")
            assert urls(found) == [f"https://{due}.example.org/"]
            assert found.json["credits_used"] == 2
        node.upstream.script = lambda _asked: DOWN
        failed = await search(node, "nobody")
        assert failed.status in (502, 503)
        assert failed.json["credits_used"] == 0
        await node.assert_sound()


async def test_page_contents_are_read_and_billed_per_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, web={"search": {"searxng_url": ALL["searxng_url"]}}) as node:

        def answer(asked: str) -> ScriptedAnswer | None:
            if asked.startswith("search.test:8888"):
                return searxng(3)
            is_there = asked in ("found.example.org/1-0", "found.example.org/1-2")
            return ScriptedAnswer(200, PAGE.encode(), HTML) if is_there else ScriptedAnswer(404, b"", HTML)

        node.upstream.script = answer
        assert (await search(node, limit=10, include_content="true", dry_run=1)).json["data"]["reserved_credits"] == 12
        found = await search(node, limit=10, include_content="true")
        pages = [item["page"] for item in found.json["data"]["items"]]
        assert [page["content"]["markdown"] is not None for page in pages] == [True, False, True]
        assert pages[0]["metadata"]["title"] == "A title"
        assert pages[1]["metadata"]["title"] == "Result 1"
        assert found.json["credits_used"] == 4
        await node.assert_sound()


async def test_results_on_unwanted_or_private_hosts_are_removed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, web={"search": {"searxng_url": ALL["searxng_url"]}}) as node:
        places = (
            "https://a.example.org/",
            "https://www.b.example.org/",
            "http://127.0.0.1/",
            "https://c.example.net/",
            "no url",
        )
        node.upstream.script = lambda _asked: json_answer({"results": [{"url": one, "title": "t"} for one in places]})
        assert urls(await search(node)) == [places[0], places[1], places[3]]
        assert urls(await search(node, include_domains="example.org")) == [places[0], places[1]]
        assert urls(await search(node, exclude_domains="b.example.org,c.example.net")) == [places[0]]
        assert any("site%3Aexample.org" in asked for asked in node.upstream.requests)


async def test_search_without_an_engine_is_503_and_names_the_setting(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        refused = await search(node)
        assert (refused.status, refused.json["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
        assert "retry-after" not in refused.headers
        guide = (await node.get("/v1/utility/endpoint?id=web/search")).json["data"]
        assert guide["availability"]["available"] is False if "availability" in guide else guide["available"] is False
        assert "[web.search]" in str(guide)


@pytest.mark.parametrize("setting", [*ALL, None])
async def test_examples_exist_for_any_configured_engine(setting: str | None, tmp_path: Path) -> None:
    engines = ALL if setting is None else {setting: ALL[setting]}
    async with open_test_node(tmp_path, environ=ENVIRON, web={"search": engines}) as node:
        guide = await node.get("/v1/utility/endpoint?id=web/search")
        assert guide.status == 200
        assert guide.json["data"]["availability"]["available"] is True
        assert guide.json["data"]["response"]["example"]["data"]["items"] != []
        assert (await node.get("/docs/web/search", key=None)).status == 200
        assert node.upstream.requests == []


async def test_values_unsupported_by_all_engines_are_refused(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, web={"search": {"marginalia_key_env": "MARGINALIA"}}) as node:
        refused = {
            "sources=podcasts": ("sources", "invalid_param"),
            "sources=,": ("sources", "invalid_param"),
            "sources=news": ("sources", "capability_missing"),
            "time_range=week": ("time_range", "capability_missing"),
            "country=de": ("country", "capability_missing"),
            "categories=github": ("categories", "capability_missing"),
            "location=Berlin": ("location", "capability_missing"),
            "include_domains=a.org&exclude_domains=b.org": ("exclude_domains", "invalid_param"),
            "time_range=hour": ("time_range", "invalid_param"),
        }
        for query, (param, reason) in refused.items():
            answer = await node.get(f"/v1/web/search?query=x&{query}")
            details = answer.json["error"]["details"]
            assert (answer.status, details["param"], details.get("reason")) == (400, param, reason), query
        assert node.upstream.requests == []
