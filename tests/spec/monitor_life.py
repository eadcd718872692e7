"""The environment of a numbers-only monitor: Hacker News at each run, and calls about the monitor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

MONITORS = "/v1/monitors"
LIKES, COMMENTS, TOTAL = "items[].post.engagement.likes", "items[].post.engagement.comments", "total"
RULES = (
    {"metric": LIKES, "op": "pct_change_gt", "value": 20},
    {"metric": COMMENTS, "op": "gte", "value": 71, "consecutive": 2, "cooldown_s": 2_592_000},
    {"metric": LIKES, "op": "pct_change_lt", "value": -20},
)
STORIES = {
    "recipe": "hackernews/search",
    "params": {"query": "apple", "limit": 120},
    "cadence": "weekly",
    "track": {"metrics": [TOTAL, LIKES, COMMENTS]},
    "alert_rules": list(RULES),
    "name": "apples",
}
CREDITS = 14
"""The first six runs cost 11 credits. A search before the seventh run costs one more, so that run is not affordable."""
ONE_TRY = {"upstreams": {"defaults": {"retries": 0}}}

Story = tuple[int, int, int]
"""A story's number, points and comments."""


@dataclass(frozen=True, slots=True)
class Week:
    """The responses of Algolia to one run: two pages of stories, or a failure on either."""

    first: Sequence[Story] = ()
    second: Sequence[Story] = ()
    total: int = 0
    pages: int = 2
    first_fails: bool = False
    second_fails: bool = False

    def answer(self, asked: str) -> ScriptedAnswer:
        """Return the response to a request for a page."""
        page = 1 if "page=1" in asked else 0
        if self.second_fails if page else self.first_fails:
            return json_answer({}, status=500)
        hits = [_hit(*story) for story in (self.second if page else self.first)]
        shape = {"nbHits": self.total, "nbPages": self.pages, "page": page, "hitsPerPage": 100, "query": "apple"}
        return json_answer({"exhaustiveNbHits": True, "hits": hits, **shape, "processingTimeMS": 3, "serverTimeMS": 4})


WEEKS = (
    Week([(8863, 104, 71), (9001, 0, 3)], [(9002, 10, 1)], total=3),
    Week([(8863, 130, 71), (9001, 5, 6)], [(9003, 7, 0)], total=4),
    Week([(8863, 91, 71), (9001, 5, 6)], total=4, second_fails=True),
    Week(first_fails=True),
    Week([(8863, 91, 70), (9001, 10, 6)], [(9002, 12, 1)], total=3),
    Week(total=0, pages=0),
    Week([(8863, 95, 71)], pages=1, total=1),
)
SLOTS = tuple(f"2026-0{month}-01T06:00:00.000Z" for month in range(1, 8))


@dataclass(frozen=True, slots=True)
class Life:
    """A node, a Monitor of its account, and the records of its runs, oldest first."""

    node: OpenNode
    id: str
    runs: list[dict[str, Any]]

    @property
    def path(self) -> str:
        """The path of the monitor."""
        return f"{MONITORS}/{self.id}"

    async def data(self, below: str) -> Any:
        """Return the `data` of a free read below the monitor's path."""
        answer = await self.node.get(f"{self.path}{below}")
        assert (answer.status, answer.json["credits_used"]) == (200, 0), answer.body
        return answer.json["data"]

    async def run(self, slot: str) -> dict[str, Any]:
        """Run the monitor once more."""
        record: dict[str, Any] = await self.node.operate("monitor.run", monitor=self.id, slot=slot)
        assert record.pop("begun_now"), "the slot was not run before"
        self.runs.append(record)
        return record

    async def assert_paid(self) -> None:
        """Check against the statement that each run cost what its record says, and that the ledger is consistent."""
        for run in self.runs:
            assert await self.node.net(run["run_id"]) == run["credits_used"], run
        await self.node.assert_sound()


async def send(node: OpenNode, method: str, target: str, body: Any = None) -> Answered:
    """Send a call with a JSON body."""
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(method, node.url + target, content=content, headers={"x-api-key": node.key})
    return Answered(answer.status_code, dict(answer.headers), answer.content)


@asynccontextmanager
async def open_life(
    folder: Path,
    body: Mapping[str, Any] = STORIES,
    *,
    credits: int = CREDITS,  # noqa: A002 - the specification's name
) -> AsyncIterator[Life]:
    """A node with this Monitor, before its first run."""
    tables = {**ONE_TRY, "webhooks": {"allow_insecure_targets": True}}
    async with open_test_node(folder, credits=credits, **tables) as node:
        made = await send(node, "POST", MONITORS, body)
        assert made.status == 201, made.body
        yield Life(node, made.json["monitor"]["id"], [])


@asynccontextmanager
async def open_past(folder: Path) -> AsyncIterator[Life]:
    """A Monitor that has run through all of `WEEKS`, the last without enough credits."""
    async with open_life(folder) as life:
        for slot, week in zip(SLOTS, WEEKS, strict=True):
            life.node.upstream.script = week.answer
            if slot == SLOTS[-1]:
                assert (await life.node.get("/v1/hackernews/search?query=pear&limit=1")).status == 200
            await life.run(slot)
        yield life


def _hit(number: int, points: int, comments: int) -> dict[str, Any]:
    """Return a search hit with the fields that Algolia returns."""
    return {
        "_highlightResult": {"author": {"matchLevel": "none", "matchedWords": [], "value": "dhouston"}},
        "_tags": ["story", "author_dhouston", f"story_{number}"],
        "author": "dhouston",
        "created_at": "2007-04-04T19:16:40Z",
        "created_at_i": 1175714200,
        "num_comments": comments,
        "objectID": str(number),
        "points": points,
        "story_id": number,
        "title": "My YC app: Dropbox - Throw away your USB drive",
        "updated_at": "2024-09-20T15:13:27Z",
        "url": "http://www.getdropbox.com/u/2/screencast.html",
    }
