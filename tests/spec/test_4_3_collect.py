"""Section 4.3, rule 7: collect-until-N walks upstream pages and bills each consumed page; the rest is refunded.

Method: a test platform with pages of three, whose upstream the test controls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.rows import ROWS, Row, check_each
from upstreams.model.archetypes import AUTHOR_LIST, author
from upstreams.model.endpoint import Collect, Endpoint, Platform
from upstreams.model.params import Args, Param
from upstreams.model.steps import Call, Page, Steps

BOOKS = "/v1/shelf/books"
SPARE = 2


def _page(args: Args) -> Steps:
    number = args.position("p", 1)
    answer = yield Call(f"/page/{number}")
    following = {"p": number + 1} if answer.body["more"] else None
    return Page([author(id=str(id_)) for id_ in answer.body["ids"]], following)


SHELF = Platform(
    slug="shelf",
    title="Shelf",
    sources={"shelf": "https://shelf.test"},
    endpoints=(
        Endpoint(
            resource="books",
            summary="Everything on it.",
            archetype=AUTHOR_LIST,
            read=_page,
            params=(Param("limit", "How many.", "5", type="integer", default=5, minimum=1, maximum=50),),
            collect=Collect(per_page=3, spare_pages=SPARE),
        ),
    ),
    **FIELDS,
)
OPEN: dict[str, Any] = {"platforms": (SHELF,), "upstreams": {"defaults": {"retries": 0}}}


def serve_pages(node: OpenNode, *pages: list[int] | None) -> None:
    """Serve these pages, one after another. A page of None is a failure."""

    def script(asked: str) -> ScriptedAnswer:
        number = int(asked.rpartition("/")[2])
        ids = pages[number - 1]
        return json_answer({}, 500) if ids is None else json_answer({"ids": ids, "more": number < len(pages)})

    node.upstream.script = script


def ids_of(body: dict[str, Any]) -> list[int]:
    return [int(item["author"]["id"]) for item in body["data"]["items"]]


FULL = [list(range(start, start + 3)) for start in range(1, 31, 3)]


async def test_walk_returns_requested_items_and_is_charged_per_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        for limit, pages in ((1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (29, 10)):
            await node.renew()
            serve_pages(node, *FULL)
            body = (await node.get(f"{BOOKS}?limit={limit}")).json
            assert ids_of(body) == list(range(1, limit + 1))
            assert body["pagination"]["page_size"] == limit
            assert body["credits_used"] == pages == len(node.upstream.requests)
            said = [(entry["type"], entry["amount"]) for entry in await node.entries(body["request_id"])]
            assert said == [("refund", SPARE), ("deduction", -pages - SPARE)], (
                "the maximum is reserved, and the rest refunded"
            )
            assert body["credits_remaining"] == 100_000 - pages
            assert await node.money() == (100_000 - pages, 0)
            await node.assert_sound()


async def test_cursor_resumes_a_walk_within_a_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        for limit in (1, 2, 4, 5):
            serve_pages(node, *FULL[:4])
            seen: list[int] = []
            cursor, more = "", True
            while more:
                body = (await node.get(f"{BOOKS}?limit={limit}{cursor}")).json
                seen += ids_of(body)
                more = body["pagination"]["has_more"]
                cursor = f"&cursor={body['pagination']['next_cursor']}"
            assert seen == list(range(1, 13)), limit


async def test_walk_over_short_pages_reads_spare_pages_up_to_its_reservation(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        serve_pages(node, [1], [2], [3], [4], [5], [6])
        body = (await node.get(f"{BOOKS}?limit=6")).json
        assert (ids_of(body), body["credits_used"]) == ([1, 2, 3, 4], 4)
        assert body["pagination"]["has_more"] is True
        rest = (await node.get(f"{BOOKS}?limit=6&cursor={body['pagination']['next_cursor']}")).json
        assert (ids_of(rest), rest["credits_used"], rest["pagination"]["has_more"]) == ([5, 6], 2, False)


async def test_seen_items_are_skipped_and_page_without_new_items_is_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        serve_pages(node, [1, 2, 3], [1, 2, 3], [3, 4, 5])
        body = (await node.get(f"{BOOKS}?limit=5")).json
        assert (ids_of(body), body["credits_used"]) == ([1, 2, 3, 4, 5], 2)
        assert len(node.upstream.requests) == 3


async def test_walk_ended_by_a_failed_page_is_charged_for_earlier_pages_and_not_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        serve_pages(node, [1, 2, 3], None, [7, 8, 9])
        body = (await node.get(f"{BOOKS}?limit=9")).json
        assert (ids_of(body), body["credits_used"]) == ([1, 2, 3], 1)
        assert await node.net(body["request_id"]) == 1
        assert body["data"]["_warnings"]
        serve_pages(node, *FULL)
        rest = (await node.get(f"{BOOKS}?limit=9&cursor={body['pagination']['next_cursor']}")).json
        assert ids_of(rest) == list(range(4, 13))
        assert (await node.get(f"{BOOKS}?limit=9")).json["cached"] is False


async def test_walk_with_failed_first_page_is_fully_refunded(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        serve_pages(node, None)
        answer = await node.get(f"{BOOKS}?limit=9")
        assert_refused(answer, "UPSTREAM_ERROR", 502)
        entries = await node.entries(answer.json["request_id"])
        assert [(entry["type"], entry["amount"]) for entry in entries] == [("refund", 5), ("deduction", -5)]
        await assert_free(node, answer)


async def test_walk_requires_its_pages_and_uses_affordable_spare_pages(
    tmp_path: Path,
) -> None:
    async with open_test_node(tmp_path, credits=3, **OPEN) as node:
        serve_pages(node, *FULL)
        refused = await node.get(f"{BOOKS}?limit=10")
        details = assert_refused(refused, "INSUFFICIENT_CREDITS", 402)
        assert details == {"reason": "balance_too_low", "credits_required": 4}
        spent, _ = await node.new_key(node.account, credit_limit=2)
        refused = await node.get(f"{BOOKS}?limit=9", key=spent)
        assert assert_refused(refused, "KEY_BUDGET_EXCEEDED", 402)["credits_required"] == 3
        refused = await node.get(f"{BOOKS}?limit=9&max_credits=2")
        assert assert_refused(refused, "INSUFFICIENT_CREDITS", 402)["reason"] == "above_max_credits"
        assert node.upstream.requests == []
        body = (await node.get(f"{BOOKS}?limit=9")).json
        assert (len(ids_of(body)), body["credits_used"], body["credits_remaining"]) == (9, 3, 0)
        await node.assert_sound()


async def test_unused_walk_credits_return_to_key_counter(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **OPEN) as node:
        key, _ = await node.new_key(node.account, credit_limit=4)
        serve_pages(node, *FULL)
        for limit, cost in ((3, 1), (4, 2), (2, 1)):
            assert (await node.get(f"{BOOKS}?limit={limit}", key=key)).json["credits_used"] == cost
        assert (await node.get(f"{BOOKS}?limit=1", key=key)).status == 402


COLLECTING = tuple(row for row in ROWS if row.endpoint.collect is not None)


async def test_collecting_endpoint_declares_it_and_has_a_maximum_limit(tmp_path: Path) -> None:
    """2.3 and 2.4: the label has the price range and says that it is metered. A larger limit becomes the maximum."""
    await check_each(COLLECTING, _collecting_endpoint_declares_it, tmp_path)


async def _collecting_endpoint_declares_it(node: OpenNode, row: Row) -> None:
    listed = (await node.get(f"/v1/utility/endpoints?platform={row.platform.slug}")).json["data"]["endpoints"]
    (entry,) = [entry for entry in listed if entry["id"] == row.id]
    assert "metered" in entry["credits_label"]
    guide = (await node.get(f"/v1/utility/endpoint?id={row.id}")).json["data"]
    assert guide["pagination"]["limit"] == "collect-until-N"
    (limit,) = [param for param in row.endpoint.params if param.name == "limit"]
    assert limit.maximum is not None
    most = (await node.get(row.target(limit=limit.maximum, dry_run=1))).json["data"]
    beyond = (await node.get(row.target(limit=limit.maximum + 1, dry_run=1))).json["data"]
    assert beyond == most
    assert most["limit"] == limit.maximum
    assert await node.money() == (100_000, 0)
