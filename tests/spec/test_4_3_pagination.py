"""Section 4.3: the pagination contract, for every list endpoint of the catalog, with the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes.long_lists import WALKS, LongList, ids_of
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.rows import ROWS, Row, Rows, check_each, check_rows, every_platform_lists

PAGES_MAX = 60
FOREIGN = (
    "after",
    "before",
    "continuation",
    "max_id",
    "next_token",
    "offset",
    "page",
    "page_token",
    "since_id",
    "skip",
    "start",
)


ROWS_OF_A_PAGE = 10
"""Few enough for several pages of most stand-ins.

A walk with this limit ends at the end of a page also if the upstream sets the page size, so it reads no page twice.
"""


def has_limit(row: Row) -> bool:
    return any(param.name == "limit" for param in row.endpoint.params)


async def walk(node: OpenNode, row: Row, **params: object) -> list[dict[str, Any]]:
    """Return the body of every page up to the last one."""
    pages: list[dict[str, Any]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        assert len(pages) < PAGES_MAX, "the sandbox has no last page"
        answer = await node.get(row.target(**params, cursor=cursor))
        assert answer.status == 200, answer.body
        pages.append(answer.json)
        cursor = pages[-1]["pagination"]["next_cursor"]
    return pages


@every_platform_lists
async def test_list_follows_the_pagination_contract(rows: Rows, node: OpenNode) -> None:
    await check_rows(node, rows, _list_follows_the_pagination_contract)


async def _list_follows_the_pagination_contract(node: OpenNode, row: Row) -> None:
    await _walk_ends_and_returns_everything_once(node, row)
    await _foreign_cursor_is_rejected_for_free(node, row)


async def _walk_ends_and_returns_everything_once(node: OpenNode, row: Row) -> None:
    """Rules 1 to 4 and 7."""
    pages = await walk(node, row, **({"limit": ROWS_OF_A_PAGE} if has_limit(row) else {}))
    records = (record_of(row, item) for page in pages for item in page["data"]["items"])
    ids = [record.get("id") or record["url"] for record in records]  # linked objects have no id
    assert len(ids) == len(set(ids))
    assert ids
    for page in pages:
        assert_page(page, limit=ROWS_OF_A_PAGE if has_limit(row) else None)
    assert [page["pagination"]["has_more"] for page in pages] == [True] * (len(pages) - 1) + [False]
    each = 1 if row.endpoint.price is None else row.endpoint.price.least
    paid = [page for page in pages if page["data"]["items"]]
    assert await node.money() == (100_000 - each * len(paid), 0)


def record_of(row: Row, item: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = item[row.endpoint.archetype.key]
    return record


def assert_page(page: dict[str, Any], *, limit: int | None) -> None:
    pagination = page["pagination"]
    assert pagination.keys() == {"next_cursor", "has_more", "page_size"}
    assert pagination["page_size"] == len(page["data"]["items"])
    assert pagination["has_more"] is (pagination["next_cursor"] is not None)
    assert limit is None or pagination["page_size"] <= limit
    if pagination["next_cursor"] is not None:
        assert pagination["next_cursor"].startswith("cur_")
        assert quote(pagination["next_cursor"], safe="") == pagination["next_cursor"], "a cursor needs no encoding"


async def _foreign_cursor_is_rejected_for_free(node: OpenNode, row: Row) -> None:
    """Rules 5 and 6."""
    first = (await node.get(row.target())).json
    balance = (await node.money())[0]
    asked = len(node.upstream.requests)
    for name in FOREIGN:
        refused = assert_refused(await node.get(row.target(**{name: "2"})), "INVALID_REQUEST", 400)
        assert (refused["did_you_mean"], refused["param"], refused["remove_params"]) == ("cursor", name, [name])
    cursors = ["2", "cur_", "cur_AAAA", "cur_" + "A" * 40, "cur_!", "cur_" + "A" * 5000]
    if (given := first["pagination"]["next_cursor"]) is not None:
        places = (4, len(given) // 2, len(given) - 1)
        cursors += [f"{given[:at]}{'A' if given[at] != 'A' else 'B'}{given[at + 1 :]}" for at in places]
        cursors += [given + "A", given + "=", given[:-2], given.upper()]
    for cursor in cursors:
        refused = assert_refused(await node.get(row.target(cursor=cursor)), "INVALID_REQUEST", 400)
        assert refused["param"] == "cursor"
    assert len(node.upstream.requests) == asked
    assert await node.money() == (balance, 0)


async def assert_cursor_refused(node: OpenNode, target: str) -> None:
    answer = await node.get(target)
    assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == "cursor"
    await assert_free(node, answer)


async def test_cursor_is_bound_to_endpoint_and_parameters(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        first = await node.get("/v1/github/search?query=trio&limit=3")
        cursor = first.json["pagination"]["next_cursor"]
        for target in (
            f"/v1/github/search?query=other&limit=3&cursor={cursor}",
            f"/v1/github/search?query=trio&limit=4&cursor={cursor}",
            f"/v1/github/search?query=trio&limit=3&sort=created&cursor={cursor}",
            f"/v1/github/search/repos?query=trio&limit=3&cursor={cursor}",
            f"/v1/credits/transactions?cursor={cursor}",
        ):
            await assert_cursor_refused(node, target)
        spelt_otherwise = f"/v1/github/search?limit=3&cursor={cursor}&sort=&query=trio&max_credits=1"
        assert (await node.get(spelt_otherwise)).status == 200


async def test_limit_is_page_size_capped_at_upstream_maximum(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for sent, mapped in ((1, 1), (3, 3), (100, 100), (101, 100), (9999, 100)):
            node.upstream.requests.clear()
            answer = await node.get(f"/v1/github/search?query=trio&limit={sent}", headers={"cache-control": "no-cache"})
            assert answer.json["pagination"]["page_size"] <= mapped
            assert f"per_page={mapped}" in node.upstream.requests[0].split("?")[1].split("&")


async def test_empty_page_and_total_are_not_stop_signals(tmp_path: Path) -> None:
    """Rule 3: only `has_more` counts, whatever total the upstream returns."""
    async with open_test_node(tmp_path) as node:
        for total in (0, 1):
            node.upstream.always(json_answer({"items": [], "has_more": True, "total": total}))
            page = (await node.get(f"/v1/stackexchange/questions?tagged=trio{total}")).json
            assert (page["data"]["items"], page["pagination"]["has_more"]) == ([], True)
            assert page["credits_used"] == 0
            node.upstream.always(json_answer({"items": [], "has_more": False}))
            cursor = page["pagination"]["next_cursor"]
            last = (await node.get(f"/v1/stackexchange/questions?tagged=trio{total}&cursor={cursor}")).json
            assert last["pagination"] == {"next_cursor": None, "has_more": False, "page_size": 0}


COLLECTING = tuple(row for row in ROWS if row.id in WALKS)
"""The endpoints whose upstreams `LongList` imitates."""


async def test_limit_may_collect_items_and_each_page_is_billed(tmp_path: Path) -> None:
    """Rule 7: pages are walked until there are enough unique items, and the rest of the reservation is refunded."""
    await check_each(COLLECTING, _limit_collects_items, tmp_path)


async def _limit_collects_items(node: OpenNode, row: Row) -> None:
    pages = node.upstream.script = LongList(rows=700)
    for sent, collected, cost in ((1, 1, 1), (100, 100, 1), (101, 101, 2), (500, 500, 5), (9999, 500, 5)):
        answer = await node.get(row.target(limit=sent), headers={"cache-control": "no-cache"})
        assert ids_of(answer.json) == list(range(collected))
        assert_page(answer.json, limit=collected)
        assert answer.json["credits_used"] == cost == await node.net(answer.json["request_id"])
    assert len(pages.asked) == 1 + 1 + 2 + 5 + 5
    assert await node.money() == (100_000 - 14, 0)


STALE = {
    "an upstream that only fails": (
        "/v1/github/repo/issues?url=https://github.com/python-trio/trio&limit=3",
        json_answer({"message": "Validation Failed", "errors": [{"resource": "Issue", "message": "bad cursor"}]}, 422),
    ),
    "an upstream that names the cursor": (
        "/v1/bluesky/followers?handle=ada.test&limit=3",
        json_answer({"error": "InvalidRequest", "message": "Malformed cursor"}, 400),
    ),
}


@pytest.mark.parametrize(("target", "refusal"), STALE.values(), ids=STALE.keys())
async def test_cursor_unknown_to_upstream_is_free(target: str, refusal: ScriptedAnswer, tmp_path: Path) -> None:
    """Rule 6 and decisions 10: 502 for every repetition; without the cursor, the list starts over."""
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        cursor = (await node.get(target)).json["pagination"]["next_cursor"]
        node.upstream.always(refusal)
        for _ in range(2):
            answer = await node.get(f"{target}&cursor={cursor}")
            assert_refused(answer, "UPSTREAM_ERROR", 502)
            await assert_free(node, answer)
        node.upstream.always(None)
        assert (await node.get(target, headers={"cache-control": "no-cache"})).status == 200
        assert await node.money() == (99_998, 0)


async def test_transactions_follow_the_pagination_contract(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number in range(7):
            assert (await node.get(f"/v1/github/profile?handle=user{number}")).status == 200
        seen: list[str] = []
        target = "/v1/credits/transactions?limit=3"
        cursor = ""
        while True:
            page = (await node.get(target + cursor)).json
            seen += [item["id"] for item in page["data"]["items"]]
            assert_page(page, limit=3)
            if not page["pagination"]["has_more"]:
                break
            cursor = f"&cursor={page['pagination']['next_cursor']}"
        assert len(seen) == len(set(seen)) == 8  # seven deductions and the account's initial credits
        refused = assert_refused(await node.get(f"{target}&page=2"), "INVALID_REQUEST", 400)
        assert refused["did_you_mean"] == "cursor"
        await assert_cursor_refused(node, f"{target}&cursor=cur_AAAA")
