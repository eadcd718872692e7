"""Batches (decisions 14 and 17): rows keep their order, a bad row does not affect others, and row prices add up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
import trio
import trio.lowlevel

from gateway.calls.batches import Batches, BatchRequest
from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.gateway.api.routes.asking import all_settled
from tests.gateway.api.test_walks_streamed import events_of
from upstreams.composites.addresses import Addresses
from upstreams.composites.batches import POST_STATS, BatchInput, plan_rows

STATS, PROFILES, VIDEOS = "/v1/prism/post-stats", "/v1/prism/profiles", "/v1/youtube/videos"
COMMENTS = "/v1/prism/comment-lookup"
STORY = "https://news.ycombinator.com/item?id={}"
SLOW = "https://mastodon.social/@Gargron/103270115826048975"
NO_RETRIES: Mapping[str, object] = {"defaults": {"retries": 0}}
WITH_KEY: Mapping[str, Any] = {
    "upstreams": {"defaults": {"retries": 0}, "youtube": {"key_env": "TEST_KEY"}},
    "environ": {"TEST_KEY": "a-key-of-tests"},
}


async def post(node: OpenNode, path: str, body: Any, **headers: str) -> Answered:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await node.client.post(
        node.url + path,
        content=orjson.dumps(body),
        headers={"x-api-key": node.key, "content-type": "application/json", **named},
    )
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def assert_billed(node: OpenNode, answer: Answered, *, is_alone: bool = True) -> dict[str, Any]:
    """Check that the prices of the rows add up to the batch's charge in the ledger, and that the rest was refunded."""
    body: dict[str, Any] = answer.json
    data = body["data"]
    summary, results, charged = data["summary"], data["results"], body["credits_used"]
    assert charged == summary["credits_charged"] == sum(row["credits_used"] for row in results)
    assert charged == sum(leg["credits_used"] for leg in data["legs"])
    assert all(row["credits_used"] == 0 for row in results if row["status"] != "ok")
    amounts = [one["amount"] for one in await node.entries(body["request_id"])]
    taken, refunded = (sum(amount for amount in amounts if (amount < 0) == is_taken) for is_taken in (True, False))
    assert (-taken, refunded) == (charged + summary["credits_refunded"], summary["credits_refunded"])
    for status in ("ok", "not_found", "unsupported", "failed", "deferred"):
        assert summary[status] == sum(row["status"] == status for row in results)
    assert summary["total"] == len(results)
    if is_alone:
        await node.assert_sound()
    return data


async def test_rows_keep_order_and_bad_row_fails_alone(tmp_path: Path) -> None:
    urls = [
        STORY.format(8863),
        "https://bit.ly/x",
        "https://github.com/python-trio/trio/issues/1",
        "https://github.com/python-trio/trio",
        STORY.format("missing"),
        "https://mastodon.social/@Gargron/103270115826048975",
        "https://en.wikipedia.org/wiki/Paris",
        STORY.format(7),
    ]

    def script(asked: str) -> ScriptedAnswer | None:
        if asked.startswith("mastodon.social"):
            return json_answer({"error": "broken"}, 500)
        return json_answer({"error": "no such item"}, 404) if asked.endswith("/items/7") else None

    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        answer = await post(node, STATS, {"urls": urls})
        assert answer.status == 200, answer.json
        data = await assert_billed(node, answer)
        rows = data["results"]
        assert [row["input"] for row in rows] == urls
        assert [row["status"] for row in rows] == [
            *("ok", "unsupported", "ok", "unsupported", "unsupported", "failed", "unsupported"),
            "not_found",
        ]
        assert rows[0]["platform"] == "hackernews"
        assert rows[0]["record"].keys() == {"id", "url", "engagement"}
        assert rows[0]["record"]["engagement"].keys() == {"views", "likes", "comments", "shares", "saves"}
        assert rows[1]["ext"]["message"].startswith("is a short link of bit.ly")
        assert rows[3]["ext"] == {"reason": "invalid_param", "message": "is not the URL of a post"}
        assert rows[5]["ext"] == {"reason": "UPSTREAM_ERROR"}
        statuses = {(leg["status"], leg["error"]) for leg in data["legs"]}
        assert statuses == {("ok", None), ("failed", "UPSTREAM_ERROR"), ("not_found", "RESOURCE_NOT_FOUND")}
        assert answer.json["credits_used"] == 2


