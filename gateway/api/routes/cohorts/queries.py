"""Cohort queries over HTTP: start, follow, cancel, and read results (spec 4.6, decisions 14 and 20)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
import trio

from events.instants import iso, iso_or_none
from gateway.api.changes import Changes, claim_of_change, text_of
from gateway.api.paging import ListPosition, Lists
from gateway.api.responses import Replies, account_fragment
from gateway.api.routes.cohorts.cohorts import COHORT, cohort_id_of, unstored
from gateway.docs.account import cohorts as docs
from gateway.http.bodies import read_json
from gateway.http.codes import sentence
from gateway.http.errors import Refused
from gateway.http.params import CURSOR, DRY_RUN, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.http.sse import EventStream
from limits.idempotency import StoredReply
from limits.long_reads import LongReads
from scheduler.errors import CohortResultTooLarge
from scheduler.jobs.cohorts.queries import CohortQueries, Query
from scheduler.jobs.cohorts.results import BEGIN, ResultPage, ResultPosition
from scheduler.jobs.cohorts.spec import QueryBody
from scheduler.jobs.service import JobOwner
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

QUERY: Final = "/v1/cohort-queries/{query_id}"
_BEGIN: Final = (DRY_RUN,)
_RESULTS: Final = (limit(500, default=100), CURSOR)
CHECK_S: Final = 0.5
"""Seconds between two checks of a query that a stream follows."""
STREAM_S: Final = 900.0
"""Seconds after which a stream ends with the query's current state."""


