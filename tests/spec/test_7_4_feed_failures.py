"""Sections 7.1, 7.3 and 7.4: every failure of the feed, with its `details`, at no cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from events.instants import unix
from storage.errors import StoreUnavailable
from tests.fakes.calling import Answered
from tests.fakes.feeding import (
    CONSUMERS,
    FEED,
    ack,
    append_some,
    drop_before,
    page,
    post,
    subjects,
)
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.shared_node import check_cases

Ask = Callable[[OpenNode], Awaitable[Answered]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request to a node with five events and a consumer `one` that has received three of them."""

    ask: Ask
    reason: str | None
    param: str
    step: str
    """Part of `next_step`."""
    code: str = "INVALID_REQUEST"
    status: int = 400
    did_you_mean: str | None = None


def get(query: str) -> Ask:
    return lambda node: node.get(f"{FEED}?{query}")


def acking(body: Any, name: str = "one", query: str = "") -> Ask:
    return lambda node: post(node, f"{CONSUMERS}/{name}/ack{query}", body)


def wrong(query: str, param: str, step: str, reason: str = "invalid_param") -> Failure:
    return Failure(get(query), reason, param, step)


def meant(ask: Ask, param: str, name: str) -> Failure:
    return Failure(ask, None, param, "Fix the parameter", did_you_mean=name)


