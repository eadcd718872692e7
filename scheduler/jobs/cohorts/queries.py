"""The operations on cohort queries: start, read, cancel and page through results (spec 3, decisions 14)."""

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
"""The maximum number of shards read from the store in one query. A shard can be as long as several pages."""
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
        """The state of the query. It counts as succeeded even if some shards failed; the coverage shows which."""
        return "expired" if self.record.gone == "expired" else _STATUS[self.job.status]

    @property
    def is_over(self) -> bool:
        """Whether the query has ended for good."""
        return self.job.is_over


class CohortQueries:
    """Cohort queries. Every method takes an account id, and treats queries of other accounts as unknown."""

    def __init__(self, setting: CohortSetting, cohorts: CohortService, jobs: JobService) -> None:
        """`jobs` is a job service for query jobs."""
        self._jobs = jobs
        self._cohorts = cohorts
        self._store = setting.store
        self._cipher = setting.cipher
        self._recipes = setting.recipes
        self._routes = setting.routes
        self._now = setting.now
        self._reads = setting.reads

    async def plan(self, account_id: str, cohort_id: str, sent: QueryBody) -> QueryPlan:
        """Validate a query and compute its maximum cost, without starting it.

        Raises:
            CohortUnknown, JobInvalid, CohortPlatformUnsupported, CohortQueryTooDear: the query cannot be started.
            SealBroken: the cohort was sealed with another secret.
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
        """Reserve the maximum cost of a query, queue it, and return its id.

        This also restarts the retention period of its cohort.

        Raises:
            CohortUnknown, JobLimitReached: nothing was started.
            InsufficientCredits, KeyBudgetReached, KeyUnusable, StorageError: nothing was started or charged.
        """

        def also(tx: Tx, job: JobRecord) -> None:
            now = self._now()
            cohort = cohort_rows.owned(tx, owner.account_id, cohort_id, now, locked=True)
            record = QueryRecord(job.id, cohort_id, owner.account_id, max_credits, plan.members, plan.routes)
            query_rows.add_query(tx, record)
            cohort_rows.renew(tx, cohort, now)

        return (await self._jobs.begin(replace(plan.draft, also=also), owner, write=write)).id

    async def get(self, account_id: str, query_id: str) -> Query:
        """Return one query.

        Raises:
            CohortQueryUnknown: the account has no such query.
        """
        read = partial(query_rows.owned, account_id=account_id, query_id=query_id, now=self._now())
        return Query(*await self._store.read(read))

    async def page(
        self, account_id: str, cohort_id: str, *, before: tuple[float, str] | None, limit: int
    ) -> list[Query]:
        """Return a page of a cohort's queries, newest first.

        Raises:
            CohortUnknown: the account has no such cohort.
        """

        def read(tx: Tx) -> list[Query]:
            cohort_rows.owned(tx, account_id, cohort_id, self._now())
            found = query_rows.queries_of(tx, account_id, cohort_id, before=before, limit=limit)
            return [Query(*one) for one in found]

        return await self._store.read(read)

    async def cancel(self, account_id: str, query_id: str) -> None:
        """Cancel a query. Finished shards are kept and charged, and the rest of the reservation is refunded.

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
        """Return a page of results: at most `limit` rows, fewer if they are long.

        Raises:
            CohortQueryUnknown: the account has no such query.
            CohortQueryNotReady: the query has not finished, was cancelled, or has expired.
            CohortResultTooLarge: the first row is longer than a page.
            SealBroken: the query was sealed with another secret.
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
    """Fill a page with rows of the shards in `found`.

    Return the position of the first row that did not fit, or None if all rows did.
    """
    for number, sealed in found:
        here = begin if number == begin.number else ResultPosition(number, 0)
        rows = rows_of(query_id, number, key.unseal(sealed, results_of(query_id, number)))
        if (left := builder.fill(here, rows)) is not None:
            return left
    return None