async def test_rows_of_one_site_share_upstream_batch_calls(tmp_path: Path) -> None:
    """Goal: 97 questions of one site and 3 of another need two upstream calls, not 100."""

    def script(asked: str) -> ScriptedAnswer | None:
        if not asked.startswith("api.stackexchange.com/2.3/questions/"):
            return None
        ids = urlsplit(asked).path.rpartition("/")[2].replace("%3B", ";").split(";")
        items = [{"question_id": int(one), "score": int(one), "title": "A question"} for one in ids if int(one) % 10]
        return json_answer({"items": items[::-1], "has_more": False, "quota_remaining": 100})

    urls = [f"https://stackoverflow.com/q/{one}" for one in range(1, 98)]
    urls += [f"https://superuser.com/q/{one}" for one in (1, 20, 3)]
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        data = await assert_billed(node, await post(node, STATS, {"urls": urls, "include": "likes"}))
        assert [one["rows"] for one in data["legs"]] == [97, 3]
        assert len(node.upstream.requests) == 2
        assert {parse_qs(urlsplit(one).query)["site"][0] for one in node.upstream.requests} == {
            "stackoverflow",
            "superuser",
        }
        for url, row in zip(urls, data["results"], strict=True):
            number = int(url.rpartition("/")[2])
            assert row["status"] == ("ok" if number % 10 else "not_found")
            assert number % 10 == 0 or row["record"]["engagement"] == {"likes": number}
        assert data["summary"]["coverage"] == 1.0


async def test_bluesky_accounts_are_read_in_groups_of_25_by_handle_or_did(tmp_path: Path) -> None:
    def script(asked: str) -> ScriptedAnswer | None:
        actors = parse_qs(urlsplit(asked).query)["actors"]
        assert len(actors) <= 25
        found = [{"did": f"did:plc:{one.partition('.')[0]}", "handle": one} for one in actors if "gone" not in one]
        return json_answer({"profiles": found})

    items = [{"platform": "bluesky", "handle": f"@U{place}.Bsky.Social"} for place in range(28)]
    items += [{"platform": "bluesky", "handle": "gone.bsky.social", "custom_id": "g"}]
    items += [{"platform": "nowhere", "handle": "x"}, {"platform": "steam", "handle": "x"}]
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        data = await assert_billed(node, await post(node, PROFILES, {"items": items}))
        assert [row["status"] for row in data["results"]] == ["ok"] * 28 + ["not_found", "unsupported", "unsupported"]
        assert data["results"][27]["record"]["username"] == "u27.bsky.social"
        assert data["results"][28]["input"] == items[28]
        assert sorted(one["rows"] for one in data["legs"]) == [4, 25]


async def test_accounts_given_by_url_of_another_site_are_read_there(tmp_path: Path) -> None:
    def script(asked: str) -> ScriptedAnswer | None:
        ids = urlsplit(asked).path.rpartition("/")[2].replace("%3B", ";").split(";")
        return json_answer({"items": [{"user_id": int(one)} for one in ids], "has_more": False})

    names = ("7", "https://superuser.com/users/7", "8", "https://stackoverflow.com/users/9/ada")
    items = [{"platform": "stackexchange", "handle": name} for name in names]
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        data = await assert_billed(node, await post(node, PROFILES, {"items": items}))
        assert [row["record"]["id"] for row in data["results"]] == ["7", "7", "8", "9"]
        parts = [urlsplit(one) for one in node.upstream.requests]
        asked = {(one.path.rpartition("/")[2].replace("%3B", ";"), parse_qs(one.query)["site"][0]) for one in parts}
        assert asked == {("7;8;9", "stackoverflow"), ("7", "superuser")}


async def test_rows_are_read_singly_if_one_value_makes_the_batch_call_fail(tmp_path: Path) -> None:
    def script(asked: str) -> ScriptedAnswer | None:
        if "getProfiles" in asked:
            return json_answer({"error": "InvalidRequest", "message": "actor must be a valid did or a handle"}, 400)
        actor = parse_qs(urlsplit(asked).query)["actor"][0]
        if actor == "bad":
            return json_answer({"error": "InvalidRequest", "message": "Profile not found"}, 400)
        return json_answer({"did": f"did:plc:{actor}", "handle": actor})

    items = [{"platform": "bluesky", "handle": name} for name in ("a.test", "bad", "b.test")]
    async with open_test_node(tmp_path, upstreams=NO_RETRIES) as node:
        node.upstream.script = script
        data = await assert_billed(node, await post(node, PROFILES, {"items": items}))
        assert [row["status"] for row in data["results"]] == ["ok", "not_found", "ok"]
        assert [leg["rows"] for leg in data["legs"]] == [3, 1, 1, 1]


async def test_accounts_are_read_by_url(node: OpenNode) -> None:
    urls = ["https://github.com/octocat", "https://news.ycombinator.com/user?id=pg", STORY.format(8863)]
    data = await assert_billed(node, await post(node, PROFILES, {"urls": urls}))
    assert [row["status"] for row in data["results"]] == ["ok", "ok", "unsupported"]
    assert data["results"][0]["record"]["followers"] is not None


