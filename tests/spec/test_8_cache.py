"""Section 8 and decisions 8, the cache: stored responses, their sharing, hits, and exceptions."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.rows import ROWS, Row
from tests.spec.shared_node import check_cases

PROFILE = "/v1/github/profile?handle=octocat"
SEARCH = "/v1/github/search?query=trio"
NO_CACHE = {"cache-control": "no-cache"}
TTL_S = {
    120: {"app-search", "top", "new", "best", "ask", "show", "jobs"},
    300: {"app-reviews", "app/reviews"},
    900: {"app-info", "app", "podcasts/show"},
    1_800: {"app-list", "charts", "charts/episodes", "web/scrape", "web/map", "web/extract"},
}
"""Resources, some with a platform, whose TTL follows neither from their first word nor from their archetype."""
OF_COMPOSITES = {
    **dict.fromkeys(("lookup", "voice"), 600),
    **dict.fromkeys(("creator-card", "profile/full"), 900),
    **dict.fromkeys(("comments", "app-reviews"), 300),
    **dict.fromkeys(("everywhere", "omni-search", "mentions"), 120),
}
"""Composites in section 0 of their table. All other composites are cached for half an hour."""
TTL_S_OF = {
    **dict.fromkeys(("SearchResult", "NewsArticleList"), 120),
    **dict.fromkeys(("CommentList", "ReviewList"), 300),
    **dict.fromkeys(("Author", "App"), 900),
    **dict.fromkeys(("Analytics", "Audience", "Series"), 1_800),
}


OF_KIND = {"profile": 900, "post": 600, "comments": 300, "search": 120, "analytics": 1_800}
"""The TTL of each kind (decisions 8), for later endpoints and archetypes that declare one."""


def due_s(row: Row) -> int:
    """Return the TTL of a kind: searches and rankings, comments, profiles, numbers; everything else is like posts."""
    resource, archetype = row.endpoint.resource, row.endpoint.archetype
    if row.platform.slug == "prism" or resource in OF_COMPOSITES:
        return OF_COMPOSITES.get(resource, 1_800)
    by_name = {name: ttl_s for ttl_s, names in TTL_S.items() for name in names}
    if (row.id in by_name or resource in by_name) and archetype.name not in TTL_S_OF:
        return by_name.get(row.id, by_name.get(resource, 0))
    if row.endpoint.kind is not None:
        return OF_KIND[row.endpoint.kind]
    if archetype.name not in ("CommentList", "ReviewList") and resource.startswith("search"):
        return 120
    return TTL_S_OF.get(archetype.name, OF_KIND[archetype.kind])


def test_endpoints_are_cached_for_the_ttl_of_their_kind() -> None:
    """`test_2_4_guide.py` checks that the guide has the same number."""
    assert {row.id: row.endpoint.cache_ttl_s for row in ROWS} == {row.id: due_s(row) for row in ROWS}


async def test_hit_repeats_response_bytes_except_variable_fields(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in (PROFILE, SEARCH, "/v1/github/user/profile-velocity?handle=hubot"):
            first, hit = await node.get(target), await node.get(target)
            body, again = first.json, hit.json
            expected = first.body
            for old, new in (
                (b'"credits_used":%d' % body["credits_used"], b'"credits_used":0'),
                (body["request_id"].encode(), again["request_id"].encode()),
                (b'"cached":false', b'"cached":true'),
            ):
                assert expected.count(old) == 1
                expected = expected.replace(old, new)
            assert hit.body == expected
            assert (hit.headers["x-cache"], hit.headers["x-credits-used"]) == ("HIT", "0")
            assert first.headers["x-cache"] == "MISS"


async def test_spellings_of_a_request_share_one_entry(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get(f"{SEARCH}&limit=5")).json["cached"] is False
        for same in (
            "/v1/github/search?limit=5&query=trio",
            "/v1/github/search?query=%74rio&limit=5",
            "/v1/github/search?query=trio&limit=05",
            "/v1/github/search?query=trio&limit=5&sort=&cursor=",
            "/v1/github/search?query=trio&limit=5&max_credits=0",
        ):
            assert (await node.get(same)).json["cached"] is True, same
        for other in (SEARCH, f"{SEARCH}&limit=6", f"{SEARCH}&limit=5&sort=created", "/v1/github/search?query=Trio"):
            assert (await node.get(other)).json["cached"] is False, other


async def test_each_list_page_has_its_own_entry(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        first = (await node.get(f"{SEARCH}&limit=3")).json
        second = f"{SEARCH}&limit=3&cursor={first['pagination']['next_cursor']}"
        assert [(await node.get(second)).json["cached"] for _ in range(2)] == [False, True]
        assert (await node.get(second)).json["data"] != first["data"]


async def test_refresh_is_billed_stored_and_served_to_other_accounts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        stranger, _ = await node.new_key(await node.new_account(0))
        for login, value in (("old", "no-cache"), ("new", "No-Cache"), ("newer", "max-age=0, no-cache")):
            node.upstream.always(json_answer({"id": 1, "login": login}))
            fresh = await node.get(PROFILE, headers={"cache-control": value})
            assert (fresh.headers["x-cache"], fresh.json["credits_used"]) == ("MISS", 1)
            hit = await node.get(PROFILE, key=stranger)
            assert hit.json["data"]["author"]["username"] == login
            assert (hit.json["cached"], hit.json["credits_remaining"]) == (True, 0)
        for other in ("max-age=0", "no-store", "only-if-cached", "public"):
            assert (await node.get(PROFILE, headers={"cache-control": other})).json["cached"] is True


FAILURES = {
    "a 404": json_answer({}, 404),
    "an empty body": ScriptedAnswer(200, b""),
    "an empty object": json_answer({}),
    "a 500": json_answer({}, 500),
    "HTML": ScriptedAnswer(200, b"<html>"),
    "a throttling response": json_answer({}, 429, retry_after="0"),
}
"""The throttling response is last, because it pauses the source."""


async def test_failures_are_not_cached(tmp_path: Path) -> None:
    await check_cases(FAILURES, _failure_is_not_cached, tmp_path, upstreams={"defaults": {"retries": 0}})


async def _failure_is_not_cached(node: OpenNode, answer: ScriptedAnswer) -> None:
    node.upstream.always(answer)
    refused = await node.get(PROFILE)
    assert refused.status >= 400
    assert len(node.upstream.requests) == 1
    assert "x-cache" not in refused.headers
    assert (await node.get(f"{PROFILE}&dry_run=1")).json["data"]["would_hit_cache"] is False


async def test_response_with_warnings_is_billed_each_time_and_not_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        for spent in (1, 2, 3):
            answer = await node.get("/v1/odd/warned")
            assert (answer.json["cached"], answer.json["credits_used"]) == (False, 1)
            assert answer.json["data"]["_warnings"]
            assert await node.money() == (100_000 - spent, 0)


async def test_empty_list_is_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({"total_count": 0, "incomplete_results": False, "items": []}))
        assert [(await node.get(SEARCH)).json["cached"] for _ in range(2)] == [False, True]


async def test_free_reads_are_not_cached_and_have_no_cache_header(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in ("/v1/credits/balance", "/v1/credits/transactions", "/v1/utility/endpoints"):
            for _ in range(2):
                answer = await node.get(target)
                assert (answer.json["cached"], answer.headers["x-credits-used"]) == (False, "0")
                assert "x-cache" not in answer.headers
