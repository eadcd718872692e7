"""A node with the sandbox: composites run without the pauses that real platforms need."""

from __future__ import annotations

from pathlib import Path

import trio

from gateway.node.serve import open_sandbox
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from upstreams.sandbox.app import Behaviour

SEARCHES = 7
"""Lemmy allows six searches a minute and one more after ten seconds."""


async def searched_s(node: OpenNode) -> float:
    """Return how many seconds this number of Lemmy searches took, one after the other."""
    began = trio.current_time()
    for number in range(SEARCHES):
        answer = await node.get(f"/v1/lemmy/search?query=trio{number}")
        assert answer.status == 200, answer.body
    return trio.current_time() - began


async def test_sandbox_calls_are_not_limited_to_the_platforms_pace(tmp_path: Path) -> None:
    async with open_sandbox(Behaviour()) as address, open_test_node(tmp_path, sandbox=address) as node:
        assert await searched_s(node) < 10


@BRISKLY
async def test_upstream_other_than_the_sandbox_is_called_at_the_platforms_pace(tmp_path: Path) -> None:
    """Goal: only the sandbox is not paced. Method: the same searches through another egress."""
    async with open_test_node(tmp_path) as node:
        assert await searched_s(node) >= 9


WORDS = {
    "mentions?phrase=trio": ("items",),
    "brand-mentions?keyword=trio&date_from=2026-01-01": ("mentions", "recent_mentions", "top_sites"),
    "crisis-radar?brand=trio": ("daily_series", "alert_level"),
    "campaign?phrase=trio": ("lift_percent", "amplifiers"),
    "devtool-pulse?query=trio": ("score", "top_threads"),
    "launch-echo?query=trio": ("stories", "blogs", "comments"),
    "audience-questions?topic=trio": ("questions",),
    "leads?competitor=trio": ("leads",),
}


async def test_word_composites_have_results_in_the_sandbox(tmp_path: Path) -> None:
    """Goal: a trial of a composite returns results. Method: they contain the query's words, in the requested dates."""
    async with open_sandbox(Behaviour()) as address, open_test_node(tmp_path, sandbox=address) as node:
        for target, numbers in WORDS.items():
            answer = await node.get(f"/v1/prism/{target}")
            assert answer.status == 200, answer.body
            assert all(answer.json["data"][name] for name in numbers), answer.json["data"]
            late = [leg for leg in answer.json["data"].get("legs", ()) if leg["status"] in ("deferred", "failed")]
            assert late == [], target


def addresses(count: int) -> list[str]:
    """Return URLs of posts on every platform that reads posts by URL, in rotation."""
    forms = (
        "https://news.ycombinator.com/item?id={}",
        "https://bsky.app/profile/ada.example.com/post/3l{}",
        "https://bsky.app/profile/did:plc:ada{}/post/3lk{}",
        "https://mastodon.social/@ada/1000{}",
        "https://lemmy.world/post/{}",
        "https://stackoverflow.com/q/{}",
        "https://github.com/python-trio/trio/issues/{}",
        "https://gitlab.com/gitlab-org/gitlab/-/issues/{}",
        "https://meta.discourse.org/t/{}",
        "https://framatube.org/w/kkGMgK9ZtnKfYAgnEt{:04}",
        "https://t.me/durov/{}",
        "https://www.youtube.com/watch?v=video{:06}",
    )
    return [forms[place % len(forms)].format(1_000 + place, place) for place in range(count)]


async def test_hundred_mixed_urls_are_read_from_the_sandbox(tmp_path: Path) -> None:
    """Goal: all rows are found, with the upstreams' batch calls. Method: twelve kinds of URLs in rotation."""
    keys = {"upstreams": {"youtube": {"key_env": "TEST_KEY"}, "github": {"token_env": "TEST_KEY"}}}
    async with (
        open_sandbox(Behaviour()) as address,
        open_test_node(tmp_path, sandbox=address, environ={"TEST_KEY": "a-key"}, **keys) as node,
    ):
        answer = await node.client.post(
            f"{node.url}/v1/prism/post-stats", json={"urls": addresses(100)}, headers={"x-api-key": node.key}
        )
        data = answer.json()["data"]
        assert [(row["platform"], row["status"]) for row in data["results"] if row["status"] != "ok"] == []
        assert data["summary"]["credits_charged"] == 100
        many = {leg["endpoint"].partition("/")[0]: leg["rows"] for leg in data["legs"] if leg["rows"] > 1}
        assert many == {"bluesky": 18, "github": 8, "stackexchange": 8, "youtube": 8}
        accounts = ["ada.example.com", "did:plc:ada", "missing.example.com"]
        items = [{"platform": "bluesky", "handle": one} for one in accounts]
        response = await node.client.post(
            f"{node.url}/v1/prism/profiles", json={"items": items}, headers={"x-api-key": node.key}
        )
        assert [row["status"] for row in response.json()["data"]["results"]] == ["ok", "ok", "not_found"]
        for path, ids in (
            ("videos", ["video000001", "missing0001"]),
            ("channels", [f"UC{place:022}" for place in range(3)]),
        ):
            body = {"ids": ids}
            read = await node.client.post(f"{node.url}/v1/youtube/{path}", json=body, headers={"x-api-key": node.key})
            statuses = [row["status"] for row in read.json()["data"]["results"]]
            assert statuses == ["not_found" if "missing" in one else "ok" for one in ids]
        await node.assert_sound()