OLDEST = "Read again with cursor=oldest."
GIVEN = "Acknowledge the next_cursor of a page that this consumer received."
RESET = "Reset it to oldest, now, a next_cursor or the id of a stored event."
STREAMED = {"accept": "text/event-stream", "idempotency-key": "a"}
FAILURES = {
    "an invalid cursor": wrong("cursor=x", "cursor", OLDEST),
    "a changed cursor": wrong("cursor=cur_AAAA", "cursor", OLDEST),
    "an invalid event id": wrong("cursor=evt_1", "cursor", OLDEST),
    "a cursor in capitals": wrong("cursor=NOW", "cursor", OLDEST),
    "an event with a NUL": wrong("cursor=evt_%00", "cursor", "Fix the parameter"),
    "a cursor with a consumer": wrong("cursor=now&consumer=one", "cursor", "Remove cursor", "conflicting_params"),
    "a consumer without a name": wrong("consumer=", "consumer", "Send consumer=main."),
    "a consumer without a name, with a cursor": wrong("consumer=&cursor=now", "consumer", "Send consumer=main."),
    "a consumer's name with capitals": wrong("consumer=One", "consumer", "Send consumer=one."),
    "a consumer's name with a space": wrong("consumer=a%20b", "consumer", "Send consumer=a-b."),
    "a consumer's name that is too long": wrong(f"consumer={'a' * 65}", "consumer", f"Send consumer={'a' * 64}."),
    "a consumer's name with a newline": wrong("consumer=a%0Ab", "consumer", "Send consumer=a-b."),
    "an invalid start": wrong("consumer=new&start=then", "start", "Send start=oldest or start=now."),
    "a start without a consumer": wrong("start=now", "start", "name a consumer"),
    "an unknown type": wrong("types=key.revokd", "types", "Send types=key.revoked."),
    "a type in capitals": wrong("types=KEY.REVOKED", "types", "Send types=key.revoked."),
    "an unknown family": wrong("types=monitors.*", "types", "Send types=monitor.*."),
    "a type unlike any": wrong("types=zzz", "types", "Remove types"),
    "a list of types with an empty item": wrong("types=key.revoked,,key.revoked", "types", "Remove types"),
    "subjects without an id": wrong("subject_id=,%20,", "subject_id", "Remove subject_id"),
    "a subject with a NUL": wrong("subject_id=a,%00", "subject_id", "Fix the parameter"),
    "101 subjects": wrong(
        "subject_id=" + ",".join(f"mon_{number}" for number in range(101)), "subject_id", "Split the read."
    ),
    "a limit of 0": wrong("limit=0", "limit", "Send limit=1."),
    "a limit of 501": wrong("limit=501", "limit", "Send limit=500."),
    "a limit below 0": wrong("limit=-5", "limit", "Send limit=1."),
    "a limit that is not a number": wrong("limit=ten", "limit", "Fix the parameter"),
    "a limit with a fraction": wrong("limit=1.5", "limit", "Fix the parameter"),
    "a wait of 26": wrong("wait_s=26", "wait_s", "Send wait_s=25."),
    "a wait below 0": wrong("wait_s=-1", "wait_s", "Send wait_s=0."),
    "a wait that is not a number": wrong("wait_s=long", "wait_s", "Fix the parameter"),
    "a repeated parameter": wrong("limit=1&limit=2", "limit", "Fix the parameter"),
    "not UTF-8": wrong("types=%FF", "types", "Fix the parameter", "invalid_utf8"),
    "encoded twice": wrong("subject_id=a%252Fb", "subject_id", "Fix the parameter", "double_encoded"),
    "101 parameters": wrong("limit=1&" * 100 + "limit=1", "query", "Fix the parameter"),
    "a stream with an idempotency key": Failure(
        lambda node: node.get(FEED, headers=STREAMED),
        "conflicting_params",
        "Idempotency-Key",
        "Remove Idempotency-Key",
    ),
    "a parameter in capitals": meant(get("CURSOR=now"), "CURSOR", "cursor"),
    "a misspelled parameter": meant(get("curser=now"), "curser", "cursor"),
    "a foreign parameter": meant(get("page=2"), "page", "cursor"),
    "a time": meant(get("since=2026-01-01"), "since", "cursor"),
    "an end time": meant(get("until=2026-01-01"), "until", "cursor"),
    "a filter other than the bound one": wrong(
        "consumer=one&types=credits.*", "types", "Remove types and subject_id", "conflicting_params"
    ),
    "an acknowledgement past the served page": Failure(
        acking({"cursor": "now"}), "invalid_param", "cursor", "Acknowledge the next_cursor of a page"
    ),
    "an acknowledgement of nonsense": Failure(acking({"cursor": "x"}), "invalid_param", "cursor", GIVEN),
    "an acknowledgement of an unknown event": Failure(acking({"cursor": "evt_1"}), "invalid_param", "cursor", GIVEN),
    "an acknowledgement of an event with a NUL": Failure(
        acking({"cursor": "evt_\0"}), "invalid_param", "cursor", GIVEN
    ),
    "a reset to nonsense": Failure(
        lambda node: post(node, f"{CONSUMERS}/one/reset", {"cursor": "x"}), "invalid_param", "cursor", RESET
    ),
    "a reset to an unknown event": Failure(
        lambda node: post(node, f"{CONSUMERS}/one/reset", {"cursor": "evt_1"}), "invalid_param", "cursor", RESET
    ),
    "an acknowledgement without a cursor": Failure(acking({}), "invalid_param", "cursor", "Fix the parameter"),
    "an acknowledgement of a number": Failure(acking({"cursor": 1}), "invalid_param", "cursor", "Fix"),
    "an acknowledgement of null": Failure(acking({"cursor": None}), "invalid_param", "cursor", "Fix"),
    "an acknowledgement without a body": Failure(acking(b""), "invalid_param", "body", "Fix"),
    "an acknowledgement that is not JSON": Failure(acking(b"{"), "invalid_param", "body", "Fix"),
    "an acknowledgement that is not an object": Failure(acking([1]), "invalid_param", "body", "Fix"),
    "an acknowledgement that is not UTF-8": Failure(acking(b'{"cursor":"\xff"}'), "invalid_utf8", "body", "Fix"),
    "an acknowledgement with another field": meant(acking({"curser": "now"}), "curser", "cursor"),
    "an acknowledgement with a query": Failure(acking({"cursor": "now"}, query="?x=1"), "invalid_param", "x", "Fix"),
    "a list of consumers with a query": Failure(
        lambda node: node.get(f"{CONSUMERS}?limit=1"), "invalid_param", "limit", "Fix"
    ),
    "an acknowledgement for an invalid name": Failure(
        acking({"cursor": "now"}, name="One"), "invalid_param", "consumer", "Send consumer=one."
    ),
    "an acknowledgement for an unknown consumer": Failure(
        acking({"cursor": "now"}, name="new"),
        "unknown_consumer",
        "consumer",
        "Read as this consumer first.",
        "RESOURCE_NOT_FOUND",
        404,
    ),
    "nobody": Failure(
        lambda node: node.get(f"{CONSUMERS}/new"),
        "unknown_consumer",
        "consumer",
        "Read as this consumer first.",
        "RESOURCE_NOT_FOUND",
        404,
    ),
}


async def test_failure_names_parameter_and_next_step_and_is_free(tmp_path: Path) -> None:
    await check_cases(FAILURES, _failure_names_parameter_and_next_step_and_is_free, tmp_path)


