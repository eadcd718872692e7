"""Section 4.2, `/v1/status`: public, the state of every platform's circuits (decisions 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.api.routes.status import HOURS
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import json_answer
from tests.spec.records import TIME, assert_shape
from tests.spec.refusals import assert_refused
from upstreams.composites import composite_slugs

TRIPPED = {"upstreams": {"defaults": {"retries": 0}}, "breaker": {"failures": 1, "open_s": 20}}
STATES = {"closed", "half_open", "open"}


async def status(node: OpenNode) -> dict[str, Any]:
    data: dict[str, Any] = (await node.get("/v1/status", key=None)).json["data"]
    return data


async def test_status_is_public(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 1}) as node:
        for key in (None, "", "nonsense"):
            for _ in range(3):
                answer = await node.get("/v1/status", key=key)
                body = answer.json
                assert (answer.status, body["success"], body["platform"]) == (200, True, "utility")
                assert (body["credits_used"], body["credits_remaining"]) == (0, None)
                assert not {"x-ratelimit-limit", "x-credits-remaining"} & answer.headers.keys()
            head = await node.get("/v1/status", key=key, method="HEAD")
            assert (head.status, head.body) == (200, b"")


async def test_status_lists_every_platform_with_its_sources(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        data = await status(node)
        assert data.keys() == {"status", "platforms", "updated_at"}
        assert_shape({"updated_at": data["updated_at"]}, {"updated_at": TIME}, "status", "data")
        listed = (await node.get("/v1/utility/endpoints")).json["data"]["endpoints"]
        priced = {entry["platform"] for entry in listed if entry["credits"]}
        assert data["platforms"].keys() >= priced - {"account"}, "account endpoints have no source"
        for slug, entry in data["platforms"].items():
            assert entry.keys() == {"status", "circuit", "sources"}
            assert entry["sources"] or slug in composite_slugs(), "a composite has only sources of other platforms"
            assert all(source["circuit"] in STATES for source in entry["sources"].values())


async def test_platform_is_degraded_with_one_source_down_and_down_with_all(tmp_path: Path) -> None:
    """GitHub's search is a separate source; the other platform has only one."""
    async with open_test_node(tmp_path, platforms=(ODD,), **TRIPPED) as node:
        assert (await status(node))["status"] == "operational"
        node.upstream.always(json_answer({}, 500))
        for target in ("/v1/github/search?query=a", "/v1/odd/warned"):
            assert (await node.get(target)).status == 502
        data = await status(node)
        assert data["status"] == "degraded"
        shown = {slug: (one["status"], one["circuit"]) for slug, one in data["platforms"].items()}
        assert (shown["github"], shown["odd"]) == (("degraded", "open"), ("down", "open"))
        assert shown["stackexchange"] == ("operational", "closed")


async def test_only_reading_status_needs_no_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert_refused(await node.get("/v1/status", method="POST", key=None), "MISSING_API_KEY", 401)


async def test_status_page_shows_worst_state_of_each_hour(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,), **TRIPPED) as node:
        history = node.node.description.status
        history.check()
        assert history.past()["odd"][-1] == "operational"
        assert history.past()["odd"][:-1] == [None] * (HOURS - 1)
        node.upstream.always(json_answer({}, 500))
        assert (await node.get("/v1/odd/warned")).status == 502
        history.check()
        assert history.past()["odd"][-1] == "down"
        await node.operate("platform.reset", platform="odd")
        history.check()
        assert (await status(node))["platforms"]["odd"]["status"] == "operational"
        assert history.past()["odd"][-1] == "down", "the worst state of the hour"
        page = (await node.get("/status", key=None)).body.decode()
        assert "down in 1 of 1 hours" in page
        assert "| odd | operational |" in (await node.get("/status.md", key=None)).body.decode()
