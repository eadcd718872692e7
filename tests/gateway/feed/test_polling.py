"""Long-polls: what wakes them and what does not, how many a key may hold, how they end, and what they release."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from events.log.log import Fact
from tests.fakes import feeding
from tests.fakes.calling import Answered
from tests.fakes.feeding import CONSUMERS, FEED, ack, append, append_some, cursor_of, end, low, page, polling, subjects
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.fakes.upstream_server import until
from tests.gate.matrix import sample

ENGINES = ("native", "hypercorn")
ROOMY = {"limits": {"requests_per_minute": 100_000, "concurrent_requests": 1000, "long_polls": 1000}}


def facts_of(node: OpenNode) -> dict[str, Fact]:
    """Return events of each kind, by what they are to the node's key."""
    return {
        "own": feeding.alert(node.account, node.key_id, "run_1", "mon_1"),
        "another key's": feeding.alert(node.account, "key_of_another", "run_2", "mon_1"),
        "its account's": low(node.account),
        "another account's": feeding.revoked("acc_of_another"),
        "a discover run": feeding.discovered(node.account, node.key_id),
    }


WAKES: dict[str, tuple[str, ...]] = {
    "": ("its account's",),
    "types=credits.*,discover.*": ("its account's",),
    "subject_id=run_9,run_1": ("own",),
    "types=monitor.*&subject_id=mon_1": ("its account's", "another key's", "own"),
}
"""Queries of polls, and the events of a transaction that wakes them with one event."""
LETS_SLEEP: dict[str, tuple[str, ...]] = {
    "": ("another key's", "another account's"),
    "types=key.*": ("its account's",),
    "types=monitor.*&subject_id=mon_2,ds_2": ("own", "a discover run"),
}
"""Queries of polls, and events that wake none of them. `tests/events/waking/test_notifier.py` has all kinds."""


@pytest.mark.parametrize("as_consumer", [False, True], ids=["by cursor", "as a consumer"])
async def test_matching_event_wakes_a_poll(as_consumer: bool, node: OpenNode) -> None:
    for number, (query, kinds) in enumerate(WAKES.items()):
        place = f"consumer=c{number}&start=now" if as_consumer else f"cursor={await end(node)}"
        async with polling(node, f"{place}&{query}&wait_s=25") as answer:
            await append(node, *[facts_of(node)[kind] for kind in kinds])
            with trio.fail_after(5):
                body = (await answer()).json
        assert len(body["data"]["items"]) == 1, query
        assert cursor_of(body) == await end(node)


@BRISKLY
@pytest.mark.parametrize("as_consumer", [False, True], ids=["by cursor", "as a consumer"])
async def test_nonmatching_event_wakes_no_poll(as_consumer: bool, node: OpenNode) -> None:
    """Such an event causes no read of the store. The poll reads it once, at its end."""
    for number, (query, kinds) in enumerate(LETS_SLEEP.items()):
        place = f"consumer=c{number}&start=now" if as_consumer else f"cursor={await end(node)}"
        async with polling(node, f"{place}&{query}&wait_s=1") as answer:
            for _ in range(3):
                await append(node, *[facts_of(node)[kind] for kind in kinds])
            await trio.sleep(0.1)
            assert node.node.feed.hub.parked() == 1, query
            body = (await answer()).json
        assert body["data"]["items"] == [], query
        assert cursor_of(body) == await end(node)


async def test_consumer_deleted_during_its_poll_is_not_recreated(node: OpenNode) -> None:
    await append_some(node, 3)
    async with polling(node, "consumer=one&start=now&wait_s=25") as answer:
        assert (await node.get(f"{CONSUMERS}/one", method="DELETE")).status == 204
        await append_some(node, 1, first=3)
        answered = await answer()
    assert (answered.status, answered.json["error"]["details"]["reason"]) == (404, "unknown_consumer")
    assert (await node.get(CONSUMERS)).json["data"]["items"] == []
    again = await node.get(f"{FEED}?consumer=one")
    assert len(subjects(again.json)) == 4, "a later read creates the consumer again"


