"""Decisions 16: bearer tokens, links, CORS, compression and entity tags, the same on both engines."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import brotli
import pytest

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_refused

PROFILE = "/v1/github/profile?handle=octocat"
SEARCH = "/v1/github/search?query=trio&limit=50"
APP = "https://app.example.com"
BOTH = pytest.mark.parametrize("engine", ["native", "hypercorn"])


async def ask(node: OpenNode, target: str, *lines: str, method: str = "GET") -> Answered:
    return await raw_request(node.url, (f"{method} {target} HTTP/1.1", *lines))


@BOTH
async def test_bearer_token_is_a_key_and_both_headers_are_rejected(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        for scheme in ("Bearer", "bearer", "BEARER "):
            assert (await ask(node, PROFILE, f"authorization: {scheme} {node.key}")).status == 200
        both = (f"authorization: Bearer {node.key}", f"x-api-key: {node.key}")
        assert assert_refused(await ask(node, PROFILE, *both), "INVALID_REQUEST", 400)["param"] == "authorization"
        assert (await ask(node, PROFILE, "authorization: Basic eDp5", f"x-api-key: {node.key}")).status == 200
        for header, code in (
            ("Basic eDp5", "MISSING_API_KEY"),
            ("Bearer", "MISSING_API_KEY"),
            ("Bearer x", "INVALID_API_KEY"),
        ):
            assert_refused(await ask(node, PROFILE, f"authorization: {header}"), code, 401)
        await node.operate("key.revoke", key=node.key_id)
        assert_refused(await ask(node, PROFILE, f"authorization: Bearer {node.key}"), "INVALID_API_KEY", 401)


PREFLIGHT = ("access-control-request-method: POST", "access-control-request-headers: x-api-key")
ALLOW, EXPOSE = "access-control-allow-origin", "access-control-expose-headers"


@BOTH
async def test_allowed_origin_may_call_and_preflight_needs_no_key(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"engine": engine, "cors_origins": [APP]}) as node:
        asked = await ask(node, "/v1/monitors", f"origin: {APP}", *PREFLIGHT, "connection: close", method="OPTIONS")
        assert (asked.status, asked.headers[ALLOW], asked.headers["vary"]) == (204, APP, "origin")
        assert "x-api-key" in asked.headers["access-control-allow-headers"]
        assert "PATCH" in asked.headers["access-control-allow-methods"]
        key = f"x-api-key: {node.key}"
        for target, lines, status in ((PROFILE, (key,), 200), (PROFILE, (), 401), ("/v1/nowhere", (key,), 404)):
            answer = await ask(node, target, f"origin: {APP}", *lines)
            assert (answer.status, answer.headers[ALLOW]) == (status, APP)
            assert "x-credits-used" in answer.headers[EXPOSE]
        for origin in ("https://evil.example", f"{APP}.evil.example", "null"):
            answer = await ask(node, PROFILE, key, f"origin: {origin}")
            assert (answer.status, ALLOW in answer.headers, answer.headers["vary"]) == (200, False, "origin")
            refused = await ask(node, PROFILE, f"origin: {origin}", *PREFLIGHT, method="OPTIONS")
            assert (refused.status, ALLOW in refused.headers, refused.headers["vary"]) == (204, False, "origin")
        without = await ask(node, "/v1/openapi.json")  # browsers cache a page, and may reuse it for another page later
        assert (ALLOW in without.headers, without.headers["vary"]) == (False, "origin")
        assert_refused(await ask(node, PROFILE, key, method="OPTIONS"), "METHOD_NOT_ALLOWED", 405)


async def test_cors_wildcard_allows_every_page_and_default_allows_none(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"cors_origins": ["*"]}) as node:
        answer = await ask(node, PROFILE, f"x-api-key: {node.key}", "origin: null")
        assert (answer.headers[ALLOW], "vary" in answer.headers) == ("*", False)
    async with open_test_node(tmp_path / "closed") as node:
        answer = await ask(node, PROFILE, f"x-api-key: {node.key}", f"origin: {APP}")
        assert (answer.status, ALLOW in answer.headers) == (200, False)
        assert_refused(await ask(node, PROFILE, f"origin: {APP}", *PREFLIGHT, method="OPTIONS"), "MISSING_API_KEY", 401)


def expanded(answer: Answered, coding: str) -> Answered:
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == (coding, "accept-encoding")
    assert int(answer.headers["content-length"]) == len(answer.body)
    unpack = gzip.decompress if coding == "gzip" else brotli.decompress
    return Answered(answer.status, answer.headers, unpack(answer.body))


@BOTH
async def test_long_responses_are_compressed_on_request(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"engine": engine}) as node:
        key = f"x-api-key: {node.key}"
        plain = await ask(node, SEARCH, key)
        assert (plain.headers.get("content-encoding"), plain.headers["cache-control"]) == (None, "private")
        for accepted, coding in (("gzip", "gzip"), ("br", "br"), ("gzip;q=0.1, br", "br"), ("gzip, br", "gzip")):
            answer = expanded(await ask(node, SEARCH, key, f"accept-encoding: {accepted}"), coding)
            assert (answer.json["data"], answer.json["cached"]) == (plain.json["data"], True)
            assert answer.json["request_id"] == answer.headers["x-request-id"]
        short = await ask(node, "/v1/credits/balance", key, "accept-encoding: gzip, br")
        assert "content-encoding" not in short.headers
        page = expanded(await ask(node, "/docs/errors", "accept-encoding: br"), "br")
        assert b"INVALID_REQUEST" in page.body


TAGGED: Mapping[str, str] = {
    "/v1/utility/endpoints?platform=github": "private, no-cache",
    "/v1/utility/endpoint?id=github/profile": "private, no-cache",
    "/": "public, max-age=300",
    "/v1/status": "public, max-age=300",
    "/docs/errors": "public, max-age=300",
    "/docs/events.md": "public, max-age=300",
    "/schemas/Author.json": "public, max-age=300",
    "/llms.txt": "public, max-age=300",
}


async def test_rarely_changing_responses_have_an_etag(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target, caching in TAGGED.items():
            first = await node.get(target)
            assert (first.status, first.headers["cache-control"]) == (200, caching), target
            again = await node.get(target, headers={"if-none-match": f'"other", {first.headers["etag"]}'})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"]), target
            assert (await node.get(target, headers={"if-none-match": '"other"'})).status == 200
        tags = {(await node.get(target)).headers["etag"] for target in TAGGED}
        assert len(tags) == len(TAGGED)


async def test_links_use_the_url_of_a_trusted_proxy(tmp_path: Path) -> None:
    opened = ("x-forwarded-host: api.example.com", "x-forwarded-proto: https")
    async with open_test_node(tmp_path, server={"trusted_proxies": ["127.0.0.1"]}) as node:
        key = f"x-api-key: {node.key}"
        refused = await ask(node, "/v1/nowhere", key, *opened)
        assert refused.json["error"]["doc_url"] == "https://api.example.com/docs/errors#ENDPOINT_NOT_FOUND"
        assert "https://api.example.com/v1/" in (await ask(node, "/llms.txt", *opened)).body.decode()
        polled = (await ask(node, "/v1/events", key, *opened)).json["data"]["next"]["poll_url"]
        assert polled.startswith("https://api.example.com/v1/events?")
    for server in ({}, {"trusted_proxies": ["127.0.0.1"], "base_url": "https://named.example.com"}):
        async with open_test_node(tmp_path / str(len(server)), server=server) as node:
            refused = await ask(node, "/v1/nowhere", f"x-api-key: {node.key}", *opened)
            assert "api.example.com" not in refused.json["error"]["doc_url"]
