"""Source ladders on a whole node: real sockets, real credits, and an upstream that fails as each test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

STORY = "/v1/hackernews/story?id=8863"
ALGOLIA, FIREBASE = "hn.algolia.com", "hacker-news.firebaseio.com"
API, RAW, GRAPHQL = "api.github.com", "raw.githubusercontent.com", "api.github.com/graphql"
REPO = "url=python-trio%2Ftrio"
NO_RETRIES: Mapping[str, object] = {"defaults": {"retries": 0}}
TOKEN: Mapping[str, object] = {"defaults": {"retries": 0}, "github": {"token_env": "TEST_TOKEN"}}
ENVIRON = {"TEST_TOKEN": "a-token-of-tests"}

BROKEN = json_answer({"message": "broken"}, 503)
THROTTLED = json_answer({"message": "slow down"}, 429, retry_after="60")


def where(answers: Mapping[str, ScriptedAnswer]) -> Callable[[str], ScriptedAnswer | None]:
    """Return a script: a request that begins like a key gets its value, any other gets the sandbox's response."""

    def script(asked: str) -> ScriptedAnswer | None:
        return next((answer for begins, answer in answers.items() if asked.startswith(begins)), None)

    return script


def hosts(node: OpenNode) -> list[str]:
    """Return the hosts that were called so far."""
    return [asked.partition("/")[0] for asked in node.upstream.requests]


async def health_of(node: OpenNode, platform: str) -> tuple[str, dict[str, str]]:
    """Return a platform's status on the status page, and the circuit state of each of its sources."""
    answer = await node.get("/v1/status", key=None)
    entry = answer.json["data"]["platforms"][platform]
    return entry["status"], {name: source["circuit"] for name, source in entry["sources"].items()}


async def assert_refunded(node: OpenNode, answer: Answered) -> None:
    """Check that the call cost nothing and that no credits are held."""
    assert answer.json["credits_used"] == 0
    assert await node.net(answer.json["request_id"]) == 0
    await node.assert_sound()


async def test_failed_source_falls_back_at_the_usual_price(tmp_path: Path) -> None:
    failures = (BROKEN, ScriptedAnswer(200, b"<html>Sorry</html>"), ScriptedAnswer(200, b"[1]"), THROTTLED)
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        for number, failure in enumerate(failures, 1):
            node.upstream.script = where({ALGOLIA: failure})
            node.upstream.requests.clear()
            story = f"/v1/hackernews/story?id={number}"
            answer = await node.get(story)
            assert (answer.status, answer.json["credits_used"], answer.json["cached"]) == (200, 1, False)
            assert answer.json["data"]["post"]["id"] == str(number)
            assert hosts(node) == [ALGOLIA, FIREBASE]
            assert await node.net(answer.json["request_id"]) == 1
            assert (await node.get(story)).json["cached"]
        await node.assert_sound()


async def test_open_circuit_is_skipped_and_platform_degraded(tmp_path: Path) -> None:
    breaker = {"failures": 2, "window_s": 60, "open_s": 60}
    async with open_test_node(tmp_path, upstreams=NO_RETRIES, breaker=breaker) as node:
        assert await health_of(node, "hackernews") == ("operational", {"algolia": "closed", "firebase": "closed"})
        assert (await node.get("/v1/hackernews/story?id=404")).code == "RESOURCE_NOT_FOUND"
        assert hosts(node) == [ALGOLIA], "an item that the first source does not have is requested from no other"
        node.upstream.script = where({ALGOLIA: BROKEN})
        node.upstream.requests.clear()
        for story in range(1, 6):
            answer = await node.get(f"/v1/hackernews/story?id={story}")
            assert (answer.status, answer.json["credits_used"]) == (200, 1)
        assert hosts(node).count(ALGOLIA) == 2
        assert await health_of(node, "hackernews") == ("degraded", {"algolia": "open", "firebase": "closed"})
        only_algolia = await node.get("/v1/hackernews/search?query=trio")
        assert (only_algolia.status, only_algolia.code) == (503, "SERVICE_UNAVAILABLE")
        await assert_refunded(node, only_algolia)


async def test_platform_whose_sources_all_fail_is_down_and_refunds(tmp_path: Path) -> None:
    """The rules for the error of several sources are in `tests/upstreams/fetching/test_ladder.py`."""
    breaker = {"failures": 1, "window_s": 60, "open_s": 60}
    async with open_test_node(tmp_path, upstreams=NO_RETRIES, breaker=breaker) as node:
        node.upstream.script = where({ALGOLIA: BROKEN, FIREBASE: BROKEN})
        failed = await node.get(STORY)
        assert (failed.status, failed.code) == (502, "UPSTREAM_ERROR")
        await assert_refunded(node, failed)
        assert (await health_of(node, "hackernews"))[0] == "down"
        refused = await node.get(STORY)
        assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert len(node.upstream.requests) == 2
        await assert_refunded(node, refused)


# All ladders


