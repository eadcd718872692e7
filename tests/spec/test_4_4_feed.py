"""Section 4.4, `GET /v1/events`: every parameter and rule, except for named consumers."""

from __future__ import annotations

from pathlib import Path

import trio

from events.log.kinds import KINDS
from tests.fakes.feeding import (
    FEED,
    alert,
    append,
    append_some,
    cursor_of,
    discovered,
    end,
    low,
    page,
    polling,
    revoked,
    subjects,
)
from tests.fakes.monitoring import made
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_refused


async def walk(node: OpenNode, query: str) -> list[str]:
    """Return the subjects of all pages from a query on, up to the first page without `has_more`."""
    found: list[str] = []
    cursor = "oldest"
    while True:
        body = await page(node, f"{query}&cursor={cursor}")
        found += subjects(body)
        cursor = cursor_of(body)
        if not body["pagination"]["has_more"]:
            return found


async def test_feed_is_free_oldest_first_with_each_event_once(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 23)
        for limit in (1, 7, 23, 24):
            assert await walk(node, f"limit={limit}") == [f"key_{number}" for number in range(23)]
        assert await node.money() == (100_000, 0)


async def test_feed_is_free_without_credits(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=0) as node:
        await append_some(node, 1)
        answer = await node.get(FEED)
        assert (answer.status, answer.json["credits_used"], answer.json["credits_remaining"]) == (200, 0, 0)


