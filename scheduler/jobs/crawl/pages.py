"""A page as a step of a job: read by the recipe `web/scrape`, with the links that a crawl goes on with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import accumulate
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
import trio

from limits.errors import Throttled
from limits.fair_turns import FairTurns
from scheduler.jobs.crawl.links import Frontier
from scheduler.jobs.crawl.spec import PLATFORM, RECIPE, spec_of
from scheduler.jobs.records import JobKind, JobRecord, JobStep, Outcome, StepStatus, Stop, Wave
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipeInvalid, Recipes
from storage.store import Tx
from upstreams.model.errors import UpstreamFailed, UpstreamThrottled, WorkersBusy
from upstreams.model.steps import Answer, Task

PAGE_S: Final = 60.0
PAGES_AT_ONCE: Final = 2
"""Pages of one host that are read at a time, whoever crawls it."""
WAITS_MAX: Final = 5
WAIT_S_MAX: Final = 60.0
"""A page is tried again so often, and so much later at most, where its host wants us to wait."""
LINKS_MAX: Final = 2_000
LINK_CHARS_MAX: Final = 1_000_000
"""Links of one page that are looked at, and their characters together."""
LED_AT_ONCE: Final = 4
"""Pages whose links one task of a worker process looks at: those of a hostile page take 0.2 s."""
TAKEN_AT_ONCE: Final = 50
"""Pages of a plan that one step of the loop takes: they take about 0.2 ms."""
BUSY_MAX: Final = 60
"""How often a plan waits for the worker processes."""
ATTEMPTS_A_PAGE: Final = 2
"""PageSteps that a crawl tries for each that it may bring: many links of a site lead nowhere."""
_ABSENT: Final = frozenset(("RESOURCE_NOT_FOUND", "INVALID_REQUEST"))
"""The codes by which a page is known not to be had, which is no failure."""


class TaskRunner(Protocol):
    """Runs tasks elsewhere, as `upstreams.workers.pool.ProcessPool` does."""

    async def run(self, task: Task, deadline_at: float, *, source: str, account_id: str) -> Answer:
        """As `ProcessPool.run`."""
        ...


class PageSteps(JobKind):
    """The kind of work that crawls and batches of pages are."""

    at_once = 4

    def __init__(
        self,
        recipes: Recipes,
        workers: TaskRunner,
        on_end: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None,
    ) -> None:
        """`workers` look at links; `on_end` queues the delivery of a job's end, in the transaction that ends it."""
        self._recipes = recipes
        self._workers = workers
        self._planning = FairTurns(1)
        self._on_end = on_end
        self._hosts = HostTurns()

    async def perform(self, job: JobRecord, step: JobStep) -> Outcome:
        """Read a page."""
        spec = spec_of(job.spec)
        async with self._hosts.of(urlsplit(step.name).netloc):
            try:
                recipe = self._recipes.read(RECIPE, spec.params(step.name))
                gathered = await self._gather(recipe, job.account_id)
            except RecipeInvalid as exc:
                return Outcome("empty", error=exc.reason or "INVALID_REQUEST")
            except GatheringFailed as exc:
                return _missing(exc)
        if spec.bounds is None:
            return Outcome("done", gathered.body, gathered.used_credits)
        links, left_out = followed_links(gathered.data["page"]["links"])
        warning = f"{left_out} links of this page were not followed: it has too many, or too long ones"
        return Outcome("done", gathered.body, gathered.used_credits, error=warning if left_out else None, found=links)

    async def _gather(self, recipe: Recipe, account_id: str) -> Gathered:
        """Read a page, once its host lets us: a crawl waits for as long as a robots file wants, which no request would.

        Raises:
            GatheringFailed: nothing usable came.
        """
        gather = partial(self._recipes.gather, recipe, recipe.credits_most, timeout_s=PAGE_S, account_id=account_id)
        for _ in range(WAITS_MAX):
            try:
                return await gather()
            except GatheringFailed as exc:
                if not isinstance(cause := exc.__cause__, Throttled | UpstreamThrottled):
                    raise
                wait_s = min(cause.retry_after_s or WAIT_S_MAX, WAIT_S_MAX)
            await trio.sleep(wait_s)
        return await gather()

    def next_wave(self, job: JobRecord) -> Wave | None:
        """Begin to plan the pages that the last wave's links lead to, as far as credits and the depth allow."""
        bounds = spec_of(job.spec).bounds
        if bounds is None or job.waves > bounds.depth_max:
            return None
        room = min(bounds.pages_max - job.done, ATTEMPTS_A_PAGE * bounds.pages_max - job.planned)
        lead = partial(self._pages_led_to, job.account_id, msgspec.to_builtins(bounds))
        return PageWave(room, lead, partial(self._planning.turn, job.account_id))

    async def _pages_led_to(self, account_id: str, bounds: dict[str, Any], found: Sequence[bytes]) -> list[list[str]]:
        """Return the pages that some steps' links lead to: worker processes look at them, by turns of accounts.

        Raises:
            UpstreamFailed: no process could do it.
        """
        task = Task("scheduler.jobs.crawl.links:pages_led_to", (bounds, list(found)), [])
        for _ in range(BUSY_MAX):
            try:
                deadline_at = trio.current_time() + PAGE_S
                answer = await self._workers.run(task, deadline_at, source=PLATFORM, account_id=account_id)
            except WorkersBusy as exc:
                await trio.sleep(min(exc.retry_after_s or 1.0, WAIT_S_MAX))
            else:
                pages: list[list[str]] = answer.body
                return pages
        raise UpstreamFailed(PLATFORM, "the worker processes were busy for too long", passing=True)

    def verdict(self, tx: Tx, job: JobRecord, *, has_credits: bool) -> Stop:
        """A job that brought no page has failed, also where its pages are only gone or forbidden."""
        stop = super().verdict(tx, job, has_credits=has_credits)
        return Stop("failed", stop.because) if has_credits and not job.done else stop

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: ARG002 - for kinds that keep it
        """Tell of the end."""
        self._on_end(tx, job)