async def test_fifty_videos_cost_five_credits_if_any_is_found(tmp_path: Path) -> None:
    def script(asked: str) -> ScriptedAnswer | None:
        ids = parse_qs(urlsplit(asked).query)["id"][0].split(",")
        items = [{"id": one, "snippet": {"title": "A video"}} for one in ids if one.startswith("here")]
        return json_answer({"items": items, "pageInfo": {"totalResults": len(items)}})

    ids = [f"here{place:04}" for place in range(7)] + [f"gone{place:04}" for place in range(43)]
    ids += [f"lost{place:04}" for place in range(50)] + ["here9999"]
    async with open_test_node(tmp_path, **WITH_KEY) as node:
        node.upstream.script = script
        answer = await post(node, VIDEOS, {"ids": [*ids, "no id at all"]})
        data = await assert_billed(node, answer)
        assert answer.json["credits_used"] == 10
        assert [row["credits_used"] for row in data["results"][:7]] == [1, 1, 1, 1, 1, 0, 0]
        assert [leg["credits_used"] for leg in data["legs"]] == [5, 0, 5]
        assert data["results"][-1]["status"] == "unsupported"
        assert data["summary"]["credits_refunded"] == 5
        node.upstream.requests.clear()
        node.upstream.always(None)
        await assert_billed(node, await post(node, f"{VIDEOS}?hl=pt-BR", {"ids": ["here0001", "here0002"]}))
        (asked,) = node.upstream.requests
        assert parse_qs(urlsplit(asked).query)["hl"] == ["pt-BR"]
        refused = await post(node, f"{VIDEOS}?hl=portuguese-of-brazil", {"ids": ["here0001"]})
        assert (refused.status, refused.json["error"]["details"]["param"]) == (400, "hl")
        listed = (await node.get("/v1/utility/endpoints?platform=youtube&method=POST")).json["data"]["endpoints"]
        assert {one["id"] for one in listed} == {"youtube/videos", "youtube/channels"}


async def test_dry_run_returns_maximum_price_and_respects_max_credits(tmp_path: Path) -> None:
    body = {"urls": [STORY.format(8863), STORY.format(8864), "https://bit.ly/x"]}
    async with open_test_node(tmp_path, credits=1) as node:
        dry = (await post(node, f"{STATS}?dry_run=1", body)).json
        assert (dry["data"]["estimated_credits"], dry["credits_used"]) == (2, 0)
        for query in ("max_credits=1", "max_credits=1&dry_run=1", ""):
            refused = await post(node, f"{STATS}?{query}", body)
            error = refused.json["error"]
            assert (refused.status, error["type"]) == (402, "INSUFFICIENT_CREDITS")
            assert error["details"]["credits_required"] == 2
        assert node.upstream.requests == []
        await node.operate("credits.grant", account=node.account, amount=1)
        assert (await post(node, f"{STATS}?max_credits=2", body)).status == 200


async def test_idempotency_key_runs_batch_once(node: OpenNode) -> None:
    body = {"urls": [STORY.format(8863)]}
    first, again = [await post(node, STATS, body, Idempotency_Key="k") for _ in range(2)]
    assert again.json["data"] == first.json["data"]
    assert (first.json["credits_used"], again.json["credits_used"]) == (1, 0)
    assert again.json["idempotent_replay"] is True
    assert (await post(node, STATS, body, Idempotency_Key="s", Accept="text/event-stream")).status == 400
    await node.assert_sound()


async def test_rows_are_streamed_as_they_become_ready(node: OpenNode) -> None:
    urls = [STORY.format(8863), "https://bit.ly/x", STORY.format(8864)]
    answer = await post(node, STATS, {"urls": urls}, Accept="text/event-stream")
    *rows, (name, result) = events_of(answer.body)
    assert ([event.name for event in rows], name) == (["row"] * 3, "result")
    assert rows[0].data["index"] == 1, "the row that needs no call is sent first"
    assert {row.data.pop("index"): row.data for row in rows} == dict(enumerate(result["data"]["results"]))


BAD_BODIES: tuple[tuple[str, Any, str], ...] = (
    (STATS, {"urls": ["x" * 3_000]}, "urls[0]"),
    (STATS, {"urls": [STORY.format(1)], "include": "likes,karma"}, "include"),
    (STATS, {}, "urls"),
    (STATS, {"urls": ["x"], "ids": []}, "ids"),
    (PROFILES, {}, "items"),
    (PROFILES, {"items": [{"platform": "github", "handle": "x"}], "urls": ["x"]}, "items"),
    (PROFILES, {"items": [{"platform": "github"}]}, "items[0].handle"),
    (PROFILES, {"items": [{"platform": "github", "handle": "x", "id": "1"}]}, "items[0].id"),
    (COMMENTS, {"items": [{}]}, "items[0]"),
    (COMMENTS, {"items": [{"post_url": "x"}]}, "items[0]"),
    (COMMENTS, {"items": [{"comment_url": "x", "comment_id": "5"}]}, "items[0]"),
    (COMMENTS, {"items": [{"comment_url": "x" * 3_000}]}, "items[0]"),
)
"""`tests/cases/test_small_faults.py` sends values beyond the bounds of every field."""
UNSUPPORTED: tuple[tuple[str, Any, str], ...] = (
    (PROFILES, {"urls": ["https://github.com/octocat"], "include": "posts"}, "include"),
    (PROFILES, {"urls": ["https://github.com/octocat"], "since": "2024-06-01"}, "since"),
    (VIDEOS, {"ids": ["here0001"], "include_localizations": True}, "include_localizations"),
)


