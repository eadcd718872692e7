"""Cohorts over HTTP, on a whole node whose egress leads to a simulated Bluesky (spec 4.6, 7.2; decisions 14 and 20)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from scheduler.jobs.cohorts import results, spec
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.panel import DAY_S, Panel, iso_at
from tests.gateway.api.routes.asking import answered
from tests.spec.refusals import assert_refused

NOW = time.time()
QUERY = {
    "keywords": ["Acme", "東京"],
    "date_from": iso_at(NOW - 30 * DAY_S),
    "max_credits": 1_000,
    "max_items_per_identity": 100,
    "max_pages_per_identity": 3,
}


def posts(*texts: str, days: float = 1.0) -> list[tuple[str, float]]:
    """Return posts with these texts, `days` apart, newest first."""
    return [(text, NOW - (place + 1) * days * DAY_S) for place, text in enumerate(texts)]


ADA = posts("Acme is here", "nothing", "in 東京都 we met ACME's people", "acmecorp is another")
BOB = posts(*(f"post {place} of #acme" for place in range(25)), days=0.1)
EVE = posts(*("acme, long ago",) * 30, days=2.0)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(
        tmp_path, credits=5_000, breaker={"failures": 10_000}, upstreams={"defaults": {"retries": 0}}
    ) as opened:
        opened.upstream.script = Panel(
            {"ada.test": ADA, "bob.test": BOB, "eve.test": EVE}, broken=frozenset(("down.test",))
        )
        yield opened
        await opened.assert_sound()


async def ask(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> tuple[int, Any]:
    answer = await answered(node, method, target, body, **headers)
    if answer.status_code < 300:
        assert answer.headers["cache-control"] == "private, no-store"
    return answer.status_code, answer.json() if answer.content else None


async def sent(node: OpenNode, method: str, target: str, body: object = None, key: str = "") -> Answered:
    """Return a response of any status."""
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(
        method, node.url + target, headers={"x-api-key": key or node.key}, content=content
    )
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def make(node: OpenNode, *handles: str, **fields: Any) -> str:
    """Create a cohort with these members and return its id."""
    status, made = await ask(node, "POST", "/v1/cohorts", fields)
    assert status == 201, made
    cohort = str(made["data"]["id"])
    if handles:
        members = [{"platform": "bluesky", "handle": one, "external_id": f"id-{one}"} for one in handles]
        status, put = await ask(node, "PUT", f"/v1/cohorts/{cohort}/members", {"members": members})
        assert (status, put["data"]["inserted"]) == (200, len(handles)), put
    return cohort


async def ended(node: OpenNode, query: str) -> Any:
    """Return the query after it has ended."""
    while True:
        _, answer = await ask(node, "GET", f"/v1/cohort-queries/{query}")
        if answer["data"]["finished_at"] is not None:
            return answer["data"]
        await trio.sleep(0.05)


async def results_of(node: OpenNode, query: str, limit: int = 100) -> tuple[list[Any], list[Any]]:
    """Return all items and all coverage entries of a query, read page by page."""
    items, coverage, cursor = list[Any](), list[Any](), ""
    while True:
        status, page = await ask(node, "GET", f"/v1/cohort-queries/{query}/results?limit={limit}{cursor}")
        assert status == 200, page
        items += page["data"]["items"]
        coverage += page["data"]["coverage"]
        assert len(page["data"]["items"]) + len(page["data"]["coverage"]) <= limit
        if not page["pagination"]["has_more"]:
            return items, coverage
        cursor = f"&cursor={page['pagination']['next_cursor']}"


async def test_cohort_lifecycle_from_creation_to_results(node: OpenNode) -> None:
    cohort = await make(node, "ada.test", "bob.test", "eve.test", "gone.test", "down.test", name="Panel")
    status, shown = await ask(node, "GET", f"/v1/cohorts/{cohort}")
    data = shown["data"]
    assert (status, data["name"], data["member_count"], data["retention_days"]) == (200, "Panel", 5, 30)
    assert "ada" not in orjson.dumps(shown).decode()
    status, priced = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries?dry_run=1", QUERY)
    assert (status, priced["data"]["estimated_credits"]) == (200, 15)
    status, begun = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
    query = begun["data"]
    assert (status, query["reserved_credits"], query["member_count"], query["shard_count"]) == (202, 15, 5, 1)
    assert query["status_url"] == f"{node.url}/v1/cohort-queries/{query['query_id']}"
    done = await ended(node, query["query_id"])
    # ada has one page, bob three, and eve two until posts of 32 days ago.
    assert (done["status"], done["actual_credits"], done["refunded_credits"]) == ("succeeded", 6, 9)
    progress = {name: value for name, value in done["progress"].items() if value}
    assert progress == {
        "shards_total": 1, "shards_completed": 1, "members_total": 5, "members_completed": 5, "routes_planned": 5,
        "routes_completed": 5, "pages_succeeded": 6, "pages_failed": 1, "matches": 2 + 25 + 15,
    }  # fmt: skip
    items, coverage = await results_of(node, query["query_id"])
    ada = [one for one in items if one["external_id"] == "id-ada.test"]
    assert [(one["content_id"], one["matched_keywords"], one["text_excerpt"]) for one in ada] == [
        ("ada-0", ["acme"], "Acme is here"),
        ("ada-2", ["acme", "東京"], "in 東京都 we met ACME's people"),
    ]
    assert {one["route"] for one in items} == {"bluesky/user/posts"}
    summary = {
        one["external_id"]: (one["status"], one["window_complete"], one["pages"], one["route_errors"])
        for one in coverage
    }
    failed = [{"route": "bluesky/user/posts", "code": "UPSTREAM_ERROR"}]
    gone = [{"route": "bluesky/user/posts", "code": "RESOURCE_NOT_FOUND"}]
    assert summary == {
        "id-ada.test": ("complete", True, 1, []),
        "id-bob.test": ("complete", True, 3, []),
        "id-eve.test": ("complete", True, 2, []),
        "id-gone.test": ("not_found", False, 0, gone),
        "id-down.test": ("failed", False, 0, failed),
    }
    for limit in (1, 3, 7):
        assert await results_of(node, query["query_id"], limit) == (items, coverage)
    moved = (await node.get("/v1/credits/transactions")).json["data"]["items"][:2]
    assert [(one["type"], one["amount"]) for one in moved] == [("refund", 9), ("deduction", -15)]
    assert {one["endpoint"] for one in moved} == {"/v1/cohorts/{cohort_id}/queries"}


async def test_query_caps_limit_reads_and_results_per_member(node: OpenNode) -> None:
    cohort = await make(node, "bob.test")
    for changed, count, pages in (
        ({"max_items_per_identity": 4}, 4, 1),
        ({"max_pages_per_identity": 2}, 20, 2),
        ({"date_to": iso_at(NOW - 2.05 * DAY_S)}, 5, 3),
    ):
        _, begun = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", {**QUERY, **changed})
        done = await ended(node, begun["data"]["query_id"])
        items, (bob,) = await results_of(node, done["id"])
        assert (len(items), done["result_count"], bob["pages"]) == (count, count, pages), changed
        is_whole = "date_to" in changed
        assert (bob["status"], bob["window_complete"]) == ("complete" if is_whole else "partial", is_whole)


async def test_members_are_added_once_and_their_external_ids_set_once(node: OpenNode) -> None:
    cohort = await make(node)
    place = f"/v1/cohorts/{cohort}/members"

    async def put(*members: dict[str, Any]) -> tuple[int, Any]:
        return await ask(node, "PUT", place, {"members": [{"platform": "bluesky", **one} for one in members]})

    ada, bob = {"handle": "ada.test"}, {"handle": "bob.test", "external_id": "b"}
    assert (await put(ada, bob, {"handle": "@ADA.test"}))[1]["data"] == {
        "inserted": 2, "updated": 0, "unchanged": 1, "member_count": 2,
    }  # fmt: skip
    _, named = await put({**ada, "external_id": "a"}, {"handle": "Bob.test"})
    assert named["data"] == {"inserted": 0, "updated": 1, "unchanged": 1, "member_count": 2}
    status, refused = await put({"handle": "new.test"}, {**ada, "external_id": "other"})
    assert (status, refused["error"]["type"]) == (409, "COHORT_IDENTITY_CONFLICT")
    assert refused["error"]["details"]["param"] == "members[1]"
    status, refused = await put({"handle": "x.test", "external_id": "1"}, {"handle": "X.test", "external_id": "2"})
    assert (status, refused["error"]["details"]["param"]) == (409, "members[1]")
    _, shown = await ask(node, "GET", f"/v1/cohorts/{cohort}")
    assert shown["data"]["member_count"] == 2, "a rejected call adds no members"


SPELLINGS = {
    "bluesky": ("bsky.app", "@BSKY.app", "https://bsky.app/profile/bsky.app"),
    "discourse": ("codinghorror", "https://meta.discourse.org/u/codinghorror/summary", "@CodingHorror"),
    "lemmy": ("dessalines@lemmy.ml", "https://lemmy.ml/u/Dessalines", "@dessalines@lemmy.ml"),
    "mastodon": ("@Gargron@mastodon.social", "https://mastodon.social/@Gargron", "gargron", "Gargron@mastodon.social"),
    "peertube": ("framasoft@framatube.org", "https://framatube.org/a/framasoft", "framasoft"),
    "stackexchange": ("22656", "https://stackoverflow.com/users/22656/jon-skeet"),
    "telegram": ("durov", "t.me/durov", "https://telegram.me/s/Durov", "@durov"),
    "youtube": ("UCHnyfMqiRRG1u-2MsSQLbXA", "https://www.youtube.com/channel/UCHnyfMqiRRG1u-2MsSQLbXA"),
}


async def test_equivalent_handles_are_one_member_and_hosts_separate_them(node: OpenNode) -> None:
    for platform, handles in SPELLINGS.items():
        place = f"/v1/cohorts/{await make(node)}/members"
        members = [{"platform": platform, "handle": one} for one in handles]
        _, put = await ask(node, "PUT", place, {"members": members})
        assert (put["data"]["inserted"], put["data"]["unchanged"]) == (1, len(members) - 1), platform
        named = {**members[0], "external_id": "a"}
        assert (await ask(node, "PUT", place, {"members": [named]}))[1]["data"]["updated"] == 1
        for one in members[1:]:
            status, refused = await ask(node, "PUT", place, {"members": [{**one, "external_id": "b"}]})
            assert (status, refused["error"]["type"]) == (409, "COHORT_IDENTITY_CONFLICT"), one
    for platform, here, there in ON_TWO_HOSTS:
        members = [{"platform": platform, "handle": one} for one in (here, there)]
        _, put = await ask(node, "PUT", f"/v1/cohorts/{await make(node)}/members", {"members": members})
        assert put["data"]["inserted"] == 2, platform


ON_TWO_HOSTS = (
    ("discourse", "ada", "https://forum.example.net/u/ada"),
    ("stackexchange", "22656", "https://superuser.com/users/22656/ada"),
    ("lemmy", "ada", "ada@lemmy.ml"),
)


BAD_QUERIES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"keywords": []}, "keywords"),
    ({"keywords": ["Acme", "\uff21\uff23\uff2d\uff25"]}, "keywords[1]"),
    ({"keywords": ["acme", "\u200b "]}, "keywords[1]"),
    ({"date_from": "yesterday"}, "date_from"),
    ({"date_to": QUERY["date_from"]}, "date_to"),
    ({"max_items_per_identity": 1_001}, "max_items_per_identity"),
    ({"max_pages_per_identity": 21}, "max_pages_per_identity"),
    ({"platforms": ["mastodon"]}, "platforms"),
)
BAD_MEMBERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"handle": "@"}, "members[0].handle"),
    ({"handle": "x" * 257}, "members[0].handle"),
    ({"handle": "a\0b"}, "members[0].handle"),
    ({"handle": "a.test", "external_id": ""}, "members[0].external_id"),
    ({"platform": "stackexchange", "handle": "jon-skeet"}, "members[0].handle"),
    ({"platform": "telegram", "handle": "12345"}, "members[0].handle"),
)
BAD_MEMBERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"handle": ""}, "members[0].handle"),
    ({"handle": "@"}, "members[0].handle"),
    ({"handle": "x" * 257}, "members[0].handle"),
    ({"handle": "a\0b"}, "members[0].handle"),
    ({"handle": "a.test", "external_id": ""}, "members[0].external_id"),
    ({"handle": "a.test", "extern_id": "1"}, "members[0].extern_id"),
    ({"platform": "stackexchange", "handle": "jon-skeet"}, "members[0].handle"),
    ({"platform": "telegram", "handle": "12345"}, "members[0].handle"),
)


async def test_invalid_query_or_member_is_rejected_for_free_with_its_field(node: OpenNode) -> None:
    """A member's handle is not repeated in the rejection."""
    cohort = await make(node, "ada.test")
    for fields, param in BAD_QUERIES:
        answer = await sent(node, "POST", f"/v1/cohorts/{cohort}/queries", {**QUERY, **fields})
        assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == param, fields
    for member, param in BAD_MEMBERS:
        body = {"members": [{"platform": "bluesky", **member}]}
        answer = await sent(node, "PUT", f"/v1/cohorts/{cohort}/members", body)
        assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == param, member
        assert len(member["handle"]) < 3 or member["handle"] not in answer.body.decode()
    assert await node.money() == (5_000, 0)