def _missing(failure: GatheringFailed) -> Outcome:
    code = next((str(leg.get("error")) for leg in failure.legs), "UPSTREAM_ERROR")
    reason = getattr(failure.__cause__, "reason", None)
    status: StepStatus = "empty" if code in _ABSENT else "failed"
    return Outcome(status, None, failure.used_credits, error=str(reason or code))


def followed_links(links: Any) -> tuple[tuple[str, ...], int]:
    """Return the first links of a page, as many as a crawl looks at, and how many it leaves out."""
    if not isinstance(links, list):
        return (), 0
    sizes = accumulate(len(one) if isinstance(one, str) else 0 for one in links[:LINKS_MAX])
    count = sum(1 for size in sizes if size <= LINK_CHARS_MAX)
    return tuple(one for one in links[:count] if isinstance(one, str)), len(links) - count


class PageWave(Wave):
    """The pages that come next in a crawl: those that its links lead to, in the order in which they stand."""

    def __init__(
        self,
        room: int,
        lead: Callable[[Sequence[bytes]], Awaitable[list[list[str]]]],
        turn: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        """`lead` gives the pages that the links of some steps lead to; pieces are planned in turns of the account."""
        super().__init__()
        self._room = room
        self._lead = lead
        self._turn = turn
        self._frontier = Frontier()

    @property
    def is_full(self) -> bool:
        """Whether it has as many pages as there is room for."""
        return len(self.names) >= self._room

    def note(self, name: str) -> None:
        """Note a page that the crawl has been to."""
        self._frontier.note(name)

    async def add(self, found: Sequence[bytes]) -> None:
        """Add the pages that the links of some steps lead to; the loop goes on after every few of them."""
        for first in range(0, len(found), LED_AT_ONCE):
            pages = [page for some in await self._lead(found[first : first + LED_AT_ONCE]) for page in some]
            for begin in range(0, len(pages), TAKEN_AT_ONCE):
                async with self._turn():
                    self._take(pages[begin : begin + TAKEN_AT_ONCE])
            if self.is_full:
                return

    def _take(self, pages: Sequence[str]) -> None:
        for page in pages:
            if self.is_full:
                return
            if self._frontier.take(page):
                self.names.append(page)


class HostTurns:
    """Turns of pages, by their hosts, over all jobs of this node."""

    def __init__(self) -> None:
        self._hosts: dict[str, trio.CapacityLimiter] = {}

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """A turn at a host, for as long as the block runs."""
        turns = self._hosts.setdefault(host, trio.CapacityLimiter(PAGES_AT_ONCE))
        try:
            async with turns:
                yield
        finally:
            if not turns.borrowed_tokens and not turns.statistics().tasks_waiting:
                self._hosts.pop(host, None)
