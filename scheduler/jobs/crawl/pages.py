"""A page as a step of a job: read by the recipe `web/scrape`, with the links that a crawl goes on with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from limits.errors import Throttled
from scheduler.jobs.crawl.links import next_pages
from scheduler.jobs.crawl.spec import RECIPE, spec_of
from scheduler.jobs.records import Finding, JobKind, JobRecord, JobStep, Outcome, StepStatus
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipeInvalid, Recipes
from storage.store import Tx
from upstreams.model.errors import UpstreamThrottled

PAGE_S: Final = 60.0
PAGES_AT_ONCE: Final = 2
"""Pages of one host that are read at a time, whoever crawls it."""
WAITS_MAX: Final = 5
WAIT_S_MAX: Final = 60.0
"""A page is tried again so often, and so much later at most, where its host wants us to wait."""
LINKS_MAX: Final = 2_000
"""Links of one page that are looked at."""
ATTEMPTS_A_PAGE: Final = 2
"""PageSteps that a crawl tries for each that it may bring: many links of a site lead nowhere."""
_ABSENT: Final = frozenset(("RESOURCE_NOT_FOUND", "INVALID_REQUEST"))
"""The codes by which a page is known not to be had, which is no failure."""


class PageSteps(JobKind):
    """The kind of work that crawls and batches of pages are."""

    at_once = 4

    def __init__(self, recipes: Recipes, on_end: Callable[[Tx, JobRecord], None] = lambda _tx, _job: None) -> None:
        """`on_end` queues the delivery of a job's end, in the transaction that ends it."""
        self._recipes = recipes
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
                return Outcome("empty", error=exc.problem)
            except GatheringFailed as exc:
                return _missing(exc)
        found = _links(gathered.data) if spec.bounds is not None else ()
        return Outcome("done", gathered.body, gathered.used_credits, found=found)

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

    def next_wave(self, job: JobRecord, findings: Sequence[Finding], names: Sequence[str]) -> list[str]:
        """The pages that the last wave's links lead to, as far as credits and the depth allow."""
        bounds = spec_of(job.spec).bounds
        if bounds is None or job.waves > bounds.depth_max:
            return []
        room = min(bounds.pages_max - job.done, ATTEMPTS_A_PAGE * bounds.pages_max - job.planned)
        return next_pages(bounds, names, [one.found for one in findings], room=room)

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: ARG002 - for kinds that keep it
        """Tell of the end."""
        self._on_end(tx, job)


def _missing(failure: GatheringFailed) -> Outcome:
    code = next((str(leg.get("error")) for leg in failure.legs), "UPSTREAM_ERROR")
    reason = getattr(failure.__cause__, "reason", None)
    status: StepStatus = "empty" if code in _ABSENT else "failed"
    return Outcome(status, error=str(reason or code))


def _links(data: Any) -> tuple[str, ...]:
    links = data["page"]["links"]
    return tuple(one for one in links[:LINKS_MAX] if isinstance(one, str)) if isinstance(links, list) else ()


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
