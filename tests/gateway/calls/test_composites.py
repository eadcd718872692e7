"""Composites: legs with different outcomes, one charge computed from them, and a stream of legs (decisions 14)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.gate.matrix import sample
from tests.gateway.api.routes.asking import all_settled
from tests.gateway.api.test_walks_streamed import events_of
from tests.gateway.calls.crowd import AT_ONCE_MAX, COMMON, crowd
from tests.gateway.calls.test_execute import ask_in_this_task
from upstreams.model.steps import CACHE

HOSTS: Mapping[str, str] = {
    "discourse": "meta.discourse.org",
    "github": "api.github.com",
    "lemmy": "lemmy.world",
    "mastodon": "mastodon.social",
}
SLUGS = ",".join(HOSTS)
FATES: Mapping[str, ScriptedAnswer | None] = {
    "ok": None,
    "gone": json_answer({"error": "x"}, 404),
    "broken": json_answer({"error": "x"}, 500),
    "cut": ScriptedAnswer(200, b'{"x": 1}' * 9, ending="cut"),
    "slow": ScriptedAnswer(delay_s=30.0),
}
STATUSES: Mapping[str, tuple[str, ...]] = {
    "ok": ("ok",),
    "gone": ("not_found",),
    "slow": ("deferred",),
}
"""Expected statuses of a leg by its fate; `failed` for all other fates."""
A_NODE = 5
"""Number of mixes on one node, because Lemmy is limited to six searches a minute."""
CALLS: Mapping[str, tuple[str, int]] = {
    "creator-card": (f"/v1/prism/creator-card?platforms={SLUGS}&handle=ada{{}}", 5),
    "handle-audit": (f"/v1/prism/handle-audit?platforms={SLUGS}&handle=ada{{}}", 5),
    "voice": ("/v1/prism/voice?platforms=discourse,lemmy,mastodon&handle=ada{}", 5),
    "everywhere": (f"/v1/search/everywhere?platforms={SLUGS}&query=trio{{}}", 20),
}
"""Requests that use these hosts, by endpoint, with their fixed prices."""


HURRIED: Mapping[str, Any] = {
    "upstreams": {"defaults": {"retries": 0}},
    "server": {"request_timeout_s": 2},
    "breaker": {"failures": 10_000},
    "limits": {"requests_per_minute": 1_000_000},
}


def fated(fates: Mapping[str, str]) -> Any:
    """Return a script that assigns a fate to each platform's host."""
    by_host = {HOSTS[slug]: FATES[fate] for slug, fate in fates.items()}
    return lambda asked: by_host.get(asked.partition("/")[0])


async def assert_billed(node: OpenNode, answer: Answered) -> list[dict[str, Any]]:
    """Check that the ledger charged the response's cost and refunded the rest, and that the legs add up to it."""
    body = answer.json
    entries = await node.entries(body["request_id"])
    taken = -sum(one["amount"] for one in entries if one["type"] == "deduction")
    refunded = sum(one["amount"] for one in entries if one["type"] == "refund")
    assert taken - refunded == body["credits_used"] == await node.net(body["request_id"])
    assert (await node.money())[1] == 0, "credits are still held"
    if answer.status != 200:
        assert body["credits_used"] == 0
        return []
    legs: list[dict[str, Any]] = body["data"]["legs"]
    assert sum(leg["credits_used"] for leg in legs) == body["credits_used"]
    assert all(leg["credits_used"] == 0 for leg in legs if leg["status"] != "ok" or leg["source"] == CACHE)
    return legs


def expected_cost(price: int, statuses: list[str]) -> int:
    """Return the cost according to decisions 14, computed from the statuses of all legs."""
    counted = [one for one in statuses if one != "unsupported"]
    answered = sum(one in ("ok", "not_found") for one in counted)
    return price if 2 * answered >= len(counted) else price // 2


@cache
def _mixes() -> tuple[dict[str, str], ...]:
    """Return mixes of fates, the same for all tests."""
    found: list[dict[str, str]] = []

    @settings(max_examples=14, deadline=None)
    @given(st.tuples(*(st.sampled_from(sorted(FATES)) for _ in HOSTS)))
    def gather(fates: tuple[str, ...]) -> None:
        found.append(dict(zip(HOSTS, fates, strict=True)))

    gather()
    return tuple(found)


@BRISKLY
@pytest.mark.parametrize("name", CALLS)
async def test_composite_conserves_credits_for_any_leg_outcome(name: str, tmp_path: Path) -> None:
    """Goal: actual + refunded = reserved, and the legs add up to the cost. Method: any mix of four hosts' fates."""
    mixes = sample(_mixes(), share=2)
    for begin in range(0, len(mixes), A_NODE):
        await check_conservation(name, tmp_path, mixes[begin : begin + A_NODE])