class CohortQueryRoutes:
    """Serves the cohort queries of the caller's account."""

    def __init__(
        self,
        queries: CohortQueries,
        *,
        signer: CursorSigner,
        replies: Replies,
        changes: Changes,
        stopping: Callable[[], bool],
        reads: LongReads,
    ) -> None:
        """All streams end when `stopping` returns True."""
        self._reads = reads
        self._queries = queries
        self._replies = replies
        self._changes = changes
        self._stopping = stopping
        self._lists = Lists(signer, replies)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the query endpoints."""
        begin = f"{COHORT}/queries"
        return (
            Route(begin, self.begin, ("POST",), doc=docs.BEGIN_QUERY, params=_BEGIN, body=QueryBody),
            Route(QUERY, self.show, doc=docs.SHOW_QUERY),
            Route(QUERY, self.cancel, ("DELETE",), doc=docs.CANCEL_QUERY),
            Route(f"{QUERY}/results", self.results, doc=docs.RESULTS, params=_RESULTS),
        )

    async def begin(self, request: Request, caller: Caller) -> Reply:
        """Start a query and reserve its maximum cost. Return the query with status 202."""
        values = read_free(request.query, _BEGIN)
        sent = await read_json(request, QueryBody)
        claim, dry_run = claim_of_change(request, caller, sent), bool(values.get("dry_run"))
        earlier = None if claim is None or dry_run else await self._changes.claims.earlier(claim)
        if earlier is None:
            return await self._begin(request, caller, sent, dry_run=dry_run)
        query = await self._queries.get(caller.key.account_id, text_of(earlier))
        return await self._begun(request, caller, query, earlier)

    async def _begin(self, request: Request, caller: Caller, sent: QueryBody, *, dry_run: bool) -> Reply:
        account_id, cohort_id = caller.key.account_id, cohort_id_of(request)
        plan = await self._queries.plan(account_id, cohort_id, sent)
        if dry_run:
            data = {"estimated_credits": plan.draft.held_credits, "would_hit_cache": False}
            return unstored(await self._replies.free(request, caller, account_fragment(request.path, data)))
        owner = JobOwner(account_id, caller.key.id, request.id)
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._queries.begin(cohort_id, plan, sent.max_credits, owner, write=write),
            keep=lambda job: job.id,
        )
        query = await self._queries.get(account_id, text_of(made) if isinstance(made, StoredReply) else made)
        return await self._begun(request, caller, query, made)

    async def _begun(self, request: Request, caller: Caller, query: Query, made: object) -> Reply:
        fragment = account_fragment(request.path, self._shown(request, query))
        return unstored(await self._changes.answer(request, caller, fragment, made, status=202))

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return the query's current state, or stream its progress until it has ended."""
        read_free(request.query, ())
        read = partial(self._queries.get, caller.key.account_id, _query_id(request))
        query, is_streamed = await read(), False
        if request.stream is not None and request.method == "GET":
            query, is_streamed = await self._follow(request, request.stream, query, read), True
        reply = await self._replies.free(request, caller, account_fragment(request.path, self._shown(request, query)))
        return replace(unstored(reply), streamed=is_streamed)

    async def _follow(self, request: Request, stream: EventStream, query: Query, read: Any) -> Query:
        """Send the query's progress at each change. Return the query when the stream ends."""
        began, last_sent = trio.current_time(), None
        while not query.is_over and not self._stopping() and trio.current_time() < began + STREAM_S:
            now = orjson.dumps(self._shown(request, query))
            if now != last_sent and not await stream.publish("progress", now):
                break
            last_sent = now
            await trio.sleep(CHECK_S)
            query = await read()
        request.held_s += trio.current_time() - began
        return query

    async def cancel(self, request: Request, caller: Caller) -> Reply:
        """Cancel the query."""
        read_free(request.query, ())
        await self._queries.cancel(caller.key.account_id, _query_id(request))
        return unstored(await self._replies.bare(caller, Reply(204, b"")))

    async def results(self, request: Request, caller: Caller) -> Reply:
        """Return a page of the query's results, with the coverage of the members on it."""
        values = read_free(request.query, _RESULTS)
        place = self._lists.position(request, caller, values)
        begin = BEGIN if place.state is None else ResultPosition(int(place.state["shard"]), int(place.state["row"]))
        query_id = _query_id(request)
        caller.hold(await self._reads.take(caller.key.account_id))
        try:
            page = await self._queries.results(caller.key.account_id, query_id, begin, int(values["limit"]))
        except CohortResultTooLarge as exc:
            raise self._too_large(exc, place) from exc
        fragment = await self._reads.run(caller.key.account_id, partial(self._page, request, place, page))
        return unstored(await self._replies.free(request, caller, fragment))

    def _page(self, request: Request, place: ListPosition, page: ResultPage) -> bytes:
        cursor = self._lists.cursor(place, _state(page.next))
        pagination = {"next_cursor": cursor, "has_more": cursor is not None, "page_size": len(page.items)}
        data = {
            "items": [orjson.Fragment(one) for one in page.items],
            "coverage": [orjson.Fragment(one) for one in page.coverage],
            "next_cursor": cursor,
        }
        return account_fragment(request.path, data, pagination)

    def _too_large(self, exc: CohortResultTooLarge, place: ListPosition) -> Refused:
        next_cursor = self._lists.cursor(place, _state(ResultPosition(*exc.next_at)))
        how = "Continue with next_cursor."
        details = {"reason": "result_too_large", "param": "cursor", "next_step": how, "next_cursor": next_cursor}
        return Refused("COHORT_RESULT_TOO_LARGE", sentence(exc), details=details)

    def _shown(self, request: Request, query: Query) -> dict[str, Any]:
        record, job = query.record, query.job
        base = f"{self._replies.base_url_for(request)}/v1/cohort-queries/{record.id}"
        return {
            "id": record.id,
            "query_id": record.id,
            "cohort_id": record.cohort_id,
            "status": query.status,
            "stopped_because": job.stopped_because,
            "member_count": record.members,
            "shard_count": job.planned,
            "completed_shard_count": job.done + job.empty,
            "failed_shard_count": job.failed,
            "result_count": record.matches,
            "max_credits": record.max_credits,
            "estimated_credits": job.held_credits,
            "reserved_credits": job.held_credits,
            "actual_credits": job.used_credits,
            "refunded_credits": job.held_credits - job.used_credits if job.is_over else 0,
            "progress": {
                "shards_total": job.planned,
                "shards_completed": job.done + job.empty,
                "shards_failed": job.failed,
                "members_total": record.members,
                "members_completed": record.members_completed,
                "routes_planned": record.routes,
                "routes_completed": record.routes_completed,
                "pages_succeeded": record.pages_succeeded,
                "pages_failed": record.pages_failed,
                "matches": record.matches,
            },
            "created_at": iso(job.created_at),
            "started_at": iso_or_none(job.started_at),
            "finished_at": iso_or_none(job.finished_at),
            "status_url": base,
            "result_url": f"{base}/results",
        }


def _state(position: ResultPosition | None) -> dict[str, str | int] | None:
    return None if position is None else {"shard": position.number, "row": position.place}


def _query_id(request: Request) -> str:
    """Return the query in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["query_id"]