async def test_wrong_body_is_rejected_for_free_with_its_field(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **WITH_KEY) as node:
        for path, body, param in (*BAD_BODIES, *UNSUPPORTED):
            answer = await post(node, path, body)
            details = answer.json["error"]["details"]
            assert (answer.status, answer.json["credits_used"], details["param"]) == (400, 0, param), body
            assert (details.get("reason") == "capability_missing") == ((path, body, param) in UNSUPPORTED)
        assert (await node.money(), node.upstream.requests) == ((100_000, 0), [])


HURRIED: Mapping[str, Any] = {"upstreams": NO_RETRIES, "server": {"request_timeout_s": 2}}


def silent_mastodon(asked: str) -> ScriptedAnswer | None:
    return ScriptedAnswer(delay_s=30.0) if asked.startswith("mastodon.social") else None


async def test_rows_past_the_time_limit_are_deferred_for_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **HURRIED) as node:
        node.upstream.script = silent_mastodon
        data = await assert_billed(node, await post(node, STATS, {"urls": [SLOW, STORY.format(8863)]}))
        assert [row["status"] for row in data["results"]] == ["deferred", "ok"]
        assert [leg["status"] for leg in data["legs"]] == ["deferred", "ok"]


@asynccontextmanager
async def posted(node: OpenNode, body: object, accept: str) -> AsyncIterator[trio.SocketStream]:
    """Post a batch over a connection of its own, and close it when the block ends."""
    content, address = orjson.dumps(body), urlsplit(node.url)
    head = f"POST {STATS} HTTP/1.1\r\nhost: x\r\nx-api-key: {node.key}\r\naccept: {accept}\r\n"
    async with await trio.open_tcp_stream(str(address.hostname), int(address.port or 0)) as stream:
        await stream.send_all(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        yield stream


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_client_disconnect_settles_the_batch_and_charges_finished_rows(accept: str, tmp_path: Path) -> None:
    """Goal: no credits stay held, and only the finished row is charged."""
    async with open_test_node(tmp_path, **HURRIED) as node:
        before = (await node.money())[0]
        node.upstream.script = silent_mastodon
        async with posted(node, {"urls": [STORY.format(8863), SLOW]}, accept) as stream:
            with trio.fail_after(30):
                while accept == "text/event-stream" and b"event: row" not in await stream.receive_some():
                    pass
                await until(lambda: any(asked.startswith("mastodon.social") for asked in node.upstream.requests))
        await all_settled(node)
        assert await node.money() == (before - 1, 0)
        await node.assert_sound()


@pytest.mark.parametrize("streams", [False, True])
async def test_cancelled_batch_conserves_credits(tmp_path: Path, *, streams: bool) -> None:
    """Goal: conservation. Method: cancel at each checkpoint; a stream is charged for the rows that were sent."""
    roomy = {"limits": {"requests_per_minute": 1_000_000}}
    async with open_test_node(tmp_path, upstreams=NO_RETRIES, **roomy) as node:
        inner, sent = node.node, list[int]()
        batches = Batches(inner.calls, inner.catalog.sites)
        addresses = Addresses(site.platform for site in inner.catalog.sites.values())
        inputs = [BatchInput(url, url=url) for url in (STORY.format(8863), "https://bit.ly/x", STORY.format(8864))]
        rows = plan_rows(POST_STATS, inputs, inner.catalog.sites, addresses)
        key = await inner.stores.billing.keys.find(node.key)

        async def publish(row: Mapping[str, Any]) -> bool:
            sent.append(row["credits_used"])
            await trio.lowlevel.checkpoint()
            return True

        async def run() -> None:
            request_id = inner.runtime.make_id("req_")
            request = BatchRequest(key, POST_STATS, rows, request_id, publish=publish if streams else None)
            await batches.run(request)

        async def check(got_through: bool) -> None:
            balance, held = await node.money()
            assert held == 0
            assert before[0] - balance in ({2} if got_through else {0, sum(sent), 2 if not streams else sum(sent)})
            assert inner.stores.billing.charges.unfinished() == 0
            before[0] = balance
            sent.clear()

        before = [(await node.money())[0]]
        assert await cancel_everywhere(run, check) >= 3
        await node.assert_sound()
