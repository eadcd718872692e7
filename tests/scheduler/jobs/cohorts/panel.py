"""Cohorts and their queries on one store, wired as on a node, for accounts whose posts the test defines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from billing.keys.sealing import Cipher
from events.instants import iso
from limits.errors import CircuitOpen
from limits.long_reads import LongReads
from scheduler.jobs.cohorts import query_rows
from scheduler.jobs.cohorts.platforms import PostRoute
from scheduler.jobs.cohorts.queries import CohortQueries, Query
from scheduler.jobs.cohorts.results import BEGIN, ResultPosition
from scheduler.jobs.cohorts.service import CohortService
from scheduler.jobs.cohorts.setting import CohortSetting
from scheduler.jobs.cohorts.shards import CohortShards
from scheduler.jobs.cohorts.spec import CohortBody, MemberBody, MembersBody, QueryBody
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.service import JobOwner, JobService
from scheduler.jobs.turns import Turns
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipePage
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.jobs.working import WorkingDesk
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.posts import post
from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed
from upstreams.model.params import State

ROUTES = {
    "bluesky": PostRoute("bluesky", "bluesky/user/posts", ("handle",), is_available=True, fixed={}),
    "keyed": PostRoute("keyed", "keyed/posts", ("handle",), is_available=False, fixed={}),
}
SECRET = b"s" * 32
DAY_S = 86_400.0


@dataclass(slots=True)
class Accounts:
    """Like `PageRecipes`: returns the posts of each account, newest first, in pages; accounts in `broken` fail.

    Each page of an account in `throttled` is refused that many times before it is returned.
    """

    posts: Mapping[str, Sequence[tuple[str, float | None]]]
    page_rows: int = 10
    broken: frozenset[str] = frozenset()
    throttled: Counter[str] = field(default_factory=Counter)
    takes_s: float = 0.0
    reads: Counter[tuple[str, int]] = field(default_factory=Counter)

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        assert isinstance(params, dict)
        return Recipe(f"/v1/{recipe}", params, POST_LIST, "bluesky", 2, 2)

    async def gather(self, recipe: Recipe, credits_held: int, **_: Any) -> Gathered:
        raise AssertionError("lists are read page by page")

    def page_price(self, recipe: str) -> int:
        return 2

    async def page(self, recipe: Recipe, state: State | None, *, timeout_s: float, account_id: str = "") -> RecipePage:
        assert account_id, "each call needs an account"
        handle, page = str(recipe.values["handle"]), 0 if state is None else int(state["page"])
        await trio.sleep(self.takes_s)
        self.reads[handle, page] += 1
        try:
            return self._page(handle, page)
        except (UpstreamError, CircuitOpen) as exc:
            code = "RESOURCE_NOT_FOUND" if isinstance(exc, NotFound) else "UPSTREAM_ERROR"
            raise GatheringFailed(f"the source says {handle}", [{"error": code}]) from exc

    def _page(self, handle: str, page: int) -> RecipePage:
        if self.throttled[handle]:
            self.throttled[handle] -= 1
            raise CircuitOpen(1)
        if handle in self.broken:
            raise UpstreamFailed("bluesky", "the account is broken")
        if handle not in self.posts:
            raise NotFound("the account does not exist")
        first = page * self.page_rows
        rows = self.posts[handle][first : first + self.page_rows]
        more = first + self.page_rows < len(self.posts[handle])
        records = [_record(handle, first + place, *one) for place, one in enumerate(rows)]
        return RecipePage(records, {"page": page + 1} if more else None)


def _record(handle: str, number: int, text: str, at: float | None) -> Record:
    id_ = f"{handle}-{number}"
    published_at = None if at is None else iso(at)
    return post(id=id_, url=f"https://posts.test/{id_}", text=text, author=None, published_at=published_at)


class CohortDesk(WorkingDesk):
    """Cohorts on one store."""

    def __init__(self, desk: Desk, accounts: Accounts) -> None:
        super().__init__(desk)
        self.accounts = accounts
        self.cipher = Cipher(SECRET)
        self.setting = CohortSetting(
            store=desk.store,
            charges=desk.charges,
            cipher=self.cipher,
            recipes=accounts,
            routes=ROUTES,
            now=desk.now,
            make_id=desk.make_id,
            reads=LongReads(),
        )
        self.cohorts = CohortService(self.setting)
        self.jobs = JobService(
            desk.store, desk.charges, kinds=query_rows.KINDS, now=desk.now, make_id=desk.make_id, wake=self.wake
        )
        self.queries = CohortQueries(self.setting, self.cohorts, self.jobs)
        self.shards = CohortShards(self.setting)
        self.runs = JobRuns(desk.store, desk.charges, {query_rows.KIND: self.shards}, Turns(), now=desk.now)

    async def cohort(self, owner: JobOwner, *handles: str, platform: str = "bluesky", days: int = 30) -> str:
        """Create a cohort with these members."""
        made = await self.cohorts.create(owner.account_id, CohortBody("A name to hide", days))
        await self.add(owner, made, *handles, platform=platform)
        return made

    async def add(self, owner: JobOwner, cohort_id: str, *handles: str, platform: str = "bluesky") -> None:
        for first in range(0, len(handles), 1_000):
            members = [MemberBody(platform, one, f"external of {one}") for one in handles[first : first + 1_000]]
            await self.cohorts.put_members(owner.account_id, cohort_id, MembersBody(members))

    async def begin(self, owner: JobOwner, cohort_id: str, **fields: Any) -> str:
        body: dict[str, Any] = {
            "keywords": ["acme"],
            "date_from": iso(EPOCH - 30 * DAY_S),
            "max_credits": 1_000_000,
            "max_items_per_identity": 1_000,
            "max_pages_per_identity": 3,
            **fields,
        }
        plan = await self.queries.plan(owner.account_id, cohort_id, QueryBody(**body))
        return await self.queries.begin(cohort_id, plan, body["max_credits"], owner)

    async def ended(self, owner: JobOwner, query_id: str) -> Query:
        while not (found := await self.queries.get(owner.account_id, query_id)).is_over:  # noqa: ASYNC110 - the store's
            await trio.sleep(0.01)
        return found

    async def results(self, owner: JobOwner, query_id: str, limit: int = 500) -> tuple[list[bytes], list[bytes]]:
        """Return all items and the complete coverage."""
        items, coverage, here = list[bytes](), list[bytes](), BEGIN
        while True:
            page = await self.queries.results(owner.account_id, query_id, here, limit)
            items += page.items
            coverage += page.coverage
            if page.next is None:
                return items, coverage
            here = ResultPosition(*page.next)
