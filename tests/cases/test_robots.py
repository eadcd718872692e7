"""No page that its host's robots.txt forbids is fetched, whichever endpoint requests it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import trio

from tests.cases.paid_calls import DEAD_BROWSER, send
from tests.cases.paid_calls import ended as call_ended
from tests.fakes.node import CREDITS, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.rows import CREDENTIALS, ENVIRON
from upstreams.composites import load_all
from upstreams.model.endpoint import Endpoint, Platform

HTML: Final = {"content-type": "text/html"}
HOST: Final = "pages.example.org"
PAGE: Final = f"https://{HOST}/a/page.html"
FORBIDS: Final = ScriptedAnswer(200, b"User-agent: *\nDisallow: /\n", {"content-type": "text/plain"})
OFFER: Final = (
    b'<html><head><title>T</title><link rel="alternate" type="application/json+oembed" href="%b"></head>'
    b"<body><p>Some words of it.</p></body></html>"
)
OF_FILES: Final = {"podcasts", "peertube"}
"""Platforms that read feeds and captions at any host.

Feeds and captions are made for programs, while robots.txt is about pages.
"""

pytestmark = pytest.mark.critical


def forbidding(*hosts: str, offer: bytes = b"/api/oembed?url=x") -> Callable[[str], ScriptedAnswer | None]:
    """Return a script for hosts whose pages offer an oEmbed and whose robots.txt forbids all pages."""

    def script(asked: str) -> ScriptedAnswer | None:
        host, _, path = asked.partition("/")
        if path == "robots.txt":
            return FORBIDS if host in hosts else ScriptedAnswer(404, b"", HTML)
        if "oembed" in path:
            return json_answer({"type": "video", "title": "A talk"})
        if path.startswith("api/"):
            return ScriptedAnswer(404, b"<html>", HTML)
        return ScriptedAnswer(200, OFFER % offer, HTML)

    return script


def endpoints_with_urls() -> list[tuple[Platform, Endpoint, str]]:
    """Return every endpoint with a parameter that takes a URL, by declaration."""
    return [
        (platform, endpoint, param.name)
        for platform in load_all()
        for endpoint in platform.endpoints
        for param in endpoint.params
        if param.type == "url"
    ]


def target_of(platform: Platform, endpoint: Endpoint, name: str, address: str) -> str:
    others = {one.name: one.example for one in endpoint.params if one.required and one.name != name}
    grouped = {group[0] for group in endpoint.one_of if name not in group}
    others |= {one.name: one.example for one in endpoint.params if one.name in grouped}
    query = "".join(f"&{key}={quote(str(value), safe='')}" for key, value in others.items())
    return f"/v1/{platform.slug}/{endpoint.resource}?{name}={quote(address, safe='')}{query}"


def test_only_web_and_platforms_of_files_have_sources_at_arbitrary_hosts() -> None:
    """A platform with such a source could fetch pages without `upstreams.web.visiting`, the only allowed path."""
    found = set()
    for platform in load_all():
        params = {one.name for endpoint in platform.endpoints for one in (*endpoint.params, *platform.common)}
        found |= {platform.slug for name in platform.sources if platform.host_of(name) not in (None, *params)}
    assert found == {"web", *OF_FILES}


async def test_no_endpoint_with_a_url_fetches_a_forbidden_page(tmp_path: Path) -> None:
    takers = endpoints_with_urls()
    assert {"prism/lookup", "web/scrape", "web/extract", "web/map"} <= {f"{p.slug}/{e.resource}" for p, e, _ in takers}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        node.upstream.script = forbidding(HOST)
        for platform, endpoint, name in takers:
            if platform.slug in OF_FILES:
                continue
            answer = await node.get(target_of(platform, endpoint, name, PAGE))
            assert answer.status >= 400, answer.json
            assert answer.json["credits_used"] == 0
        asked = {one for one in node.upstream.requests if one.startswith(HOST)}
        assert {one for one in asked if not one.startswith(f"{HOST}/api/v")} == {f"{HOST}/robots.txt"}
        assert await node.money() == (CREDITS, 0)


BODIES: Final[dict[str, Any]] = {
    "/v1/web/crawl": {"url": PAGE, "limit": 2},
    "/v1/web/batch-scrape": {"urls": [PAGE]},
    "/v1/web/monitors": {"url": PAGE, "cadence_minutes": 60, "run_now": True},
    "/v1/web/sessions": {"url": PAGE},
    "/v1/prism/post-stats": {"urls": [PAGE]},
    "/v1/prism/profiles": {"urls": [PAGE]},
    "/v1/prism/comment-lookup": {"urls": [PAGE]},
}
"""Every body with the URL of a page. The browser of sessions is unavailable here; `tests/browser` opens one."""


async def test_no_body_with_a_url_fetches_a_forbidden_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, web=DEAD_BROWSER) as node:
        operations = [one for one in node.node.description.reference.offered if not one.is_form]
        taking = {one.path for one in operations if {"url", "urls"} & {field.name for field in one.body}}
        assert {path for path in taking if "{" not in path} == {*BODIES, "/v1/webhooks"}
        node.upstream.script = forbidding(HOST)
        for path, body in BODIES.items():
            answer = await send(node, "POST", path, node.key, body)
            await call_ended(node, answer)
            if path == "/v1/web/monitors":
                place = f"{path}/{answer.json['data']['monitor']['monitor_id']}/checks"
                with trio.fail_after(60):
                    while (await node.get(place)).json["data"]["items"][0]["finished_at"] is None:  # noqa: ASYNC110 - the node's
                        await trio.sleep(0.05)
        asked = {one for one in node.upstream.requests if one.startswith(HOST)}
        assert {one for one in asked if not one.startswith(f"{HOST}/api/v")} == {f"{HOST}/robots.txt"}
        assert await node.money() == (CREDITS, 0)


async def test_search_reads_no_forbidden_result_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        search = "/v1/web/search?query=trio&include_content=true"
        found = (await node.get("/v1/web/search?query=trio")).json["data"]["items"]
        assert found
        engine = {one.partition("/")[0] for one in node.upstream.requests}
        node.upstream.requests.clear()
        node.upstream.script = lambda asked: FORBIDS if asked.endswith("/robots.txt") else None
        assert (await node.get(search)).status == 200
        pages = [one for one in node.upstream.requests if one.partition("/")[0] not in engine]
        assert pages
        assert all(one.endswith("/robots.txt") for one in pages), pages


async def test_lookup_respects_robots_after_trying_servers(tmp_path: Path) -> None:
    """Servers are called through their API. The page itself is forbidden."""
    async with open_test_node(tmp_path) as node:
        for number, path in enumerate(("@ada/5", "@ada", "owner/name", "c/name", "t/topic/5", "w/abc", "a/page.html")):
            host = f"pages{number}.example.org"
            node.upstream.script = forbidding(host)
            answer = await node.get(f"/v1/prism/lookup?url={quote(f'https://{host}/{path}', safe='')}")
            assert f"{host}/{path}" not in node.upstream.requests
            assert (answer.status, answer.json["credits_used"]) == (404, 0), answer.json
            assert answer.json["error"]["details"]["reason"] == "robots_disallowed"
        await node.assert_sound()


@pytest.mark.parametrize("offer", ["/api/oembed?url=x", "https://embeds.example.org/api/oembed?url=x"])
async def test_forbidden_oembed_is_not_fetched_and_the_page_is_read(offer: str, tmp_path: Path) -> None:
    disallowed = HOST if offer.startswith("/") else "embeds.example.org"
    script = forbidding(disallowed, offer=offer.encode())

    def allowing_pages(asked: str) -> ScriptedAnswer | None:
        if asked == f"{HOST}/robots.txt":
            return ScriptedAnswer(200, b"User-agent: *\nDisallow: /api/\n", {"content-type": "text/plain"})
        return script(asked)

    async with open_test_node(tmp_path) as node:
        node.upstream.script = allowing_pages
        answer = await node.get(f"/v1/prism/lookup?url={quote(PAGE, safe='')}")
        assert not [asked for asked in node.upstream.requests if "oembed" in asked]
        assert answer.status == 200, answer.json
        assert answer.json["data"]["resolved"]["platform"] == "web"
        assert answer.json["credits_used"] == 1


async def test_lookup_does_not_follow_redirect_to_a_forbidden_page(tmp_path: Path) -> None:
    script = forbidding("other.example.org")

    def redirecting(asked: str) -> ScriptedAnswer | None:
        if asked == f"{HOST}/a/page.html":
            return ScriptedAnswer(302, b"", {"location": "https://other.example.org/b"})
        return script(asked)

    async with open_test_node(tmp_path) as node:
        node.upstream.script = redirecting
        answer = await node.get(f"/v1/prism/lookup?url={quote(PAGE, safe='')}")
        assert (answer.status, answer.json["error"]["details"]["reason"]) == (404, "robots_disallowed")
        assert "other.example.org/b" not in node.upstream.requests


@pytest.mark.parametrize("sitemap", ["include", "only"])
async def test_map_guesses_no_forbidden_sitemap(sitemap: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.script = forbidding(HOST)
        answer = await node.get(f"/v1/web/map?url={PAGE}&sitemap={sitemap}")
        assert (answer.status, answer.json["error"]["details"]["reason"]) == (404, "robots_disallowed")
        assert node.upstream.requests == [f"{HOST}/robots.txt"]
