"""Empty lists are answered with 200 and cost nothing, at every endpoint that may have no results (spec 2.4, 7.3)."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cases.paid_calls import DEAD_BROWSER, PARSE, ended, paid_routes, send_paid
from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS, SOME_ROWS, Row
from upstreams.composites import with_composites
from upstreams.model.archetypes import Archetype
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args
from upstreams.model.steps import Call, Page, Single, Steps
from upstreams.platforms import load_platforms

pytestmark = pytest.mark.critical

COMPOSITES = {
    "search/everywhere",
    "prism/mentions",
    "prism/brand-mentions",
    "prism/crisis-radar",
    "prism/campaign",
    "prism/launch-echo",
    "prism/audience-questions",
    "prism/leads",
    "prism/comments",
    "prism/voice",
    "prism/org-radar",
    "prism/app-reviews",
    "hackernews/omni-search",
    "lemmy/omni-search",
    "discourse/omni-search",
}
"""Composites that are empty if every list of every platform is empty."""
NAMED: dict[str, dict[str, object]] = {"prism/app-reviews": {"query": None, "app_store_id": "284882215"}}
"""Replacements for example parameters that depend on a search."""


def can_be_empty(archetype: Archetype) -> bool:
    return archetype.many or bool(archetype.findings)


def _no_rows(_args: Args) -> Steps:
    yield Call("/nothing")
    return Page([])


def _no_findings(archetype: Archetype, _args: Args) -> Steps:
    yield Call("/nothing")
    return Single(archetype.make(**dict.fromkeys(signature(archetype.make).parameters)))


def emptied(platform: Platform) -> Platform:
    """Return the platform with all of its lists empty."""
    if platform.open_web:
        return platform
    return replace(platform, endpoints=tuple(_emptied(one) for one in platform.endpoints))


def _emptied(endpoint: Endpoint) -> Endpoint:
    archetype = endpoint.archetype
    if archetype.many:
        return replace(endpoint, read=_no_rows, fallbacks=())
    if archetype.findings:
        return replace(endpoint, read=lambda args: _no_findings(archetype, args), fallbacks=())
    return endpoint


def is_empty(row: Row, answer: Answered) -> bool:
    data = answer.json["data"]
    return not data["items"] if row.endpoint.archetype.many else row.endpoint.archetype.found_nothing(data)


def is_plain(row: Row) -> bool:
    archetype = row.endpoint.archetype
    return can_be_empty(archetype) and not (row.platform.open_web or archetype.has_legs)


async def test_every_empty_list_of_every_platform_is_free(tmp_path: Path) -> None:
    rows = list(filter(is_plain, SOME_ROWS))
    only = tuple(map(emptied, {row.platform.slug: row.platform for row in ROWS}.values()))
    assert len(list(filter(is_plain, ROWS))) > 100
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, only=only) as node:
        node.upstream.always(json_answer({}))
        wrong = []
        for row in rows:
            answer = await node.get(row.target())
            if answer.status != 200 or answer.json["credits_used"] or answer.headers["x-credits-used"] != "0":
                wrong.append((row.id, answer.status, answer.body[:300]))
        assert wrong == []
        assert await node.money() == (CREDITS, 0)
        await node.assert_sound()


async def test_every_composite_without_results_is_free(tmp_path: Path) -> None:
    only = with_composites(map(emptied, load_platforms()))
    rows = [Row(platform, one) for platform in only for one in platform.endpoints]
    rows = [row for row in rows if can_be_empty(row.endpoint.archetype) and row.endpoint.archetype.has_legs]
    free, paid = set(), list[str]()
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, only=only) as node:
        node.upstream.script = lambda asked: json_answer({}) if asked.endswith("/nothing") else None
        for row in rows:
            answer = await node.get(row.target(**NAMED.get(row.id, {})))
            assert answer.status == 200, (row.id, answer.body)
            if not is_empty(row, answer):
                assert answer.json["credits_used"] > 0, row.id
                continue
            free.add(row.id)
            if answer.json["credits_used"] or any(leg["credits_used"] for leg in answer.json["data"]["legs"]):
                paid.append(row.id)
            assert await node.net(answer.json["request_id"]) == 0, row.id
        await node.assert_sound()
    assert paid == []
    assert free >= COMPOSITES


async def test_real_reads_without_results_are_free(tmp_path: Path) -> None:
    """Check the same with unmodified reads: a search, a walk, a map, and pages after a cursor."""
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        node.upstream.script = _nothing
        for target in (
            "/v1/github/search/repos?query=nothing",
            "/v1/hackernews/search?query=nothing&limit=250",
            "/v1/web/map?url=https%3A%2F%2Fempty.example.org%2F&sitemap=only",
            "/v1/stackexchange/search?query=nothing",
            "/v1/web/search?query=nothing",
        ):
            answer = await node.get(target)
            assert (answer.status, answer.json["data"]["items"], answer.json["credits_used"]) == (200, [], 0), target
            again = await node.get(target)
            assert (again.json["credits_used"], again.json["cached"]) == (0, True), target
            assert await node.net(answer.json["request_id"]) == 0
        await node.assert_sound()
        assert await node.money() == (CREDITS, 0)


def _nothing(asked: str) -> ScriptedAnswer | None:
    if asked.startswith("empty.example.org/"):
        return (
            ScriptedAnswer(404, b"")
            if asked.endswith("robots.txt")
            else ScriptedAnswer(200, _SITEMAP, {"content-type": "text/xml"})
        )
    return json_answer({"items": [], "total_count": 0, "hits": [], "nbHits": 0, "nbPages": 0, "web": {"results": []}})


_SITEMAP = b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"></urlset>'


async def test_every_batch_and_job_without_results_is_free(tmp_path: Path) -> None:
    """The routes come from the declarations. `web/parse` reads the file in the request, and a session has no list."""
    tables: dict[str, Any] = {"web": DEAD_BROWSER, "upstreams": {**CREDENTIALS, "defaults": {"retries": 0}}}
    async with open_test_node(tmp_path, environ=ENVIRON, **tables) as node:
        for path in paid_routes(node) - {PARSE}:
            empty = json_answer({"hits": [], "nbHits": 0, "nbPages": 0, "items": [], "feed": []})
            for nothing in (ScriptedAnswer(404, b""), *([] if path.startswith("/v1/web/") else [empty])):
                answer = await send_paid(node, path, node.key, script=lambda _asked, nothing=nothing: nothing)
                await ended(node, answer)
                assert await node.money() == (CREDITS, 0), (path, answer.body)
                assert answer.json["credits_used"] == 0, path
        await node.assert_sound()


async def test_page_with_rows_after_an_empty_one_is_charged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({"items": [], "total_count": 0}))
        assert (await node.get("/v1/github/search/repos?query=trio")).json["credits_used"] == 0
        node.upstream.always(None)
        answer = await node.get("/v1/github/search/repos?query=trio", headers={"cache-control": "no-cache"})
        assert (answer.json["credits_used"], bool(answer.json["data"]["items"])) == (1, True)
        await node.assert_sound()


async def test_monitor_run_over_an_empty_list_costs_only_its_scheduling(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({"items": [], "total_count": 0}))
        run = await _run_once(node, {"recipe": "github/search/repos", "params": {"query": "nothing"}})
        assert (run["status"], [leg["credits_used"] for leg in run["legs"]]) == ("ok", [0])
        await node.assert_sound()
        assert await node.money() == (CREDITS - 1, 0)


async def _run_once(node: OpenNode, body: dict[str, object]) -> dict[str, object]:
    sent = {"cadence": "daily", "webhook_url": "https://hooks.example.org/x", "run_now": True, **body}
    made = await node.client.post(f"{node.url}/v1/monitors", json=sent, headers={"x-api-key": node.key})
    assert made.status_code == 201, made.text
    target = f"/v1/monitors/{made.json()['monitor']['id']}/runs"
    while True:
        runs = (await node.get(target)).json["data"]["items"]
        if runs and runs[0]["status"] not in ("pending", "running"):
            return runs[0]
        await trio.sleep(0.1)


async def test_guides_state_the_billing_rules_of_their_endpoint(tmp_path: Path) -> None:
    """Each rule must appear exactly where the declaration says that it applies."""
    limits = {"requests_per_minute": 5_000}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS, limits=limits) as node:
        for row in SOME_ROWS:
            answer = await node.get(f"/v1/utility/endpoint?id={row.id}")
            rules = answer.json["data"]["credits"]["billing_rules"]
            archetype = row.endpoint.archetype
            text = " ".join(rules)
            assert "Cache hits cost 0 credits." in rules, row.id
            assert ("An empty list costs 0 credits" in text) == archetype.many, row.id
            assert ("without findings costs 0 credits" in text) == bool(archetype.findings), row.id
            assert ("parts" in text) == archetype.has_legs, row.id
            assert ("page" in text) == (row.endpoint.collect is not None), row.id