async def test_idempotency_key_applies_each_change_once(node: OpenNode) -> None:
    first = await ask(node, "POST", "/v1/cohorts", {}, idempotency_key="c-1")
    again = await ask(node, "POST", "/v1/cohorts", {}, idempotency_key="c-1")
    cohort = first[1]["data"]["id"]
    assert (first[0], again[0], again[1]["replayed"], again[1]["data"]["id"]) == (201, 201, True, cohort)
    body = {"members": [{"platform": "bluesky", "handle": "ada.test"}]}
    puts = [await ask(node, "PUT", f"/v1/cohorts/{cohort}/members", body, idempotency_key="m-1") for _ in range(2)]
    assert [one[1]["data"]["inserted"] for one in puts] == [1, 1], "a repetition returns the first response"
    begun = [await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY, idempotency_key="q-1") for _ in range(2)]
    assert [one[0] for one in begun] == [202, 202], begun
    assert begun[0][1]["data"]["query_id"] == begun[1][1]["data"]["query_id"]
    assert begun[1][1]["replayed"]
    other = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", {**QUERY, "max_credits": 9}, idempotency_key="q-1")
    assert other[1]["error"]["type"] == "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH"
    done = await ended(node, begun[0][1]["data"]["query_id"])
    assert await node.money() == (5_000 - done["actual_credits"], 0)