async def _failure_names_parameter_and_next_step_and_is_free(node: OpenNode, failure: Failure) -> None:
    await append_some(node, 5)
    await page(node, "consumer=one&types=key.*&limit=3")
    answer = await failure.ask(node)
    details = assert_refused(answer, failure.code, failure.status)
    assert details.get("reason") == failure.reason
    assert details["param"] == failure.param
    assert failure.step in details["next_step"]
    assert answer.json["error"]["message"][-1] in ".?"
    if failure.did_you_mean is None:
        assert "did_you_mean" not in details
    else:
        assert details["did_you_mean"] == failure.did_you_mean
        assert details["remove_params"] == [failure.param]
    await assert_free(node, answer)
    assert answer.headers["x-credits-used"] == "0"
    left = await page(node, "consumer=one&limit=3")
    assert (subjects(left), left["data"]["unread"]) == (["key_0", "key_1", "key_2"], 5), (
        "the failure changed the consumer"
    )


async def test_expired_cursor_returns_410_with_missed_span(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 5)
        items = (await page(node))["data"]["items"]
        await drop_before(node, 4)
        for cursor in (items[0]["cursor"], items[1]["cursor"]):
            answer = await node.get(f"{FEED}?cursor={cursor}")
            details = assert_refused(answer, "CURSOR_EXPIRED", 410)
            assert details.keys() == {
                "reason",
                "param",
                "next_step",
                "oldest_cursor",
                "missed_from",
                "missed_until",
            }
            assert (details["reason"], details["param"]) == ("retention_passed", "cursor")
            assert "cursor=oldest" in details["next_step"]
            assert unix(details["missed_from"]) <= unix(details["missed_until"]) <= unix(items[3]["created_at"])
            assert subjects(await page(node, f"cursor={details['oldest_cursor']}")) == ["key_3", "key_4"]
            await assert_free(node, answer)
        assert subjects(await page(node, f"cursor={items[2]['cursor']}")) == ["key_3", "key_4"], "no event was missed"
        assert subjects(await page(node, "cursor=oldest")) == ["key_3", "key_4"]


async def test_removed_event_returns_400_with_start_of_log(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 5)
        items = (await page(node))["data"]["items"]
        await drop_before(node, 4)
        for id_ in (items[0]["id"], items[2]["id"], "evt_unknown"):
            answer = await node.get(f"{FEED}?cursor={id_}")
            details = assert_refused(answer, "INVALID_REQUEST", 400)
            assert (details["reason"], details["param"]) == ("invalid_param", "cursor")
            assert details["retained_from"] == items[3]["created_at"]
            assert subjects(await page(node, f"cursor={details['oldest_cursor']}")) == ["key_3", "key_4"]
            await assert_free(node, answer)
        assert subjects(await page(node, f"cursor={items[3]['id']}")) == ["key_4"]


async def test_cursor_beyond_the_log_returns_400_with_start_of_log(tmp_path: Path) -> None:
    """Method: shorten the log, as if an older copy of the database had been restored."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        last = (await page(node))["pagination"]["next_cursor"]

        def lose(tx: Any) -> None:
            tx.run("UPDATE feeds SET last_pos = 2")
            tx.run("DELETE FROM events WHERE pos = 3")

        await node.node.stores.store.write(lose)
        details = assert_refused(await node.get(f"{FEED}?cursor={last}"), "INVALID_REQUEST", 400)
        assert subjects(await page(node, f"cursor={details['oldest_cursor']}")) == ["key_0", "key_1"]
        await page(node, "consumer=one")
        assert_refused(await ack(node, "one", last), "INVALID_REQUEST", 400)


class Away:
    """A store whose reads find nothing."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, fn: object) -> Any:
        raise StoreUnavailable("away")


async def test_unavailable_store_returns_503_with_retry_after(tmp_path: Path) -> None:
    reads = {
        "a page": get(""),
        "a position": get("cursor=now"),
        "a consumer's page": get("consumer=one"),
        "a long-poll": get("wait_s=25&cursor=now"),
        "an acknowledgement": acking({"cursor": "oldest"}),
    }
    async with open_test_node(tmp_path) as node:
        await page(node, "consumer=one")
        readers = node.node.feed.readers
        away = Away(readers.store)
        readers.pages._store = away  # type: ignore[assignment]
        readers.consumers._store = away  # type: ignore[assignment]
        object.__setattr__(readers, "store", away)
        for name, ask in reads.items():
            answer = await ask(node)
            details = assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
            assert details["reason"] == "store_unavailable", name
            assert details["next_step"]
            assert answer.headers["retry-after"] == "1"
            assert answer.json["credits_remaining"] is None
            assert "x-credits-remaining" not in answer.headers
