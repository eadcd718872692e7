"""Collect-until-N as server-sent events: a `page` event per page, then the whole envelope; and walks cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import trio

from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.long_lists import WALKS, LongList, ids_of
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import until
from tests.gateway.calls.test_execute import ask_in_this_task
from tests.spec.refusals import assert_free, assert_refused

HN = WALKS["hackernews/search"]
STREAM = {"accept": "text/event-stream"}
on_both_engines = pytest.mark.parametrize("engine", ["native", "hypercorn"])


class Event(NamedTuple):
    """One server-sent event."""

    name: str
    data: Any


def events_of(body: bytes) -> list[Event]:
    """Return all events of a stream. Each ends with an empty line."""
    *blocks, rest = body.decode().split("\n\n")
    assert rest == ""
    return [event_of(block) for block in blocks]


def event_of(block: str) -> Event:
    name, data = block.split("\n")
    assert name.startswith("event: ")
    assert data.startswith("data: ")
    return Event(name.removeprefix("event: "), orjson.loads(data.removeprefix("data: ")))


@asynccontextmanager
async def open_walking_node(folder: Path, engine: str = "native", **options: Any) -> AsyncIterator[OpenNode]:
    """A node with 100 credits whose upstreams have long lists."""
    server = {"engine": engine, "port": 0, "drain_s": 5}
    tables: dict[str, Any] = {
        "server": server,
        "upstreams": {"defaults": {"retries": 0}},
        "breaker": {"failures": 1000},
    }
    async with open_test_node(folder, **{"credits": 100, **tables, **options}) as node:
        node.upstream.script = LongList()
        yield node


async def stream(node: OpenNode, target: str, method: str = "GET", **headers: str) -> Answered:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await node.get(target, method=method, headers={**STREAM, **named})


# The events


@pytest.mark.parametrize(
    ("name", "engine"), [*((name, "native") for name in WALKS), ("hackernews/search", "hypercorn")]
)
async def test_stream_sends_each_page_then_the_envelope(name: str, engine: str, tmp_path: Path) -> None:
    async with open_walking_node(tmp_path, engine) as node:
        target = f"{WALKS[name]}&limit=250"
        answer = await stream(node, target)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert "content-length" not in answer.headers
        assert answer.headers["x-ratelimit-remaining"] == "599"
        *pages, (last, envelope) = events_of(answer.body)
        assert pages == [
            Event("page", {"pages": number, "items": items, "limit": 250})
            for number, items in ((1, 100), (2, 200), (3, 250))
        ]
        assert last == "result"
        assert envelope["request_id"] == answer.headers["x-request-id"]
        assert ids_of(envelope) == list(range(250))
        assert (envelope["credits_used"], envelope["credits_remaining"], envelope["cached"]) == (3, 97, False)
        plain = (await node.get(target)).json
        assert plain.keys() == envelope.keys()
        assert (plain["data"], plain["pagination"]) == (envelope["data"], envelope["pagination"])
        assert [entry["amount"] for entry in await node.entries(envelope["request_id"])] == [4, -7]
        ((last, hit),) = events_of((await stream(node, target)).body)
        assert (last, hit["cached"], hit["credits_used"]) == ("result", True, 0)
        assert hit["data"] == envelope["data"]
        await node.assert_sound()


async def test_page_event_precedes_the_next_page(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path) as node:
        pages = node.upstream.script = LongList(delay_s=0.2)
        own = {"x-api-key": node.key, **STREAM}
        async with node.client.stream("GET", f"{node.url}{HN}&limit=250", headers=own) as answer:
            seen = [(line, len(pages.asked)) async for line in answer.aiter_lines() if line.startswith("event: ")]
        assert [line for line, _ in seen] == ["event: page"] * 3 + ["event: result"]
        assert seen[0][1] <= 2, "at most the next page has been requested"
        assert seen[1][1] <= 3


async def test_later_page_failure_is_in_the_result(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path) as node:
        node.upstream.script = LongList(fails_at=2)
        *pages, (name, envelope) = events_of((await stream(node, f"{HN}&limit=250")).body)
        assert [page.data["items"] for page in pages] == [100, 200]
        assert (name, envelope["credits_used"], len(ids_of(envelope))) == ("result", 2, 200)
        assert "page 3 could not be read" in envelope["data"]["_warnings"][0]
        assert envelope["pagination"]["has_more"] is True
        assert await node.money() == (98, 0)


async def test_failure_after_empty_pages_ends_with_an_error_event(tmp_path: Path) -> None:
    """The status was sent before the failure, so the envelope reports the error."""
    async with open_walking_node(tmp_path) as node:
        node.upstream.script = lambda asked: (
            json_answer({}, 500) if "page=1" in asked else json_answer({"hits": [], "nbPages": 9, "page": 0})
        )
        answer = await stream(node, f"{HN}&limit=250")
        first, (name, envelope) = events_of(answer.body)
        assert first == ("page", {"pages": 1, "items": 0, "limit": 250})
        assert (answer.status, name, envelope["error"]["type"]) == (200, "error", "UPSTREAM_ERROR")
        assert (envelope["success"], envelope["credits_used"], envelope["credits_remaining"]) == (False, 0, 100)
        assert await node.money() == (100, 0)
        await node.assert_sound()


async def test_follower_streams_only_the_result(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path) as node:
        pages = node.upstream.script = LongList(delay_s=0.05)
        answers: list[Answered] = []

        async def follow() -> None:
            answers.append(await stream(node, f"{HN}&limit=250"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.get, f"{HN}&limit=250")
            await until(lambda: pages.asked)
            nursery.start_soon(follow)
        ((name, envelope),) = events_of(answers[0].body)
        assert (name, envelope["cached"], envelope["credits_used"], len(pages.asked)) == ("result", True, 0, 3)
        assert await node.money() == (97, 0)


# Requests that are not streamed


async def test_rejection_before_the_first_page_is_json(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path, credits=2) as node:
        refusals = [
            assert_refused(await stream(node, f"{HN}&limit=many"), "INVALID_REQUEST", 400),
            assert_refused(await stream(node, f"{HN}&limit=5&tags=!"), "INVALID_REQUEST", 400),
            assert_refused(await stream(node, f"{HN}&limit=5&cursor=cur_AAAA"), "INVALID_REQUEST", 400),
            assert_refused(await stream(node, f"{HN}&limit=250"), "INSUFFICIENT_CREDITS", 402),
            assert_refused(await stream(node, f"{HN}&limit=250&max_credits=1"), "INSUFFICIENT_CREDITS", 402),
        ]
        assert [details.get("credits_required") for details in refusals[3:]] == [3, 3]
        for status, code in ((500, "UPSTREAM_ERROR"), (404, "RESOURCE_NOT_FOUND"), (429, "SERVICE_UNAVAILABLE")):
            node.upstream.script = LongList(fails_at=0, failing=json_answer({}, status))
            answer = await stream(node, f"{HN}&limit=150")
            assert answer.code == code
            await assert_free(node, answer)
        node.upstream.requests.clear()
        keyed = await stream(node, f"{HN}&limit=5", idempotency_key="one")
        assert_refused(keyed, "INVALID_REQUEST", 400)
        assert "Idempotency-Key" in keyed.json["error"]["message"]
        assert (node.upstream.requests, await node.money()) == ([], (2, 0))


async def test_request_that_cannot_be_streamed_gets_json(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path) as node:
        head = await stream(node, f"{HN}&limit=250", method="HEAD")
        assert (head.status, head.headers["content-type"], head.body) == (200, "application/json", b"")
        assert head.headers["x-credits-used"] == "3"
        for target in (f"{HN}&limit=250&dry_run=1", "/v1/credits/balance", "/v1/utility/endpoints", "/v1/status"):
            answer = await stream(node, target)
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), target
        node.upstream.always(json_answer({"id": 1, "login": "octocat"}))
        answer = await stream(node, "/v1/github/profile?handle=octocat")
        assert (answer.headers["content-type"], answer.json["credits_used"]) == ("application/json", 1)


# Walks cut short


async def hang_up_during_page_2(node: OpenNode, pages: LongList, target: str) -> None:
    async with node.client.stream("GET", node.url + target, headers={"x-api-key": node.key, **STREAM}) as answer:
        assert answer.status_code == 200
        await until(lambda: len(pages.asked) == 2)
        await trio.sleep(0.05)  # page 2 is in progress, and followers had time to join


@on_both_engines
async def test_disconnect_ends_the_walk_and_bills_its_pages(engine: str, tmp_path: Path) -> None:
    async with open_walking_node(tmp_path, engine) as node:
        pages = node.upstream.script = LongList(rows=1000, delay_s=0.2)
        await hang_up_during_page_2(node, pages, f"{HN}&limit=500")
        await until(lambda: not node.node.calls.flights)
        await until(lambda: node.log_events("request"))
        assert len(pages.asked) == 2, "no page is read after the one in progress"
        assert [event["credits_used"] for event in node.log_events("request")] == [2]
        assert await node.money() == (98, 0)
        assert await node.gauge("sluice_lease_keys") == 0
        await node.assert_sound()
        assert (await node.get(f"{HN}&limit=500")).json["cached"] is False, "a shortened walk is not cached"


async def test_follower_of_a_disconnected_client_gets_the_whole_result(tmp_path: Path) -> None:
    async with open_walking_node(tmp_path) as node:
        pages = node.upstream.script = LongList(delay_s=0.2)
        answers: list[Answered] = []

        async def follow() -> None:
            answers.append(await node.get(f"{HN}&limit=250"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang_up_during_page_2, node, pages, f"{HN}&limit=250")
            await until(lambda: len(pages.asked) == 2)
            nursery.start_soon(follow)
        assert (len(ids_of(answers[0].json)), answers[0].json["credits_used"]) == (250, 3)
        assert len(pages.asked) == 5
        assert await node.money() == (95, 0)


@pytest.mark.parametrize(
    ("engine", "headers"),
    [("native", {}), ("native", STREAM), ("hypercorn", STREAM)],
    ids=["json", "events", "events of hypercorn"],
)
async def test_stopping_node_ends_walks_after_the_current_page(
    engine: str, headers: dict[str, str], tmp_path: Path
) -> None:
    async with open_walking_node(tmp_path, engine) as node:
        pages = node.upstream.script = LongList(rows=1000, delay_s=0.1)
        answers: list[Answered] = []

        async def ask() -> None:
            answers.append(await node.get(f"{HN}&limit=500", headers=headers))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await until(lambda: len(pages.asked) == 2)
            node.node.draining.set()
        events = events_of(answers[0].body) if headers else [Event("result", answers[0].json)]
        assert [event.name for event in events] == ["page", "page", "result"][-len(events) :]
        envelope = events[-1].data
        assert (answers[0].status, ids_of(envelope)) == (200, list(range(200)))
        assert (envelope["credits_used"], envelope["credits_remaining"]) == (2, 98)
        assert envelope["data"]["_warnings"] == [
            "200 of 500 items were collected: the walk was stopped early; continue with next_cursor"
        ]
        cursor = envelope["pagination"]["next_cursor"]
        assert (len(pages.asked), await node.money()) == (2, (98, 0))
        await node.assert_sound()
    async with open_walking_node(tmp_path) as node:
        node.upstream.script = LongList(rows=1000)
        rest = await node.get(f"{HN}&limit=500&cursor={cursor}")
        assert ids_of(rest.json) == list(range(200, 700)), "the next node continues after these rows"


@pytest.mark.parametrize("fails_at", [-1, 0, 2])
async def test_cancelled_walk_is_recorded_completely_or_not_at_all(fails_at: int, tmp_path: Path) -> None:
    """Goal: conservation. Method: cancel the walk at each checkpoint, and check the ledger each time."""
    cost = {-1: 3, 0: 0, 2: 2}[fails_at]
    async with open_walking_node(tmp_path, credits=10_000, limits={"requests_per_minute": 100_000}) as node:
        node.upstream.script = LongList(fails_at=fails_at)
        before = [(await node.money())[0]]
        spent: list[int] = []

        async def check(got_through: bool) -> None:
            balance, held = await node.money()
            spent.append(before[0] - balance)
            before[0] = balance
            assert held == 0
            assert spent[-1] in ({cost} if got_through else {0, cost})
            assert node.node.stores.billing.charges.unfinished() == 0
            assert len(node.node.calls.flights) == 0
            assert await node.gauge("sluice_lease_keys") == 0

        for headers in ([], [(b"accept", b"text/event-stream")]):
            walk = partial(ask_in_this_task, node, f"{HN}&limit=250", *headers)
            assert await cancel_everywhere(walk, check) > (3 if fails_at == 0 else 8)
            assert spent[-1] == cost
        await node.assert_sound()
