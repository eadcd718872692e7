"""Scripted searches and accounts as recipes, and discover runs on a desk's store."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import trio

from limits.errors import Throttled
from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.records import DiscoverRecord, DiscoverRow, DiscoverView
from scheduler.jobs.discover.run_drafts import RunTerms
from scheduler.jobs.discover.schedules.records import DiscoverSchedule, Occurrence, ScheduleBody
from scheduler.jobs.discover.schedules.service import ScheduleService
from scheduler.jobs.discover.schedules.slots import ScheduleSlots
from scheduler.jobs.discover.searches import PlatformSearch, ProfileRead, Searches
from scheduler.jobs.discover.service import DiscoverService, is_settled
from scheduler.jobs.discover.spec import KIND, RunBody, SearchBody, read_body
from scheduler.jobs.discover.steps import DiscoverSteps
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.records import JobRecord
from scheduler.jobs.service import JobOwner, JobService
from scheduler.jobs.turns import Turns
from scheduler.recipes import Gathered, GatheringFailed, Recipe
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.working import WorkingDesk
from upstreams.model.archetypes import AUTHOR, POST_LIST, Record, author, post
from upstreams.model.params import State


def search(
    platform: str, kind: str = "post", key: str = "post", resource: str = "search", **terms: Any
) -> PlatformSearch:
    """Return a search of a platform."""
    values = {"values": {"limit": 2}, "newest": {}, "takes_days": False, "available": True, "price_credits": 1, **terms}
    return PlatformSearch(f"{platform}/{resource}", platform, kind, key, **values)  # type: ignore[arg-type] - of a test


def a_post(name: str, by: str | None = None, at: str | None = None, language: str = "en") -> Record:
    """Return a row of a search for posts."""
    byline = None if by is None else {"id": None, "username": by, "display_name": by.title(), "avatar_url": None}
    if byline is not None:
        byline |= {"verified": None, "url": f"https://social.test/{by}"}
    made = post(id=name, url=f"https://social.test/p/{name}", text=f"About {name}", author=byline, published_at=at)
    return {"post": made, "computed": {"language": language}}


def an_account(name: str, **fields: Any) -> Record:
    """Return a row of a search for accounts, or the response of an account's own page."""
    url = fields.pop("url", f"https://social.test/{name}")
    return AUTHOR.wrap(author(id=f"id_{name}", username=name, url=url, **fields), [])


Pages = Sequence[Sequence[Record]]


@dataclass(slots=True)
class Net:
    """Like `Recipes`: `pages` contains the pages of each search and keyword; everything in `broken` fails.

    A search in `throttled` asks that many times for a pause of `held_s` before it responds.
    """

    pages: dict[tuple[str, str], Pages] = field(default_factory=dict)
    profiles: dict[str, Record] = field(default_factory=dict)
    broken: set[tuple[str, str]] = field(default_factory=set)
    costly: set[tuple[str, str]] = field(default_factory=set)
    throttled: Counter[str] = field(default_factory=Counter)
    held_s: int = 1
    takes_s: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    price_credits: int = 1

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        assert isinstance(params, dict)
        return Recipe(
            f"/v1/{recipe}", params, POST_LIST, recipe.split("/", maxsplit=1)[0], self.price_credits, self.price_credits
        )

    async def gather(
        self,
        recipe: Recipe,
        credits_held: int,
        *,
        timeout_s: float,
        account_id: str = "",
        as_sent: bool = False,
        cursor: State | None = None,
    ) -> Gathered:
        assert account_id, "each call needs an account"
        assert credits_held == self.price_credits
        await trio.sleep(self.takes_s)
        id_ = recipe.path.removeprefix("/v1/")
        if "handle" in recipe.values:
            return self._profile(str(recipe.values["handle"]))
        place = id_, str(recipe.values["query"])
        number = 0 if cursor is None else int(cursor["page"])
        self.calls[f"{place[0]} {place[1]} {number}"] += 1
        if self.throttled[id_]:
            self.throttled[id_] -= 1
            raise GatheringFailed("the search is held", [{"error": "UPSTREAM_THROTTLED"}]) from Throttled(self.held_s)
        if place in self.costly:
            raise GatheringFailed("the page is too costly", [{"error": "RESOURCE_NOT_FOUND"}], self.price_credits)
        if place in self.broken:
            raise GatheringFailed("the search is broken", [{"error": "UPSTREAM_ERROR"}])
        pages = self.pages.get(place, [[]])
        data = {"items": list(pages[number])}
        following = {"page": number + 1} if number + 1 < len(pages) else None
        return Gathered(data, orjson.dumps(data), [], 1.0, True, self.price_credits, (), len(pages[number]), following)

    def _profile(self, handle: str) -> Gathered:
        self.calls[f"@{handle}"] += 1
        found = self.profiles.get(handle)
        if found is None:
            raise GatheringFailed("the account does not exist", [{"error": "RESOURCE_NOT_FOUND"}])
        return Gathered(found, orjson.dumps(found), [], 1.0, True, self.price_credits)


