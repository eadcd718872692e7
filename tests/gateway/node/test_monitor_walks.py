"""Runs of monitors that collect several pages of rows: pages, rows, credits and reasons, on a whole node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from tests.fakes.long_lists import LongList
from tests.fakes.monitoring import LIKES, make
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS
from upstreams.sandbox.rehearse import example_values

LISTS = [row for row in ROWS if row.endpoint.archetype.many]
ONE_TRY = {"upstreams": {"defaults": {"retries": 0}}}
SLOT = "2026-01-31T12:00:00Z"


@dataclass(slots=True)
class Questions:
    """A script for `Upstream`: Stack Exchange's questions, at most `page_max` per page.

    Each page begins with the last `overlap` rows of the previous one, as when the list has moved. The page `fails_at`,
    counted from 1, is an error; `delays_s` is the duration of each page. `asked` holds the pages and their sizes.
    """

    rows: int = 1000
    page_max: int = 100
    overlap: int = 0
    fails_at: int = 0
    delays_s: Mapping[int, float] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, asked: str) -> ScriptedAnswer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(f"//{asked}").query).items()}
        page, size = int(query["page"]), int(query["pagesize"])
        self.asked.append((page, size))
        if page == self.fails_at:
            return json_answer({}, 500)
        each = min(size, self.page_max)
        start = (page - 1) * each
        rows = [
            {"question_id": row, "title": f"Question {row}", "score": 2 * row}
            for row in range(max(0, start - self.overlap), min(start + each, self.rows))
        ]
        body = json_answer({"items": rows, "has_more": start + each < self.rows})
        return ScriptedAnswer(200, body.body, body.headers, delay_s=self.delays_s.get(page, 0.0))


def monitor_request(max_rows: int | None, recipe: str = "stackexchange/questions", **params: Any) -> dict[str, Any]:
    track = {"metrics": [LIKES], **({} if max_rows is None else {"max_rows": max_rows})}
    return {"recipe": recipe, "params": params, "cadence": "daily", "track": track}


async def run_once(node: OpenNode, monitor_id: str) -> dict[str, Any]:
    """Run a monitor once and return its record, after checking that the statement has the same cost."""
    record: dict[str, Any] = await node.operate("monitor.run", monitor=monitor_id, slot=SLOT)
    assert await node.net(record["run_id"]) == record["credits_used"]
    return record


async def numbers(node: OpenNode, monitor_id: str) -> dict[str, Any]:
    (run,) = (await node.get(f"/v1/monitors/{monitor_id}/runs?include=numbers")).json["data"]["items"]
    found: dict[str, Any] = run["numbers"]
    return found


# For each list: the pages read, the rows, the billed pages, and the status of the run.
WALKS = {
    "two full pages": (Questions(), [1, 2], 200, 2, "ok"),
    "a list that ends early": (Questions(rows=130), [1, 2], 130, 2, "ok"),
    "a list of one page": (Questions(rows=40), [1], 40, 1, "ok"),
    "short pages": (Questions(page_max=80), [1, 2, 3], 200, 3, "ok"),
    "pages that overlap": (Questions(overlap=30), [1, 2], 200, 2, "ok"),
    "a second page that fails": (Questions(fails_at=2), [1, 2], 100, 1, "partial"),
    "a third page that fails": (Questions(page_max=80, fails_at=3), [1, 2, 3], 160, 2, "partial"),
    "more pages than are reserved": (Questions(page_max=20), [1, 2, 3, 4, 5, 6], 120, 6, "ok"),
}


@pytest.mark.parametrize("row", WALKS.values(), ids=WALKS.keys())
async def test_list_is_walked_until_the_run_has_its_rows(row: tuple[Any, ...], tmp_path: Path) -> None:
    """Each page costs the recipe's price, and the rest of the reservation is refunded when the run ends."""
    questions, pages, rows, billed, status = row
    async with open_test_node(tmp_path, **ONE_TRY) as node:
        questions.asked.clear()
        node.upstream.script = questions
        monitor = (await make(node, monitor_request(200)))["monitor"]
        assert (monitor["rows_asked"], monitor["estimated_cost_per_run"], monitor["estimated_monthly_cost"]) == (
            *(200, 3),
            90,
        )
        record = await run_once(node, monitor["id"])
        assert questions.asked == [(page, 100) for page in pages]
        assert (record["status"], record["rows"], record["credits_used"]) == (status, rows, billed + 1)
        (leg,) = record["legs"]
        assert (leg["status"], leg["pages"], leg["pages_needed"]) == (status, billed, 2)
        assert (leg["rows"], leg["rows_asked"], leg["credits_used"]) == (rows, 200, billed)
        why = f"{rows} of 200 items were collected: page {billed + 1} could not be read (api: status 500)"
        assert record["warnings"] == ([why] if status == "partial" else [])
        assert await numbers(node, monitor["id"]) == {str(one): {LIKES: 2 * one} for one in range(rows)}
        taken = sorted(entry["amount"] for entry in await node.entries(record["run_id"]))
        assert taken == [-7, 6 - billed] if billed < 6 else [-7]
        await node.assert_sound()


ONE_READ = {
    "no max_rows": (monitor_request(None), 20),
    "a limit below max_rows": (monitor_request(200, limit=50), 50),
    "a limit above max_rows": (monitor_request(10, limit=50), 50),
}


