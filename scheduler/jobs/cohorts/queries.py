"""Queries over cohorts as their owners have them: begun, read, cancelled, and their results (spec 3, decisions 14)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple

from scheduler.errors import CohortQueryNotReady, CohortQueryOver, JobOver
from scheduler.jobs.cohorts import cohort_rows, query_rows
from scheduler.jobs.cohorts.query_rows import QueryRecord
from scheduler.jobs.cohorts.results import PageBuilder, ResultPage, ResultPosition, rows_of
from scheduler.jobs.cohorts.sealing import CohortKey, open_key
from scheduler.jobs.cohorts.service import CohortService
from scheduler.jobs.cohorts.setting import CohortSetting
from scheduler.jobs.cohorts.shards import results_of
from scheduler.jobs.cohorts.spec import QueryBody, QueryPlan, plan_query, query_spec
from scheduler.jobs.records import JobRecord, JobStatus
from scheduler.jobs.service import JobOwner, JobService
from storage.store import Tx, Write

QueryStatus = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]
SHARDS_AT_ONCE: Final = 8
"""Shards that are read from the store at a time, at most: each may be as long as some pages."""
_STATUS: Final[dict[JobStatus, QueryStatus]] = {
    "queued": "queued",
    "running": "running",
    "paused": "queued",
    "completed": "succeeded",
    "partial": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}


class Query(NamedTuple):
    """A query with its job."""

    record: QueryRecord
    job: JobRecord

    @property
    def status(self) -> QueryStatus:
        """Its state; one whose shards failed in part has succeeded, and its coverage tells."""
        return "expired" if self.record.gone == "expired" else _STATUS[self.job.status]

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.job.is_over


class CohortQueries:
    """Every method takes the account: what belongs to another one is unknown."""

    def __init__(self, setting: CohortSetting, cohorts: CohortService, jobs: JobService) -> None:
        """`jobs` are of the kind of queries."""
        self._jobs = jobs
        self._cohorts = cohorts
        self._store = setting.store
        self._cipher = setting.cipher
        self._recipes = setting.recipes
        self._routes = setting.routes
        self._now = setting.now
        self._reads = setting.reads

    async def plan(self, account_id: str, cohort_id: str, sent: QueryBody) -> QueryPlan:
        """A query that can be begun, with what it may cost.

        Raises:
            CohortUnknown, JobInvalid, CohortPlatformUnsupported, CohortQueryTooDear: it cannot be begun.
            SealBroken: another secret has sealed the cohort.
        """
        key = await self._cohorts.open(account_id, cohort_id)
        spec = query_spec(sent, key, cohort_id, self._routes)
        members = await self._store.read(partial(cohort_rows.member_platforms, cohort_id=cohort_id))
        prices = {
            slug: self._recipes.page_price(route.endpoint) for slug, route in self._routes.items() if route.is_available
        }
        return plan_query(spec, sent.max_credits, members, prices)

    async def begin(
        self, cohort_id: str, plan: QueryPlan, max_credits: int, owner: JobOwner, *, write: Write | None = None
    ) -> str:
        """Reserve what a query may cost, queue it, and begin the retention of its cohort anew; its id.

        Raises:
            CohortUnknown, JobLimitReached: nothing was begun.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was begun or charged.
        """

        def also(tx: Tx, job: JobRecord) -> None:
            now = self._now()
            cohort = cohort_rows.owned(tx, owner.account_id, cohort_id, now, locked=True)
            record = QueryRecord(job.id, cohort_id, owner.account_id, max_credits, plan.members, plan.routes)
            query_rows.add_query(tx, record)
            cohort_rows.renew(tx, cohort, now)

        return (await self._jobs.begin(replace(plan.draft, also=also), owner, write=write)).id

    async def get(self, account_id: str, query_id: str) -> Query:
        """One of them.

        Raises:
            CohortQueryUnknown: the account has no such query.
        """
        read = partial(query_rows.owned, account_id=account_id, query_id=query_id, now=self._now())
        return Query(*await self._store.read(read))

    async def page(
        self, account_id: str, cohort_id: str, *, before: tuple[float, str] | None, limit: int
    ) -> list[Query]:
        """A page of a cohort's queries, newest first.

        Raises:
            CohortUnknown: the account has no such cohort.
        """

        def read(tx: Tx) -> list[Query]:
            cohort_rows.owned(tx, account_id, cohort_id, self._now())
            found = query_rows.queries_of(tx, account_id, cohort_id, before=before, limit=limit)
            return [Query(*one) for one in found]

        return await self._store.read(read)

    async def cancel(self, account_id: str, query_id: str) -> None:
        """End a query: shards that are done stay and are paid for, and the rest goes back.

        Raises:
            CohortQueryUnknown, CohortQueryOver: nothing was changed.
        """
        query = await self.get(account_id, query_id)
        if query.is_over:
            raise CohortQueryOver(query.status)
        try:
            await self._jobs.cancel(account_id, query_id)
        except JobOver:
            raise CohortQueryOver((await self.get(account_id, query_id)).status) from None

    async def results(self, account_id: str, query_id: str, begin: ResultPosition, limit: int) -> ResultPage:
        """A page of results: at most `limit` rows, fewer where they are long.

        Raises:
            CohortQueryUnknown: the account has no such query.
            CohortQueryNotReady: it has not ended, was cancelled, or its retention has passed.
            CohortResultTooLarge: the first row is longer than a page.
            SealBroken: another secret has sealed it.
        """
        query = await self.get(account_id, query_id)
        if query.status not in ("succeeded", "failed"):
            raise CohortQueryNotReady(query.status)
        kept = await self._store.read(partial(cohort_rows.read_key, cohort_id=query.record.cohort_id))
        if kept is None:
            raise CohortQueryNotReady("expired")
        key, builder, here = open_key(self._cipher, query.record.cohort_id, kept), PageBuilder(limit), begin
        while True:
            read = partial(query_rows.results_from, query_id=query_id, number=here.number, limit=SHARDS_AT_ONCE)
            found = await self._store.read(read)
            left = await self._reads.run(account_id, partial(_fill, builder, key, query_id, here, found))
            if left is not None or not found:
                return builder.page(left)
            here = ResultPosition(found[-1][0] + 1, 0)


def _fill(
    builder: PageBuilder, key: CohortKey, query_id: str, begin: ResultPosition, found: list[tuple[int, bytes]]
) -> ResultPosition | None:
    """Fill a page from these shards, and return the first row that was left out; None if all were taken."""
    for number, sealed in found:
        here = begin if number == begin.number else ResultPosition(number, 0)
        rows = rows_of(query_id, number, key.unseal(sealed, results_of(query_id, number)))
        if (left := builder.fill(here, rows)) is not None:
            return left
    return None
