"""A schedule over recorded searches whose results change from one occurrence to the next, compared value by value.

The expected values are read from the recordings here, without the platform's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.discover.test_discover_over_http import RUNS, SCHEDULES, ask, lines
from tests.platforms.case import recordings_dir

BODY = {"keywords": ["apple"], "platforms": ["hackernews"], "max_credits": 20}


FIRST = ("tags_story", "tags_story__query_apple", "tags_poll", "tags_poll_author_pg", "tags_story_author_pg")
LATER = ("by_date__stories_2026", "by_date__tags_story__query_apple")


def recorded(*names: str) -> list[dict[str, Any]]:
    """Return the stories of recorded searches. Each recording has only a few."""
    hits = list[dict[str, Any]]()
    for name in names:
        file = f"algolia_search{'_' if name.startswith('by') else '__'}{name}.json"
        body = orjson.loads((recordings_dir() / "hackernews" / file).read_bytes())["response"]["body"]
        hits += (orjson.loads(body) if isinstance(body, str) else body)["hits"]
    return hits


def page_of(hits: Sequence[dict[str, Any]]) -> ScriptedAnswer:
    return ScriptedAnswer(200, orjson.dumps({"hits": list(hits), "nbHits": len(hits), "page": 0, "nbPages": 1}))


async def occurrence(node: OpenNode, schedule_id: str) -> str:
    """Move all slots into the past, wait for the run of the next occurrence to end, and return its id."""

    def shift_slots(tx: Any) -> None:
        tx.run("UPDATE discover_occurrences SET scheduled_for = scheduled_for - 3600")
        tx.run("UPDATE discover_schedules SET created_at = created_at - 90000, next_slot_at = next_slot_at - 3600")

    before = len((await ask(node, "GET", f"{SCHEDULES}/{schedule_id}/occurrences"))[1]["data"]["items"])
    await node.node.stores.store.write(shift_slots)
    node.node.monitors.clock.wake()
    with trio.fail_after(60):
        while True:
            slots = (await ask(node, "GET", f"{SCHEDULES}/{schedule_id}/occurrences"))[1]["data"]["items"]
            if len(slots) > before:
                run_id: str = slots[0]["run_id"]
                run = (await ask(node, "GET", f"{RUNS}/{run_id}"))[1]["data"]
                if run["finished_at"] is not None:
                    return run_id
            await trio.sleep(0.05)


def values_of(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the values of rows that the recordings also contain."""
    return [
        (
            row["record"]["post"]["id"],
            row["record"]["post"]["url"],
            row["record"]["post"]["engagement"]["likes"],
            row["record"]["post"]["author"]["username"],
            row["rank"],
            row["is_new"],
        )
        for row in rows
    ]


def expected(hits: Sequence[dict[str, Any]], seen: set[str]) -> list[tuple[Any, ...]]:
    """Return the same values of recorded stories, in search order. `seen` has the ids of earlier occurrences."""
    return [
        (
            hit["objectID"],
            f"https://news.ycombinator.com/item?id={hit['objectID']}",
            hit["points"],
            hit["author"],
            rank,
            hit["objectID"] not in seen,
        )
        for rank, hit in enumerate(hits, 1)
    ]


async def test_schedule_reports_new_and_changed_rows_of_recorded_searches(tmp_path: Path) -> None:
    first, fresh = recorded(*FIRST), recorded(*LATER)
    kept = [{**hit, "points": hit["points"] + 5} for hit in first[3:]]  # three are gone, two have more points
    assert (len(first), len(fresh), len(kept)) == (5, 4, 2)
    searches = [first, [*fresh, *kept], [*fresh, *kept]]
    seen = set[str]()
    async with open_test_node(tmp_path, credits=500) as node:
        node.upstream.script = lambda _: page_of(first)
        _, made = await ask(node, "POST", SCHEDULES, {"run": BODY, "cadence": "hourly"})
        schedule_id = made["data"]["schedule_id"]
        new = []
        for hits in searches:
            node.upstream.script = lambda _, hits=hits: page_of(hits)
            run_id = await occurrence(node, schedule_id)
            rows = await lines(node, run_id)
            assert values_of(rows) == expected(hits, seen)
            run = (await ask(node, "GET", f"{RUNS}/{run_id}"))[1]["data"]
            assert run["counts"]["rows_new"] == sum(row["is_new"] for row in rows)
            assert await lines(node, run_id, "?new=true") == [row for row in rows if row["is_new"]]
            new.append(run["counts"]["rows_new"])
            seen |= {hit["objectID"] for hit in hits}
        assert new == [len(first), len(fresh), 0]
        _, events = await ask(node, "GET", f"/v1/events?subject_id={schedule_id}&types=discover.*")
        settled = ["discover.progress", "discover.completed"]
        assert [one["type"] for one in events["data"]["items"]] == [
            *settled, "discover.new_rows", *settled, "discover.new_rows", *settled,
        ]  # fmt: skip
        await node.assert_sound()