class DiscoverDesk(WorkingDesk):
    """Discover runs on one store, as on a node."""

    def __init__(self, desk: Desk, net: Net, searches: Sequence[PlatformSearch], profiles: Sequence[str] = ()) -> None:
        super().__init__(desk)
        self.net = net
        self.steps = DiscoverSteps(desk.store, net, desk.feed)
        self.runs = JobRuns(desk.store, desk.charges, {KIND: self.steps}, Turns(), now=desk.now)
        jobs = JobService(desk.store, desk.charges, now=desk.now, make_id=desk.make_id, wake=self.wake, kinds=(KIND,))
        known = Searches(tuple(searches), {one: ProfileRead(f"{one}/profile", "handle", 1) for one in profiles})
        self.service = DiscoverService(
            desk.store, desk.charges, jobs, self.steps, lambda: known, now=desk.now, wake=self.wake
        )

        self.slots = ScheduleSlots(jobs, desk.feed, lambda: known, now=desk.now, make_id=desk.make_id, wake=self.wake)
        self.schedules = ScheduleService(
            desk.store, lambda: known, now=desk.now, make_id=desk.make_id, wake=desk.alarm.ring
        )

    @asynccontextmanager
    async def keep_time(self) -> AsyncIterator[None]:
        """Open slots as they arrive, and run their runs."""
        async with self.open(), self.desk.clock((self.slots,)):
            yield

    async def schedule(self, owner: JobOwner, cadence: object = "hourly", **run: Any) -> DiscoverSchedule:
        """Create a schedule."""
        sent = ScheduleBody(SearchBody(**{"keywords": ["trio"], "max_credits": 100, **run}), cadence, "Our topic")
        return await self.schedules.create(self.schedules.draft(sent, owner.account_id, owner.key_id))

    async def occurrences(self, schedule: DiscoverSchedule) -> list[Occurrence]:
        """Return the occurrences of a schedule, oldest first."""
        found = await self.schedules.occurrences(schedule.account_id, schedule.id, before=None, limit=1_000)
        return found[::-1]

    async def begin(
        self, owner: JobOwner, *, keywords: Sequence[str] = ("trio",), background: bool = True, **fields: Any
    ) -> JobRecord:
        sent = RunBody(keywords=list(keywords), background=background, **{"max_credits": 1_000, **fields})
        terms = RunTerms(sent.max_credits, is_told=background, key_id=owner.key_id)
        return await self.service.begin(read_body(sent, self.service.searches()), terms, owner)

    async def ran(self, owner: JobOwner, **fields: Any) -> DiscoverView:
        """Run one discover run until it has ended or is paused."""
        async with self.open():
            return await self.settled(owner, (await self.begin(owner, **fields)).id)

    async def settled(self, owner: JobOwner, run_id: str) -> DiscoverView:
        """Return the run once it has ended or is paused."""
        with trio.fail_after(60):
            while not is_settled((found := await self.service.get(owner.account_id, run_id)).job):  # noqa: ASYNC110 - the store
                await trio.sleep(0.01)
        await self.assert_counted(found.run)
        return found

    async def assert_counted(self, run: DiscoverRecord) -> None:
        """Check that each finished leg is counted once."""
        sql = "SELECT status, COUNT(*) FROM discover_legs WHERE run_id = ? GROUP BY status"
        legs = Counter(dict(await self.desk.store.read(lambda tx: tx.all(sql, (run.run_id,)))))
        assert (run.legs_done, run.legs_empty, run.legs_failed) == (legs["done"], legs["empty"], legs["failed"])

    async def rows(self, run_id: str, *, only_new: bool = False) -> list[DiscoverRow]:
        """Return all rows in order."""
        rows, has_more = await self.service.rows(run_id, 0, limit=100_000, only_new=only_new)
        assert not has_more
        return rows

    async def names(self, run_id: str) -> list[str]:
        """Return short names for the rows: the ids of posts, and the names of accounts."""
        return [name_of(run_rows.record_of(one)) for one in await self.rows(run_id)]

    async def events(self, account_id: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the types and bodies of all discover events in order."""
        found = await self.desk.store.read(
            lambda tx: tx.all(
                "SELECT type, body FROM events WHERE account_id = ? AND type LIKE 'discover.%' ORDER BY pos",
                (account_id,),
            )
        )
        return [(type_, orjson.loads(body)) for type_, body in found]


def name_of(record: Mapping[str, Any]) -> str:
    (key, *_) = (one for one in record if one != "computed")
    name: str = record[key].get("username") or record[key]["id"]
    return name