async def test_woken_poll_returns_the_whole_transaction(node: OpenNode) -> None:
    query = f"cursor={await end(node)}&wait_s=25"
    async with polling(node, query) as answer, polling(node, query):
        assert await node.gauge("sluice_events_waiting") == 2
        assert await node.gauge("sluice_events_reads_waiting") == 0
        await append_some(node, 40)
        assert subjects((await answer()).json) == [f"key_{number}" for number in range(40)]
    await append(node, low(node.account))
    assert await node.gauge('sluice_events_appended_total{type="key.revoked"}') == 40
    assert await node.gauge('sluice_events_appended_total{type="credits.low"}') == 1
    await assert_nothing_left(node)


async def test_poll_overtaken_by_retention_is_rejected(node: OpenNode) -> None:
    await append_some(node, 2)

    def overtake(tx: Any) -> None:
        node.node.stores.feed.append(tx, [feeding.revoked(node.account, number) for number in range(3)])
        tx.run("UPDATE feeds SET first_pos = 5 WHERE account_id = ?", (node.account,))

    async with polling(node, f"cursor={await end(node)}&wait_s=25") as answer:
        await node.node.stores.store.write(overtake)
        with trio.fail_after(5):
            answered = await answer()
    assert (answered.status, answered.json["error"]["type"]) == (410, "CURSOR_EXPIRED")
    await assert_nothing_left(node)


async def polls_of(node: OpenNode, query: str, count: int, nursery: trio.Nursery) -> list[Answered]:
    """Start polls, and wait until all of them wait. Their responses will be in the list."""
    answers = list[Answered]()

    async def poll() -> None:
        answers.append(await node.get(f"{FEED}?{query}&wait_s=25"))

    for _ in range(count):
        nursery.start_soon(poll)
    await until(lambda: node.node.feed.hub.parked() == count)
    return answers


async def test_polls_that_wake_together_get_their_own_pages(tmp_path: Path) -> None:
    """Method: each response, which may be shared with another poll, is compared with a later read."""
    async with open_test_node(tmp_path, **ROOMY) as node:
        await append_some(node, 2)
        other = await node.node.stores.billing.keys.create(node.account)
        queries = ("", "limit=50", "types=*", "types=credits.*,monitor.*", "types=credits.*", "subject_id=run_1")
        cursor, answers = await end(node), dict[tuple[str, str, int], Answered]()

        async def poll(key: str, query: str, nth: int) -> None:
            target = f"{FEED}?cursor={cursor}&wait_s=25&{query}"
            answers[key, query, nth] = await node.get(target, key=key)

        async with trio.open_nursery() as nursery:
            polls = [(key, query, nth) for nth in range(3) for query in queries for key in (node.key, other.key)]
            for one in polls:
                nursery.start_soon(poll, *one)
            await until(lambda: node.node.feed.hub.parked() == len(polls))
            mine, theirs = (feeding.alert(node.account, key_id) for key_id in (node.key_id, other.id))
            await append(node, low(node.account), mine, theirs)
        assert len(answers) == len(polls)
        for (key, query, _), answer in answers.items():
            alone = await node.get(f"{FEED}?cursor={cursor}&{query}", key=key)
            assert answer.json["data"] == alone.json["data"]
            assert answer.json["pagination"] == alone.json["pagination"]
            assert answer.headers["etag"] == alone.headers["etag"]


@pytest.mark.parametrize("seed", sample(range(6), share=3))
async def test_polling_reader_gets_each_event_once_in_order(seed: int, tmp_path: Path) -> None:
    """Reads and waits race with appends: an event that is appended in between is neither missed nor delayed."""
    rng, count = Random(seed), 60
    async with open_test_node(tmp_path, **ROOMY) as node:
        found: dict[str, list[str]] = {"by cursor": [], "as a consumer": []}

        async def produce() -> None:
            number = 0
            while number < count:
                size = min(rng.randint(1, 3), count - number)
                await append_some(node, size, first=number)
                number += size
                await trio.sleep(rng.choice((0, 0, 0.0005, 0.002, 0.01)))

        async def by_cursor() -> None:
            cursor, mine = "oldest", found["by cursor"]
            while len(mine) < count:
                body = await page(node, f"cursor={cursor}&wait_s=25&limit={rng.randint(1, 4)}")
                mine += subjects(body)
                cursor = cursor_of(body)

        async def as_consumer() -> None:
            mine = found["as a consumer"]
            while len(mine) < count:
                body = await page(node, f"consumer=one&wait_s=25&limit={rng.randint(1, 4)}")
                mine += subjects(body)
                assert (await ack(node, "one", cursor_of(body))).json["data"]["unread"] >= 0

        with trio.fail_after(20):  # shorter than `wait_s`, so that a missed wake-up fails the test
            async with trio.open_nursery() as nursery:
                for task in (produce, by_cursor, as_consumer):
                    nursery.start_soon(task)
        assert found == {name: [f"key_{number}" for number in range(count)] for name in found}
        await assert_nothing_left(node)


