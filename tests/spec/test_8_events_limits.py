"""Section 8: the limits of the events feed, at each limit and one beyond it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import trio

from gateway.config.settings import Config
from gateway.feed.queries import LIMIT_DEFAULT, LIMIT_MAX, SUBJECTS_MAX, WAIT_S_MAX
from tests.fakes.feeding import CONSUMERS, FEED, append_some, end, page, polling, post
from tests.fakes.node import open_test_node
from tests.spec.raw import raw_request
from tests.spec.refusals import assert_refused

ACCEPTED = (
    "limit=1",
    "limit=500",
    "wait_s=0",
    "subject_id=" + ",".join(f"run_{number}" for number in range(100)),
    "subject_id=" + ",".join(f"run_{number:0>40}" for number in range(100)),
    "consumer=a",
    f"consumer={'z' * 64}",
    "consumer=a-z_0-9_",
)
"""Values at their limits. `test_7_4_feed_failures.py` has those beyond a limit."""
REJECTED_IN_NAMES = "A./: é\n%"


def test_limits_match_the_specification() -> None:
    assert (LIMIT_MAX, LIMIT_DEFAULT, WAIT_S_MAX, SUBJECTS_MAX) == (500, 100, 25, 100)
    assert (Config().limits.long_polls, Config().events.retention_days) == (5, 30)


async def test_value_at_its_limit_is_accepted(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for query in ACCEPTED:
            await page(node, query)


async def test_consumer_name_rejects_other_characters(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for one in REJECTED_IN_NAMES:
            answer = await node.get(f"{FEED}?consumer=a{quote(one, safe='')}b")
            assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == "consumer", one


async def test_wait_of_25_seconds_waits_and_0_returns_immediately(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        cursor = await end(node)
        with trio.fail_after(2):
            await page(node, f"cursor={cursor}&wait_s=0")
        async with polling(node, f"cursor={cursor}&wait_s=25") as answer:
            await trio.sleep(0.2)
            await append_some(node, 1)
            assert (await answer()).status == 200


async def test_long_polls_per_key_follow_config(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"long_polls": 1}) as node:
        query = f"cursor={await end(node)}&wait_s=25"
        async with polling(node, query):
            with trio.fail_after(5):
                second = await node.get(f"{FEED}?{query}")
            assert int(second.headers["x-poll-interval"]) >= 1


async def test_waiting_polls_count_as_concurrent_requests(tmp_path: Path) -> None:
    """Decisions 13."""
    async with open_test_node(tmp_path, limits={"concurrent_requests": 2}) as node:
        query = f"cursor={await end(node)}&wait_s=25"
        async with polling(node, query), polling(node, query):
            assert_refused(await node.get(FEED), "CONCURRENCY_LIMIT", 429)
            assert_refused(await node.get("/v1/credits/balance"), "CONCURRENCY_LIMIT", 429)


async def test_key_has_at_most_100_consumers(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number in range(100):
            await page(node, f"consumer=c{number}")
        refused = await node.get(f"{FEED}?consumer=c100")
        details = assert_refused(refused, "INVALID_REQUEST", 400)
        assert (details["reason"], details["param"]) == ("consumer_limit_reached", "consumer")
        assert (await node.get(f"{FEED}?consumer=c99")).status == 200
        assert (await node.get(f"{CONSUMERS}/c0", method="DELETE")).status == 204
        assert (await node.get(f"{FEED}?consumer=c100")).status == 200


async def test_json_body_is_limited_to_1_mb(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await page(node, "consumer=one")
        fits = b'{"cursor":"oldest"' + b" " * (1_000_000 - 19) + b"}"
        assert len(fits) == 1_000_000
        assert (await post(node, f"{CONSUMERS}/one/ack", fits)).status == 200
        head = (f"POST {CONSUMERS}/one/ack HTTP/1.1", f"x-api-key: {node.key}")
        declared = await raw_request(node.url, (*head, "content-length: 1000001"))
        assert_refused(declared, "PAYLOAD_TOO_LARGE", 413)
        chunked = b"%x\r\n%b \r\n" % (len(fits) + 1, fits)
        assert_refused(
            await raw_request(node.url, (*head, "transfer-encoding: chunked"), chunked), "PAYLOAD_TOO_LARGE", 413
        )


async def test_issued_cursor_is_accepted_and_an_overlong_one_rejected(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1)
        await node.node.stores.store.write(
            lambda tx: tx.run("UPDATE feeds SET last_pos = 1 WHERE account_id = ?", (node.account,))
        )
        cursor = await end(node)
        assert re.fullmatch(r"cur_[\w-]+", cursor)
        assert (await node.get(f"{FEED}?cursor={cursor}")).status == 200
        assert_refused(await node.get(f"{FEED}?cursor=cur_{'A' * 5000}"), "INVALID_REQUEST", 400)


async def test_waiting_poll_with_revoked_key_ends_with_401(tmp_path: Path) -> None:
    """For any filter of the poll, even if none of its events has arrived."""
    async with open_test_node(tmp_path) as node:
        for reader in ("cursor=now", "consumer=mine"):
            key, key_id = await node.new_key(node.account)
            async with polling(node, f"{reader}&types=credits.low&wait_s=25", key=key) as answer:
                with trio.fail_after(10):
                    await node.operate("key.revoke", key=key_id)
                    assert_refused(await answer(), "INVALID_API_KEY", 401)