@pytest.mark.parametrize(("body", "size"), ONE_READ.values(), ids=ONE_READ.keys())
async def test_run_without_more_rows_than_its_limit_reads_one_page(
    body: dict[str, Any], size: int, tmp_path: Path
) -> None:
    async with open_test_node(tmp_path, **ONE_TRY) as node:
        node.upstream.script = questions = Questions()
        monitor = (await make(node, body))["monitor"]
        assert (monitor["rows_asked"], monitor["estimated_cost_per_run"]) == (size, 2)
        assert monitor["track"] == {"row_key": "post.id", "max_rows": 100, **body["track"]}
        record = await run_once(node, monitor["id"])
        assert (questions.asked, record["status"]) == ([(1, size)], "ok")
        assert (record["rows"], record["credits_used"]) == (size, 2)
        assert "pages" not in record["legs"][0]
        assert len(await numbers(node, monitor["id"])) == min(size, body["track"].get("max_rows", 100))
        assert [entry["amount"] for entry in await node.entries(record["run_id"])] == [-2]
        await node.assert_sound()


@pytest.mark.parametrize(("max_rows", "pages", "most"), [(200, [(0, 100), (1, 100)], -7), (7, [(0, 7)], -6)])
async def test_collecting_endpoint_gets_the_rows_parameter(
    max_rows: int, pages: list[tuple[int, int]], most: int, tmp_path: Path
) -> None:
    async with open_test_node(tmp_path, **ONE_TRY) as node:
        node.upstream.script = stories = LongList()
        monitor = (await make(node, monitor_request(max_rows, "hackernews/search", query="trio")))["monitor"]
        assert (monitor["rows_asked"], monitor["estimated_cost_per_run"]) == (max_rows, len(pages) + 1)
        record = await run_once(node, monitor["id"])
        assert stories.asked == pages
        assert (record["status"], record["rows"], record["credits_used"]) == ("failed", max_rows, 0), (
            "the rows have no likes, so the run fails"
        )
        assert min(entry["amount"] for entry in await node.entries(record["run_id"])) == most
        assert record["legs"][0]["credits_used"] == 0, "a failed run is refunded in full"
        await node.assert_sound()


async def test_every_catalog_list_can_be_walked(tmp_path: Path) -> None:
    """On the sandbox: no row is returned twice, and the pages that were read are charged."""
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        recipes, walked = node.node.monitors.recipes, 0
        for row in LISTS:
            params = {name: value for name, value in example_values(row.endpoint).items() if name != "limit"}
            recipe = recipes.read(row.id, params, rows=45)
            assert recipe.is_walked is (row.endpoint.collect is None)
            gathered = await recipes.gather(recipe, recipe.credits_most, timeout_s=20.0)
            (leg,) = gathered.legs
            rows = [next(iter(item.values())) for item in gathered.data["items"]]
            ids = [row.get("id") or row["url"] for row in rows]
            assert (len(set(ids)), leg["rows_asked"], gathered.whole) == (len(ids), 45, True), row.id
            assert len(ids) <= 45, row.id
            assert gathered.used_credits == leg["pages"] * recipe.credits_least // leg["pages_needed"], row.id
            walked += leg["pages"] > 1
        assert walked, "no list has more than one page"


async def test_list_without_limit_reserves_its_maximum_pages(tmp_path: Path) -> None:
    """The reservation covers the maximum number of pages; a list with one page costs one page."""
    comments = {"metrics": ["items[].comment.engagement.likes"], "max_rows": 50}
    async with open_test_node(tmp_path) as node:
        params = {"url": "https://bsky.app/profile/bsky.app/post/3l6oveex3ii2l"}
        body = {"recipe": "bluesky/post/comments", "params": params, "cadence": "daily", "track": comments}
        monitor = (await make(node, body))["monitor"]
        assert monitor["estimated_cost_per_run"] == 2
        record = await run_once(node, monitor["id"])
        assert (record["status"], record["credits_used"], record["legs"][0]["pages"]) == ("ok", 2, 1)
        assert sorted(entry["amount"] for entry in await node.entries(record["run_id"])) == [-21, 19]
        await node.assert_sound()


@pytest.mark.parametrize(
    ("credits_left", "status", "rows", "cost"),
    [(2, "skipped", None, 0), (3, "partial", 160, 3), (4, "partial", 160, 3), (5, "ok", 200, 4), (100, "ok", 200, 4)],
)
async def test_walk_stops_when_credits_run_out(
    credits_left: int, status: str, rows: int | None, cost: int, tmp_path: Path
) -> None:
    """A further page is optional, so it never uses the last credit."""
    async with open_test_node(tmp_path, credits=credits_left) as node:
        node.upstream.script = questions = Questions(page_max=80)
        record = await run_once(node, (await make(node, monitor_request(200)))["monitor"]["id"])
        assert (record["status"], record["rows"], record["credits_used"]) == (status, rows, cost)
        reason = ["160 of 200 items were collected: the credits ran out after page 2"] if status == "partial" else []
        assert record["warnings"] == reason
        assert len(questions.asked) == (cost - 1 if cost else 0)
        assert await node.money() == (credits_left - cost, 0)
        await node.assert_sound()


async def test_walk_stops_at_the_runs_deadline(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **ONE_TRY) as node:
        node.upstream.script = Questions(page_max=80, delays_s={3: 10.0})
        recipes = node.node.monitors.recipes
        recipe = recipes.read("stackexchange/questions", {}, rows=200)
        assert (recipe.credits_least, recipe.credits_most) == (2, 6)
        with trio.fail_after(5):
            gathered = await recipes.gather(recipe, 6, timeout_s=0.5)
        assert (len(gathered.data["items"]), gathered.whole, gathered.used_credits) == (160, False, 2)
        assert gathered.warnings[0].startswith(
            "160 of 200 items were collected: page 3 could not be read (api: no response"
        )
        assert gathered.legs[0]["status"] == "partial"