async def test_query_stream_reports_progress(node: OpenNode) -> None:
    cohort = await make(node, "ada.test", "bob.test")
    with node.upstream.holding():
        _, begun = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
        target = f"{node.url}/v1/cohort-queries/{begun['data']['query_id']}"
        headers, lines = {"x-api-key": node.key, "accept": "text/event-stream"}, list[str]()
        async with node.client.stream("GET", target, headers=headers) as stream:
            async for line in stream.aiter_lines():
                lines.append(line)
                node.upstream.hold_no_more()
                node.upstream.release()
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert (names[0], names[-1], set(names)) == ("progress", "result", {"progress", "result"})
    envelope = orjson.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: "))
    done = envelope["data"]
    assert (envelope["success"], done["status"], done["result_count"]) == (True, "succeeded", 27)


async def test_deleted_cohort_or_account_is_gone_and_its_running_query_is_refunded(node: OpenNode) -> None:
    cohort = await make(node, "ada.test", "bob.test")
    with node.upstream.holding():
        _, begun = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
        assert await node.money() == (4_994, 6)
        assert (await ask(node, "DELETE", f"/v1/cohorts/{cohort}"))[0] == 204
        assert await node.money() == (5_000, 0)
    for target in (f"/v1/cohorts/{cohort}", f"/v1/cohort-queries/{begun['data']['query_id']}"):
        assert (await node.get(target)).status == 404
    assert (await ask(node, "DELETE", f"/v1/cohorts/{cohort}"))[0] == 404
    await nothing_is_left(node)
    cohort = await make(node, "ada.test", "bob.test")
    with node.upstream.holding():
        await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
        await node.operate("account.delete", account=node.account)
        await nothing_is_left(node)


async def nothing_is_left(node: OpenNode) -> None:
    with trio.fail_after(60):
        for table in ("cohorts", "cohort_keys", "cohort_members", "cohort_queries", "cohort_results", "jobs"):
            while await node.node.stores.store.read(  # noqa: ASYNC110 - the sweeper sets no event
                lambda tx, table=table: tx.one(f"SELECT 1 FROM {table}")
            ):
                await trio.sleep(0.1)


def test_cohort_limits_match_the_specification() -> None:
    assert (spec.COHORTS_MAX, spec.MEMBERS_MAX, spec.MEMBERS_AT_ONCE, results.PAGE_BYTES) == (
        100, 10_000, 1_000, 1_000_000,
    )  # fmt: skip