async def test_cursor_accepts_oldest_now_next_cursor_and_event_id(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        first = await page(node)
        assert first["data"]["items"] == (await page(node, "cursor=oldest"))["data"]["items"]
        now = await page(node, "cursor=now")
        assert (now["data"]["items"], now["pagination"]["has_more"]) == ([], False)
        assert cursor_of(now) == cursor_of(first)
        middle = first["data"]["items"][1]
        for place in (middle["id"], middle["cursor"]):
            assert subjects(await page(node, f"cursor={place}")) == ["key_2"]
        await append_some(node, 1, first=3)
        assert subjects(await page(node, f"cursor={cursor_of(now)}")) == ["key_3"]


async def test_types_select_types_families_and_all(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        account, key = node.account, node.key_id
        await append(node, revoked(account, 1), low(account), alert(account, key), discovered(account, key))
        every = ["key_1", account, "run_1", "dr_1"]
        rows = {
            "": every,
            "types=*": every,
            "types=key.revoked": ["key_1"],
            "types=discover.*": ["dr_1"],
            "types=monitor.*,credits.*": [account, "run_1"],
            "types=credits.low,key.*": ["key_1", account],
            "types=credits.exhausted": [],
            "types=discover.progress,*": every,
            "types=key.revoked,%20credits.low": ["key_1", account],
        }
        for query, found in rows.items():
            assert subjects(await page(node, query)) == found, query


async def test_every_type_is_a_filter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for type_ in KINDS:
            assert (await node.get(f"{FEED}?types={type_},{type_.partition('.')[0]}.*")).status == 200, type_


async def test_subject_ids_select_event_subjects_and_schedule_runs(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        account, key = node.account, node.key_id
        await append(
            node,
            alert(account, key, "run_1", "mon_1"),
            alert(account, key, "run_2", "mon_2"),
            discovered(account, key),
            revoked(account, 1),
        )
        rows = {
            "run_1": ["run_1"],
            "mon_1": ["run_1"],
            "mon_1,mon_2": ["run_1", "run_2"],
            "ds_1": ["dr_1"],
            "ds_1,run_2,key_1": ["run_2", "dr_1", "key_1"],
            "mon_3": [],
            "a%25b": [],
        }
        for ids, found in rows.items():
            assert subjects(await page(node, f"subject_id={ids}")) == found, ids
        assert subjects(await page(node, "subject_id=mon_1,ds_1&types=discover.*")) == ["dr_1"]


async def test_limit_is_1_to_500_and_defaults_to_100(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 501)
        for query, size in (("", 100), ("limit=1", 1), ("limit=500", 500)):
            body = await page(node, query)
            assert (body["pagination"]["page_size"], body["pagination"]["has_more"]) == (size, True)
            assert len(body["data"]["items"]) == size


async def test_cursor_stays_valid_when_filters_change(tmp_path: Path) -> None:
    """Rule 1: a cursor is a position in the whole log."""
    async with open_test_node(tmp_path) as node:
        account, key = node.account, node.key_id
        await append(node, revoked(account, 1), low(account), alert(account, key), revoked(account, 2), low(account))
        only = await page(node, "types=key.*&limit=1")
        assert subjects(only) == ["key_1"]
        assert subjects(await page(node, f"cursor={cursor_of(only)}&types=credits.*")) == [account, account]
        assert subjects(await page(node, f"cursor={cursor_of(only)}&subject_id=mon_1,key_2")) == ["run_1", "key_2"]
        assert subjects(await page(node, f"cursor={cursor_of(only)}")) == [account, "run_1", "key_2", account]


async def test_complete_page_moves_to_the_end_of_the_log(tmp_path: Path) -> None:
    """Rule 1, also for an empty page; a truncated page moves to its last event."""
    async with open_test_node(tmp_path) as node:
        await append(node, revoked(node.account, 1), low(node.account), revoked(node.account, 2), low(node.account))
        for query in ("", "types=key.*", "types=monitor.*", "subject_id=nobody", "limit=4"):
            body = await page(node, query)
            assert body["pagination"]["has_more"] is False, query
            assert cursor_of(body) == await end(node), query
        cut = await page(node, "limit=1")
        assert (cut["pagination"]["has_more"], cursor_of(cut)) == (True, cut["data"]["items"][0]["cursor"])


async def test_full_last_page_has_no_more(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 4)
        assert (await page(node, "limit=4"))["pagination"]["has_more"] is False
        assert (await page(node, "limit=3"))["pagination"]["has_more"] is True


async def test_empty_read_waits_for_an_event(tmp_path: Path) -> None:
    """Rule 2."""
    async with open_test_node(tmp_path) as node:
        cursor = await end(node)
        async with polling(node, f"cursor={cursor}&wait_s=25") as answer:
            began = trio.current_time()
            await append_some(node, 1)
            body = (await answer()).json
            assert trio.current_time() - began < 5
        assert subjects(body) == ["key_0"]


async def test_waiting_read_ends_empty_at_its_deadline(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        cursor = await end(node)
        began = trio.current_time()
        body = await page(node, f"cursor={cursor}&wait_s=1")
        assert 0.9 <= trio.current_time() - began < 5
        assert (body["data"]["items"], cursor_of(body)) == ([], cursor)


async def test_read_with_events_does_not_wait(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1)
        with trio.fail_after(5):
            assert subjects(await page(node, "wait_s=25")) == ["key_0"]


async def test_filtered_events_move_the_cursor_of_a_waiting_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1)
        cursor = await end(node)
        async with polling(node, f"cursor={cursor}&wait_s=1&types=monitor.*") as answer:
            await append_some(node, 1, first=1)
            body = (await answer()).json
        assert (body["data"]["items"], cursor_of(body)) == ([], await end(node))
        assert cursor_of(body) != cursor


async def test_sixth_waiting_read_returns_immediately_with_retry_time(tmp_path: Path) -> None:
    """Rule 2."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1, first=7)
        query = f"cursor={await end(node)}&wait_s=25"
        async with (
            polling(node, query) as first,
            polling(node, query) as second,
            polling(node, query) as third,
            polling(node, query) as fourth,
            polling(node, query) as fifth,
        ):
            with trio.fail_after(5):
                sixth = await node.get(f"{FEED}?{query}")
            assert (sixth.status, sixth.json["data"]["items"]) == (200, [])
            assert sixth.headers["x-poll-interval"].isdigit()
            assert int(sixth.headers["x-poll-interval"]) >= 1
            full = await node.get(f"{FEED}?cursor=oldest&wait_s=25")
            assert subjects(full.json) == ["key_7"], "the sixth read returns what there is"
            assert full.headers["x-poll-interval"].isdigit()
            assert "x-poll-interval" not in (await node.get(f"{FEED}?cursor=oldest")).headers, (
                "the sixth read must not wait"
            )
            other, _ = await node.new_key(node.account)
            async with polling(node, query, key=other) as of_another_key:
                await append_some(node, 1)
                for answer in (first, second, third, fourth, fifth, of_another_key):
                    answered = await answer()
                    assert subjects(answered.json) == ["key_0"]
                    assert "x-poll-interval" not in answered.headers
        with trio.fail_after(5):
            seventh = await node.get(f"{FEED}?{query}")
        assert subjects(seventh.json) == ["key_0"], "existing events are returned at any number of polls"


async def test_unchanged_page_returns_304_without_body(tmp_path: Path) -> None:
    """Rule 3: the entity tag changes only when the log grows, except on a truncated page."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        for query, status in (
            ("", 200),
            ("limit=2", 304),
            ("types=key.*", 200),
            ("cursor=now", 200),
            ("consumer=one&limit=2", 200),
        ):
            tag = (await node.get(f"{FEED}?{query}")).headers["etag"]
            again = await node.get(f"{FEED}?{query}", headers={"if-none-match": tag})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag), query
            assert again.headers["x-request-id"].startswith("req_")
            await append_some(node, 1)
            assert (await node.get(f"{FEED}?{query}", headers={"if-none-match": tag})).status == status, query


async def test_key_sees_its_own_and_account_wide_events(tmp_path: Path) -> None:
    """Rule 5."""
    async with open_test_node(tmp_path) as node:
        other, other_id = await node.new_key(node.account)
        await append(
            node,
            alert(node.account, node.key_id, "run_mine"),
            alert(node.account, other_id, "run_its"),
            low(node.account),
        )
        assert subjects(await page(node)) == ["run_mine", node.account]
        assert subjects(await page(node, key=other)) == ["run_its", node.account]
        assert subjects(await page(node, "subject_id=run_its,mon_1")) == ["run_mine"]
        its = (await page(node, key=other))["data"]["items"][0]
        refused = await node.get(f"{FEED}?cursor={its['id']}")
        assert_refused(refused, "INVALID_REQUEST", 400)
        cursor = its["cursor"]
        assert subjects(await page(node, f"cursor={cursor}")) == [node.account], (
            "a position counts all events of the account"
        )


async def test_monitor_outlives_its_key_and_becomes_account_wide(tmp_path: Path) -> None:
    """Rule 5; decisions 12: revoking a Monitor's key does not stop it, so its events become account-wide."""
    async with open_test_node(tmp_path) as node:
        maker, maker_id = await node.new_key(node.account)
        monitor = await made(node, key=maker)
        first = await node.operate("monitor.run", monitor=monitor, slot="2026-01-31T12:00:00Z")
        seen = f"types=monitor.*&subject_id={monitor}"
        assert (subjects(await page(node, seen)), subjects(await page(node, seen, key=maker))) == (
            [],
            [first["run_id"]],
        )
        await node.operate("key.revoke", key=maker_id)
        later = await node.operate("monitor.run", monitor=monitor, slot="2026-01-31T13:00:00Z")
        body = await page(node, seen)
        assert subjects(body) == [later["run_id"]]
        assert body["data"]["items"][0]["data"]["status"] == "ok"
        assert (await node.get(f"{FEED}?{seen}", key=maker)).code == "INVALID_API_KEY"
        await node.assert_sound()


async def test_odd_subject_ids_are_treated_as_ids(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await append_some(node, 1)
        for id_ in ("type/%C3%BC", "a,b", "%2A"):
            assert subjects(await page(node, f"subject_id={id_}")) == []
            assert subjects(await page(node, f"subject_id={id_},key_0")) == ["key_0"]