async def check_conservation(name: str, folder: Path, mixes: Sequence[Mapping[str, str]]) -> None:
    target, price = CALLS[name]
    async with open_test_node(folder, **HURRIED) as node:
        for round_, fates in enumerate(mixes):
            node.upstream.script = fated(fates)
            answer = await node.get(target.format(round_))
            legs = await assert_billed(node, answer)
            statuses = [leg["status"] for leg in legs]
            if answer.status != 200:
                own = [fate for slug, fate in fates.items() if slug in target]
                assert "ok" not in own, "the composite failed although a leg succeeded"
                assert answer.status == (404 if set(own) == {"gone"} else 502), fates
                continue
            for leg in legs:
                fate = fates[leg["endpoint"].partition("/")[0]]
                assert leg["status"] in STATUSES.get(fate, ("failed",)), fates
            counted = [one for one in statuses if one != "unsupported"]
            answered = sum(one in ("ok", "not_found") for one in counted)
            assert answer.json["data"]["coverage"] == answered / len(counted)
            assert answer.json["data"]["partial_failure"] is (answered < len(counted))
            assert answer.json["credits_used"] == expected_cost(price, statuses), fates
        await node.assert_sound()


MULTI_ROUND: Sequence[tuple[str, int]] = (
    ("/v1/prism/leads?platforms=discourse,github,mastodon&competitor=trio{}", 50),
    ("/v1/prism/crisis-radar?platforms=discourse,github,mastodon&brand=trio{}&confirm=true", 45),
    ("/v1/prism/campaign?platforms=discourse,github,mastodon&phrase=trio{}", 35),
    ("/v1/prism/audience-questions?platforms=discourse,github,mastodon&topic=trio{}", 30),
    ("/v1/prism/mentions?platforms=discourse,github,mastodon&phrase=trio{}", 1),
    ("/v1/prism/org-radar?org=trio{}&repos=3", 16),
    ("/v1/prism/comments?url=https%3A%2F%2Fmastodon.social%2F%40u%2F1{}&max=100", 20),
    ("/v1/mastodon/profile/full?handle=ada{}", 5),
    ("/v1/discourse/omni-search?query=trio{}&threads=3", 5),
)
"""Composites with several rounds or a price range, and their maximum cost."""


@BRISKLY
@pytest.mark.parametrize(("target", "most"), MULTI_ROUND)
async def test_multi_round_composite_conserves_credits(target: str, most: int, tmp_path: Path) -> None:
    """Goal: the ledger charges what the response says, at most the maximum. Method: one mix of fates per call."""
    async with open_test_node(tmp_path, **HURRIED) as node:
        for round_, fates in enumerate(sample(_mixes(), share=2)):
            node.upstream.script = fated(fates)
            answer = await node.get(target.format(round_))
            await assert_billed(node, answer)
            assert 0 <= answer.json["credits_used"] <= most
        await node.assert_sound()


async def test_cached_leg_is_free_marked_and_serves_direct_calls(tmp_path: Path) -> None:
    """Goal: legs and direct calls share cached responses in both directions, also for pages by cursor."""
    async with open_test_node(tmp_path, **HURRIED) as node:
        assert (await node.get("/v1/mastodon/profile?handle=ada")).json["credits_used"] == 1
        answer = await node.get("/v1/prism/creator-card?handle=ada&platforms=lemmy,mastodon")
        legs = await assert_billed(node, answer)
        assert [(leg["source"] == CACHE, leg["credits_used"]) for leg in legs] == [(False, 5), (True, 0)]
        direct = await node.get("/v1/lemmy/profile?handle=ada")
        assert (direct.headers["x-cache"], direct.json["credits_used"]) == ("HIT", 0)
        assert direct.json["data"]["author"] == answer.json["data"]["cards"]["lemmy"]
        made = len(node.upstream.requests)
        again = await node.get("/v1/prism/creator-card?handle=ada&platforms=lemmy,mastodon&include=totals")
        legs = await assert_billed(node, again)
        assert {leg["source"] for leg in legs} == {CACHE}
        assert (again.json["credits_used"], len(node.upstream.requests)) == (0, made)
        voice = (await node.get("/v1/prism/voice?handle=ada&platforms=mastodon")).json["data"]
        page = await node.get("/v1/mastodon/profile/posts?handle=ada&limit=25")
        assert page.headers["x-cache"] == "HIT"
        assert page.json["data"]["items"] == sorted(
            voice["posts_by_platform"]["mastodon"], key=page.json["data"]["items"].index
        )
        cursor = page.json["pagination"]["next_cursor"]
        older = await node.get(f"/v1/mastodon/profile/posts?handle=ada&limit=25&cursor={cursor}")
        assert older.headers["x-cache"] == "MISS"
        received = await node.get(f"/v1/prism/voice?handle=ada&platforms=mastodon&cursor={voice['next_cursor']}")
        assert [leg["source"] for leg in received.json["data"]["legs"]] == [CACHE]
        fresh = await node.get(
            "/v1/prism/creator-card?handle=ada&platforms=lemmy,mastodon", headers={"cache-control": "no-cache"}
        )
        assert CACHE not in {leg["source"] for leg in await assert_billed(node, fresh)}
        assert fresh.json["credits_used"] == 5
        await node.assert_sound()


