"""A page as a job step: read by the recipe `web/scrape`, with the links that a crawl follows next."""

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
"""How many pages of one host are read at the same time, over all crawls."""
WAITS_MAX: Final = 5
WAIT_S_MAX: Final = 60.0
"""The maximum number of retries of a page whose host asks for a pause, and the longest pause."""
LINKS_MAX: Final = 2_000
LINK_CHARS_MAX: Final = 1_000_000
"""The maximum number of links of one page that are examined, and their maximum total length in characters."""
LED_AT_ONCE: Final = 4
"""How many pages' links one worker task examines. The links of a hostile page take about 0.2 s."""
TAKEN_AT_ONCE: Final = 50
"""How many pages are added to a plan before the next checkpoint. Adding that many takes about 0.2 ms."""
BUSY_MAX: Final = 60
"""How often planning retries while the worker processes are busy."""
ATTEMPTS_A_PAGE: Final = 2
"""How many steps a crawl may try per page of its limit: more than one, because many links of a site are broken."""
_ABSENT: Final = frozenset(("RESOURCE_NOT_FOUND", "INVALID_REQUEST"))
"""The error codes of pages that do not exist, which do not count as failures."""


class TaskRunner(Protocol):
    """Runs tasks in other processes, as `upstreams.workers.pool.ProcessPool` does."""

    async def run(self, task: Task, deadline_at: float, *, source: str, account_id: str) -> Answer:
        """Like `ProcessPool.run`."""
        ...


class PageSteps(JobKind):
    """The job kind of crawls and batches of pages."""

    at_once = 4

    def __init__(
        self,
        recipes: Recipes,
        workers: TaskRunner,
        on_end: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None,
    ) -> None:
        """`workers` examine links. `on_end` queues a job's delivery in the transaction that ends the job."""
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
        warning = f"links of this page that were not followed (too many, or too long): {left_out}"
        return Outcome("done", gathered.body, gathered.used_credits, error=warning if left_out else None, found=links)

    async def _gather(self, recipe: Recipe, account_id: str) -> Gathered:
        """Read a page once its host allows it.

        Unlike a request, a crawl retries after the pause that the host or its robots.txt demands, at most `WAIT_S_MAX`.

        Raises:
            GatheringFailed: the page could not be read.
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
        """Return the next wave: the pages linked from the last wave, within the credits and the depth limit."""
        bounds = spec_of(job.spec).bounds
        if bounds is None or job.waves > bounds.depth_max:
            return None
        room = min(bounds.pages_max - job.done, ATTEMPTS_A_PAGE * bounds.pages_max - job.planned)
        lead = partial(self._pages_led_to, job.account_id, msgspec.to_builtins(bounds))
        return PageWave(room, lead, partial(self._planning.turn, job.account_id))

    async def _pages_led_to(self, account_id: str, bounds: dict[str, Any], found: Sequence[bytes]) -> list[list[str]]:
        """Return the pages that the links of some steps lead to.

        Worker processes examine the links; accounts take turns.

        Raises:
            UpstreamFailed: no process was free.
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
        """Return how the job ends.

        A job without any page has failed, even if the only reason is that all its pages are gone or forbidden.
        """
        stop = super().verdict(tx, job, has_credits=has_credits)
        return Stop("failed", stop.because) if has_credits and not job.done else stop

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: ARG002 - for kinds that keep it
        """Queue the delivery of the job's end."""
        self._on_end(tx, job)


def _missing(failure: GatheringFailed) -> Outcome:
    code = next((str(leg.get("error")) for leg in failure.legs), "UPSTREAM_ERROR")
    reason = getattr(failure.__cause__, "reason", None)
    status: StepStatus = "empty" if code in _ABSENT else "failed"
    return Outcome(status, None, failure.used_credits, error=str(reason or code))


def followed_links(links: Any) -> tuple[tuple[str, ...], int]:
    """Return the first links of a page, as many as a crawl examines, and the number of the other links."""
    if not isinstance(links, list):
        return (), 0
    sizes = accumulate(len(one) if isinstance(one, str) else 0 for one in links[:LINKS_MAX])
    count = sum(1 for size in sizes if size <= LINK_CHARS_MAX)
    return tuple(one for one in links[:count] if isinstance(one, str)), len(links) - count


class PageWave(Wave):
    """The next pages of a crawl: the targets of the links that its last pages contain, in the order of those pages."""

    def __init__(
        self,
        room: int,
        lead: Callable[[Sequence[bytes]], Awaitable[list[list[str]]]],
        turn: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        """`lead` returns the pages that the links of some steps lead to.

        `turn` waits for the account's turn to add pages.
        """
        super().__init__()
        self._room = room
        self._lead = lead
        self._turn = turn
        self._frontier = Frontier()

    @property
    def is_full(self) -> bool:
        """Whether the wave has reached its maximum number of pages."""
        return len(self.names) >= self._room

    def note(self, name: str) -> None:
        """Record a page that the crawl has visited."""
        self._frontier.note(name)

    async def add(self, found: Sequence[bytes]) -> None:
        """Add the pages that the links of some steps lead to, with a checkpoint after every few pages."""
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
    """Limits concurrent page reads per host, over all jobs of this node."""

    def __init__(self) -> None:
        self._hosts: dict[str, trio.CapacityLimiter] = {}

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Wait until the host has a free turn, and occupy the turn while the block runs."""
        turns = self._hosts.setdefault(host, trio.CapacityLimiter(PAGES_AT_ONCE))
        try:
            async with turns:
                yield
        finally:
            if not turns.borrowed_tokens and not turns.statistics().tasks_waiting:
                self._hosts.pop(host, None)