LADDERS: list[tuple[str, Mapping[str, ScriptedAnswer], str]] = [
    ("/v1/hackernews/story?id=8863", {ALGOLIA: BROKEN}, FIREBASE),
    ("/v1/hackernews/story/comments?id=8863&limit=5", {ALGOLIA: BROKEN}, FIREBASE),
    ("/v1/hackernews/profile?handle=pg", {ALGOLIA: BROKEN}, FIREBASE),
    ("/v1/hackernews/new", {FIREBASE: BROKEN}, ALGOLIA),
    ("/v1/hackernews/new", {f"{FIREBASE}/v0/item": BROKEN}, ALGOLIA),
    ("/v1/hackernews/jobs", {FIREBASE: BROKEN}, ALGOLIA),
    ("/v1/bluesky/profile?handle=ada.bsky.social", {"public.api": BROKEN}, "api.bsky.app"),
    ("/v1/bluesky/user/posts?handle=ada.bsky.social", {"public.api": BROKEN}, "api.bsky.app"),
    ("/v1/bluesky/followers?handle=ada.bsky.social", {"public.api": BROKEN}, "api.bsky.app"),
    ("/v1/bluesky/search/users?query=parsers", {"public.api": BROKEN}, "api.bsky.app"),
    (f"/v1/github/repo/readme?{REPO}", {API: BROKEN}, RAW),
    (f"/v1/github/repo?{REPO}", {f"{API}/repos": BROKEN}, GRAPHQL),
    (f"/v1/github/repo/releases?{REPO}", {f"{API}/repos": BROKEN}, GRAPHQL),
    ("/v1/github/profile?handle=octocat", {f"{API}/users": BROKEN}, GRAPHQL),
    ("/v1/github/issue?url=https%3A%2F%2Fgithub.com%2Fada%2Fproject%2Fissues%2F7", {f"{API}/repos": BROKEN}, GRAPHQL),
]


async def test_every_ladder_falls_back_over_sockets(tmp_path: Path) -> None:
    tables: dict[str, Any] = {"cache": {"max_bytes": 0}, "breaker": {"failures": 100}}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=TOKEN, **tables) as node:
        for target, failing, asked in LADDERS:
            node.upstream.script = where({})
            whole = await node.get(target)
            node.upstream.script = where(failing)
            node.upstream.requests.clear()
            fallback = await node.get(target)
            assert (whole.status, fallback.status) == (200, 200), (target, fallback.body)
            assert fallback.json["credits_used"] == whole.json["credits_used"]
            assert node.upstream.requests[-1].startswith(asked), target
            if "pagination" in whole.json:
                assert ids_of(fallback.json["data"]) == ids_of(whole.json["data"])
        await node.assert_sound()


def ids_of(data: dict[str, Any]) -> list[str]:
    """Return the ids of the rows, whatever kind of record they have."""
    return [next(iter(item.values()))["id"] for item in data["items"]]


async def test_list_stays_with_the_source_of_its_first_page(tmp_path: Path) -> None:
    """Method: Firebase fails for the first page only; the following pages still come from Algolia."""
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = where({FIREBASE: BROKEN})
        answer = await node.get("/v1/hackernews/new")
        node.upstream.script = where({})
        seen = ids_of(answer.json["data"])
        while (cursor := answer.json["pagination"]["next_cursor"]) is not None:
            answer = await node.get(f"/v1/hackernews/new?cursor={cursor}")
            assert answer.status == 200
            seen += ids_of(answer.json["data"])
        assert len(seen) == len(set(seen)) == 44
        assert hosts(node) == [FIREBASE, *[ALGOLIA] * 3]


async def test_composite_names_the_fallback_of_a_part(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=TOKEN) as node:
        node.upstream.script = where({f"{API}/repos/python-trio/trio/re": BROKEN})  # readme and releases
        answer = await node.get(f"/v1/github/repo/dossier?{REPO}")
        assert (answer.status, answer.json["credits_used"]) == (200, 5)
        legs = {leg["endpoint"]: leg for leg in answer.json["data"]["legs"]}
        assert {name: (leg["source"], leg["rung"], leg["rung_index"]) for name, leg in legs.items()} == {
            "github/repo": ("api", "primary", 0),
            "github/repo/readme": ("raw", "fallback", 1),
            "github/repo/releases": ("graphql", "fallback", 1),
            "github/repo/top-issues": ("search", "primary", 0),
        }
        assert {leg["status"] for leg in legs.values()} == {"ok"}
        assert len(answer.json["data"]["releases"]) == 5
        await node.assert_sound()


async def test_guide_lists_sources_in_order(tmp_path: Path) -> None:
    sources = {
        "hackernews/story": "algolia, firebase",
        "hackernews/new": "firebase, algolia",
        "bluesky/followers": "appview, appview-direct",
        "github/repo/readme": "api, raw",
        "github/repo": "api, graphql",
    }
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=TOKEN) as node:
        for endpoint, names in sources.items():
            guide = (await node.get(f"/v1/utility/endpoint?id={endpoint}")).json["data"]
            _, _, listed = guide["description"].partition("each tried if the previous ones fail: ")
            assert listed.startswith(f"{names}."), endpoint
        without = await node.get("/v1/utility/endpoint?id=hackernews/search")
        assert "the previous ones fail" not in without.json["data"]["description"]