async def test_concurrent_composites_share_calls_and_run_at_most_fifty_legs_per_key(tmp_path: Path) -> None:
    """Goal: one upstream call for identical legs, and a limit per key. Method: hold the calls of 100 cards."""
    counted = await crowd(tmp_path, 100)
    assert (counted.requests, counted.most_of_a_key) == (100, AT_ONCE_MAX)
    assert counted.legs == 4 * (2 * 40 + COMMON), "a composite shared from another request adds no legs"
    assert counted.paid == 4 * (2 * 20 + COMMON), "identical legs are paid once"
    assert counted.calls == counted.distinct, "an upstream call was repeated"


async def test_stream_sends_each_leg_when_it_ends_then_the_response(tmp_path: Path) -> None:
    """Goal: a leg is sent without waiting for another event. Method: two hosts respond, the other three are slow."""
    async with open_test_node(tmp_path, **HURRIED) as node:
        silent = {"discourse": "slow", "github": "slow", "lemmy": "slow"}
        node.upstream.script = fated(silent)
        target = f"{node.url}/v1/search/everywhere?query=trio&platforms={SLUGS},hackernews"
        headers = {"x-api-key": node.key, "accept": "text/event-stream"}
        received, waiting = b"", list[str]()
        async with node.client.stream("GET", target, headers=headers) as answer:
            async for piece in answer.aiter_raw():
                received += piece
                if not waiting and received.count(b"event: leg") == 2 and received.endswith(b"\n\n"):
                    early = events_of(received)
                    metrics = (await node.client.get(f"{node.admin_url}/metrics")).text
                    waiting = re.findall(r'^sluice_upstream_in_flight\{platform="(\w+)".* 1\.0$', metrics, re.MULTILINE)
        assert {data["leg"]["endpoint"] for _, data in early} == {"mastodon/search", "hackernews/search"}
        assert sorted(waiting) == sorted(silent), "the slow hosts had responded before the first legs were sent"
        *legs, (name, result) = events_of(received)
        assert ([one.name for one in legs], name) == (["leg"] * 5, "result")
        found = {data["leg"]["endpoint"].partition("/")[0]: data["data"] for _, data in legs}
        assert found["mastodon"]["items"] == result["data"]["items_by_source"]["mastodon"]
        statuses = [(leg["endpoint"].partition("/")[0], leg["status"]) for leg in result["data"]["legs"]]
        assert statuses == [(slug, "deferred" if slug in silent else "ok") for slug, _ in statuses]
        assert [found[slug] for slug in silent] == [None] * 3
        assert (result["credits_used"], result["data"]["coverage"]) == (10, 0.4)
        await node.assert_sound()


async def test_client_leaving_after_any_leg_has_its_call_settled(tmp_path: Path) -> None:
    """Goal: credits are used or refunded. Method: disconnect after each number of legs, then check the ledger."""
    async with open_test_node(tmp_path, **HURRIED) as node:
        address, before = urlsplit(node.url), (await node.money())[0]
        for legs, fates in enumerate(({}, {"lemmy": "slow"}, {}, {"lemmy": "broken"}, {})):
            node.upstream.script = fated(fates)
            path = f"/v1/search/everywhere?query=trio{legs}&platforms={SLUGS}"
            head = f"GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {node.key}\r\naccept: text/event-stream\r\n\r\n"
            async with await trio.open_tcp_stream(str(address.hostname), int(address.port or 0)) as stream:
                await stream.send_all(head.encode())
                received = b""
                with trio.fail_after(30):
                    while received.count(b"event: leg") < legs:
                        received += await stream.receive_some()
                    while not node.upstream.requests:  # noqa: ASYNC110 - a request sets no event
                        await trio.sleep(0.001)
            await all_settled(node)
            balance = (await node.money())[0]
            assert before - balance == 20, legs
            before = balance
        await node.assert_sound()