async def test_polls_that_begin_together_end_at_different_times_and_not_early(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ROOMY) as node:
        cursor, took = await end(node), list[float]()

        async def poll() -> None:
            began = trio.current_time()
            answer = await node.get(f"{FEED}?cursor={cursor}&wait_s=2")
            assert float(answer.headers["x-sluice-overhead-ms"]) < 500, "waiting is not overhead"
            took.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(poll)
        assert min(took) >= 2 * 0.96
        assert max(took) - min(took) > 0.01
        assert await node.gauge("sluice_overhead_seconds_sum") < 10


@pytest.mark.parametrize("engine", ENGINES)
async def test_stopping_node_answers_polls_with_an_unchanged_cursor(engine: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"port": 0, "drain_s": 5, "engine": engine}, **ROOMY) as node:
        async with polling(node, f"cursor={await end(node)}&wait_s=25") as answer:
            await append_some(node, 1)
            with trio.fail_after(5):
                assert subjects((await answer()).json) == ["key_0"]
        cursor = await end(node)
        async with trio.open_nursery() as nursery:
            answers = await polls_of(node, f"cursor={cursor}", 20, nursery)
            node.node.draining.set()
        for one in answers:
            assert (one.status, one.json["data"]["items"], cursor_of(one.json)) == (200, [], cursor)
            assert one.headers["connection"] == "close"
        intervals = {int(one.headers["x-poll-interval"]) for one in answers}
        assert intervals <= {1, 2, 3, 4, 5}
        assert len(intervals) > 1, "all polls would return at the same time"
        await assert_nothing_left(node)


LEAVES: dict[str, tuple[bytes, bool]] = {
    "closes": (b"", True),
    "half-closes": (b"", False),
    "closes after a pipelined request": (b"GET /v1/status HTTP/1.1\r\nhost: a\r\n\r\n", True),
    "closes after more pipelined bytes than are buffered": (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 2500, True),
}


@pytest.mark.parametrize("engine", ENGINES)
async def test_disconnected_client_frees_its_slot_within_a_second(engine: str, tmp_path: Path) -> None:
    """Hypercorn does not read beyond a request, so with it, such polls end at their time limit."""
    leaves = [(behind, whole) for behind, whole in LEAVES.values() if engine == "native" or not behind]
    async with open_test_node(tmp_path, server={"port": 0, "engine": engine}, limits={"long_polls": 1}) as node:
        query = f"{FEED}?cursor={await end(node)}&wait_s=25"
        host, port = node.url.removeprefix("http://").split(":")
        head = f"GET {query} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {node.key}\r\n\r\n"
        for behind, whole in leaves:
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(head.encode())
                await until(lambda: node.node.feed.hub.parked() == 1)
                if behind:
                    with trio.move_on_after(0.5):
                        await stream.send_all(behind)
                await (stream.aclose() if whole else stream.send_eof())
                left_at = trio.current_time()
                await until(lambda: not node.node.feed.hub.parked())
                assert trio.current_time() - left_at < 5, "a second, plus the delays of a busy machine"
            await assert_nothing_left(node)


async def assert_nothing_left(node: OpenNode) -> None:
    """Check that no reader waits and that no slot is held."""
    hub, limit, gate = node.node.feed.hub, node.node.feed.polls.per_key, node.node.admission.gate
    with trio.fail_after(5):
        await until(lambda: not (len(hub) or gate.statistics().leases))
    held = [await gate.hold(node.account, node.key_id, name="polls", limit=limit) for _ in range(limit)]
    assert None not in held, "a poll that has ended still holds its slot"
    for one in held:
        if one is not None:
            one.release()
