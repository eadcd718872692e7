"""A site of linked pages that jobs read with recipes, and the workers that read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import trio

from limits.errors import LimitError, Throttled
from scheduler.jobs.crawl.pages import PageSteps
from scheduler.jobs.crawl.spec import KINDS, CrawlBody, crawl_of
from scheduler.jobs.job_runs import JobRuns
from scheduler.jobs.records import JobRecord
from scheduler.jobs.service import JobOwner, JobService
from scheduler.jobs.turns import Turns
from scheduler.recipes import Gathered, GatheringFailed, Recipe
from storage.store import Tx
from tests.fakes.tasks import TasksHere
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.working import WorkingDesk
from upstreams.model.archetypes import POST_LIST
from upstreams.model.errors import NotFound, PageTooCostly, UpstreamError, UpstreamFailed
from upstreams.model.params import State

HOME = "https://site.test/"


@dataclass(slots=True)
class Site:
    """Like `Recipes`: `links` contains the links of each page. A missing page returns 404; a page in `broken` fails."""

    links: Mapping[str, Sequence[str]]
    broken: frozenset[str] = frozenset()
    costly: frozenset[str] = frozenset()
    takes_s: float = 0.0
    waits: Counter[str] = field(default_factory=Counter)
    """How often a page's host asks for a pause before it returns the page."""
    read_pages: Counter[str] = field(default_factory=Counter)
    under_way: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        assert recipe == "web/scrape"
        assert isinstance(params, dict)
        return Recipe("/v1/web/scrape", params, POST_LIST, "web", 1, 1)

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
        url = str(recipe.values["url"])
        host = url.split("/")[2]
        self.under_way[host] += 1
        self.most_at_once = max(self.most_at_once, self.under_way[host])
        try:
            await trio.sleep(self.takes_s)
        finally:
            self.under_way[host] -= 1
        self.read_pages[url] += 1
        try:
            data = self._page(url)
        except (UpstreamError, LimitError) as exc:
            code = "RESOURCE_NOT_FOUND" if isinstance(exc, NotFound) else "UPSTREAM_ERROR"
            used = int(isinstance(exc, PageTooCostly))
            raise GatheringFailed(str(exc), [{"error": code}], used) from exc
        return Gathered(data, orjson.dumps(data), [], 1.0, True, 1)

    def _page(self, url: str) -> dict[str, Any]:
        if self.waits[url] > 0:
            self.waits[url] -= 1
            raise Throttled(1)
        if url in self.costly:
            raise PageTooCostly
        if url in self.broken:
            raise UpstreamFailed("web", "the page is broken")
        if url not in self.links:
            raise NotFound("the page does not exist")
        return {"page": {"url": url, "links": list(self.links[url]), "content": {"markdown": f"of {url}"}}}


def tree(depth: int, width: int) -> dict[str, list[str]]:
    """Return a tree of pages below `HOME`. Each page links to `width` pages below it and back to the first page."""
    pages: dict[str, list[str]] = {}

    def grow(url: str, level: int) -> None:
        below = [f"{url}{n}/" for n in range(width)] if level < depth else []
        pages[url] = [*below, HOME]
        for one in below:
            grow(one, level + 1)

    grow(HOME, 0)
    return pages


class JobDesk(WorkingDesk):
    """Jobs on one store, as on a node."""

    def __init__(
        self, desk: Desk, site: Site, on_end: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None
    ) -> None:
        super().__init__(desk)
        self.site = site
        self.turns = Turns()
        self.pages = PageSteps(site, TasksHere(), on_end)
        self.runs = JobRuns(desk.store, desk.charges, dict.fromkeys(KINDS, self.pages), self.turns, now=desk.now)
        self.service = JobService(
            desk.store, desk.charges, now=desk.now, make_id=desk.make_id, wake=self.wake, kinds=KINDS, ended=on_end
        )

    async def crawl(self, owner: JobOwner, **fields: Any) -> JobRecord:
        return await self.service.begin(crawl_of(CrawlBody(HOME, **fields), self.site), owner)

    async def ran(self, owner: JobOwner, **fields: Any) -> JobRecord:
        """Run one crawl to its end."""
        async with self.open():
            return await self.ended(owner, await self.crawl(owner, **fields))

    async def until(self, owner: JobOwner, job: JobRecord, done: int) -> JobRecord:
        """Return the job once this many of its steps are done."""
        while (found := await self.service.get(owner.account_id, job.id)).done < done:  # noqa: ASYNC110 - the store's
            await trio.sleep(0.01)
        return found

    async def ended(self, owner: JobOwner, job: JobRecord) -> JobRecord:
        """Return the job once it has ended."""
        while not (found := await self.service.get(owner.account_id, job.id)).is_over:  # noqa: ASYNC110 - the store's
            await trio.sleep(0.01)
        return found

    async def pages_of(self, owner: JobOwner, job: JobRecord) -> list[tuple[int, str]]:
        """Return the depth and the URL of all results in order."""
        found, after, has_more = list[tuple[int, str]](), 0, True
        while has_more:
            rows, has_more = await self.service.steps(owner.account_id, job.id, ("done",), after=after, limit=100)
            found += [(row.wave - 1, row.name) for row in rows]
            after = rows[-1].number if rows else after
        return found