@pytest.mark.parametrize(
    ("target", "cost"),
    [
        (f"/v1/prism/creator-card?platforms={SLUGS}&handle=ada", 5),
        ("/v1/prism/org-radar?org=ada&repos=1", 6),
        ("/v1/prism/comments?url=https%3A%2F%2Flemmy.world%2Fpost%2F1", 2),
        ("/v1/hackernews/omni-search?query=trio&threads=2", 5),
    ],
)
async def test_cancelled_composite_is_recorded_completely_or_not_at_all(target: str, cost: int, tmp_path: Path) -> None:
    """Goal: conservation. Method: cancel the request at each checkpoint, and check the ledger each time."""
    roomy: Any = {"limits": {"requests_per_minute": 1_000_000}, "cache": {"max_bytes": 0}}
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}, **roomy) as node:

        async def check(got_through: bool) -> None:
            await all_settled(node)
            balance = (await node.money())[0]
            assert before[0] - balance in ({cost} if got_through else {0, cost})
            assert node.node.stores.billing.charges.unfinished() == 0
            before[0] = balance

        before = [(await node.money())[0]]
        assert await cancel_everywhere(partial(ask_in_this_task, node, target), check) >= 3
        await node.assert_sound()


async def test_comment_walk_streams_each_page_then_the_whole_response(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **HURRIED) as node:
        target = "/v1/prism/comments?url=https%3A%2F%2Flemmy.world%2Fpost%2F1&max=40"
        answer = await node.get(target, headers={"accept": "text/event-stream"})
        events = events_of(answer.body)
        assert [name for name, _ in events] == ["leg", "page", "result"]
        leg, page, result = (data for _, data in events)
        assert page == {"pages": 1, "items": len(leg["data"]["items"]), "limit": 40}
        assert result["data"]["scanned"] == page["items"]
        assert result["credits_used"] == 2
        assert (await node.get(target)).headers["x-cache"] == "HIT"
        dry = await node.get(target.replace("Fpost%2F1", "Fpost%2F2") + "&dry_run=1")
        assert dry.json["data"] == {"estimated_credits": 2, "would_hit_cache": False, "reserved_credits": 8}
        few, _ = await node.new_key(node.account, credit_limit=2)
        assert (await node.get(target.replace("Fpost%2F1", "Fpost%2F3"), key=few)).json["credits_used"] == 2
        await node.assert_sound()


NOT_SERVED: Mapping[str, str] = {
    "apps-lookup?google_play_id=com.acme": "google_play_id",
    "apps-lookup?title=acme&stores=google_play": "stores",
    "app-reviews?google_play_id=com.acme": "google_play_id",
    "app-reviews?query=acme&stores=google_play": "stores",
    "creator-card?handle=ada&platforms=instagram": "platforms",
    "handle-audit?handle=ada&platforms=twitter,threads": "platforms",
    "voice?handle=ada&platforms=truthsocial": "platforms",
    "mentions?phrase=acme&platforms=reddit": "platforms",
    "brand-mentions?keyword=acme&date_from=2024-06-01&platforms=bluesky,youtube": "platforms",
    "devtool-pulse?query=acme&include=reddit": "include",
    "lookup?url=https://en.wikipedia.org/wiki/Trio": "url",
    "comments?url=https://www.youtube.com/watch?v=aqz-KE-bpKQ": "url",
    "lookup?url=https://news.ycombinator.com/item%3Fid%3D8863&include=transcript": "include",
    "creator-card?handle=ada&platforms=mastodon&verify=true": "verify",
    "creator-card?handle=ada&platforms=mastodon&anchor=mastodon": "anchor",
    "brand-mentions?keyword=acme&date_from=2024-06-01&page_type=news": "page_type",
}
"""Requests that need only missing platforms or credentials, and parameters that no node supports.

The value is the parameter that the error names.
"""


async def test_wrong_or_unavailable_platforms_return_400_for_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **HURRIED) as node:
        unknown = await node.get("/v1/prism/creator-card?handle=ada&platforms=lemmy,mastadon")
        assert (unknown.status, unknown.json["credits_used"]) == (400, 0)
        assert "did you mean mastodon?" in unknown.json["error"]["message"]
        many = ",".join(("bluesky", "discourse", "github", "gitlab", "hackernews", "lemmy", "mastodon", "peertube"))
        too_many = await node.get(f"/v1/prism/handle-audit?handle=ada&platforms={many},telegram")
        assert (too_many.status, too_many.json["error"]["details"]["param"]) == (400, "platforms")
        for target, param in NOT_SERVED.items():
            answer = await node.get(f"/v1/prism/{target}")
            details = answer.json["error"].get("details", {})
            outcome = (answer.status, details.get("param"), details.get("reason"), answer.json["credits_used"])
            assert outcome == (400, param, "capability_missing", 0), (target, answer.json)
        assert (await node.money(), node.upstream.requests) == ((100_000, 0), [])
