"""Cohorts: member counts, queries with coverage and results, and deletion (decisions 20)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from quart import Response, request
from quart_trio import QuartTrio

from billing.errors import SealBroken
from gateway.dashboard.address import PREFIX
from gateway.dashboard.downloads import long_download
from gateway.dashboard.forms import fields, position_of, position_text
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.services import Services
from gateway.http.codes import sentence
from scheduler.errors import (
    CohortQueryNotReady,
    CohortQueryOver,
    CohortQueryUnknown,
    CohortResultTooLarge,
    CohortUnknown,
)
from scheduler.jobs.cohorts.queries import Query
from scheduler.jobs.cohorts.results import BEGIN, ResultPage, ResultPosition
from scheduler.jobs.cohorts.service import Cohort

COHORTS: Final = f"{PREFIX}/cohorts"
QUERIES: Final = 20
RESULTS: Final = 40
RESULTS_AT_ONCE: Final = 500
"""How many results a download reads from the store per query."""
_REFRESH_S: Final = 5
_SEALED: Final = "The results were encrypted with another master secret, so the current one cannot decrypt them."
_PLACE: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


class CohortPages:
    """The list of an account's cohorts, and the pages of single cohorts and queries."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._cohorts = services.cohorts
        self._queries = services.cohort_queries
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        query = f"{COHORTS}/queries/<query_id>"
        app.add_url_rule(COHORTS, "cohorts", self.page)
        app.add_url_rule(f"{COHORTS}/<cohort_id>", "cohort", self.show)
        app.add_url_rule(f"{COHORTS}/<cohort_id>/delete", "delete_cohort", self.delete, methods=["POST"])
        app.add_url_rule(query, "cohort_query", self.query)
        app.add_url_rule(f"{query}/results.jsonl", "query_lines", self.lines)
        app.add_url_rule(f"{query}/cancel", "cancel_query", self.cancel, methods=["POST"])

    async def page(self) -> Response:
        """List all cohorts, newest first."""
        return await self._frame.shown("cohorts.html", "Cohorts", cohorts=await self._cohorts.list(account_id()))

    async def show(self, cohort_id: str) -> Response:
        """Show one cohort with its queries, newest first."""
        cohort, before = await self._cohort(cohort_id), position_of(request.args.get("before", ""))
        try:
            found = await self._queries.page(account_id(), cohort_id, before=before, limit=QUERIES + 1)
        except CohortUnknown as exc:
            raise ObjectMissing from exc
        last = found[QUERIES - 1].job if len(found) > QUERIES else None
        response = await self._frame.shown(
            "cohort.html",
            cohort.name or "Cohort",
            cohort=cohort,
            queries=[_view(one) for one in found[:QUERIES]],
            older="" if last is None else position_text(last.created_at, last.id),
            is_first=before is None,
        )
        if before is None and any(not one.is_over for one in found):
            response.headers["refresh"] = f"{_REFRESH_S};url={request.path}"
        return response

    async def delete(self, cohort_id: str) -> Response:
        """Ask for confirmation, then delete the cohort and destroy everything encrypted with its key."""
        cohort = await self._cohort(cohort_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("delete_cohort.html", "Delete this cohort?", cohort=cohort)
        try:
            await self._cohorts.delete(account_id(), cohort_id)
        except CohortUnknown as exc:
            raise ObjectMissing from exc
        return self._frame.to_page(COHORTS, done="cohort_deleted")

    async def query(self, query_id: str) -> Response:
        """Show a query: its progress, and a page of its results once it has ended."""
        return await self._shown(query_id)

    async def lines(self, query_id: str) -> Response:
        """Download all results and the coverage as JSON lines in the API's format."""
        query = await self._query(query_id)
        if not _view(query)["has_results"]:
            raise ObjectMissing
        return long_download(
            f"{query_id}.jsonl", self._pieces(account_id(), query_id), content_type="application/x-ndjson"
        )

    async def cancel(self, query_id: str) -> Response:
        """Ask for confirmation, then cancel the query."""
        query = await self._query(query_id)
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("cancel_query.html", "Cancel this query?", query=_view(query))
        try:
            await self._queries.cancel(account_id(), query_id)
        except CohortQueryUnknown as exc:
            raise ObjectMissing from exc
        except CohortQueryOver as exc:
            return await self._shown(query_id, status=400, error=sentence(exc))
        return self._frame.to_page(f"{COHORTS}/queries/{query_id}", done="query_cancelled")

    async def _cohort(self, cohort_id: str) -> Cohort:
        """Return the account's cohort. Raises ObjectMissing."""
        try:
            return await self._cohorts.get(account_id(), cohort_id)
        except CohortUnknown as exc:
            raise ObjectMissing from exc

    async def _query(self, query_id: str) -> Query:
        """Return the account's query. Raises ObjectMissing."""
        try:
            return await self._queries.get(account_id(), query_id)
        except CohortQueryUnknown as exc:
            raise ObjectMissing from exc

    async def _shown(self, query_id: str, *, status: int = 200, error: str = "") -> Response:
        query, begin = _view(await self._query(query_id)), _position(request.args.get("from", ""))
        page = ResultPage([], [], None)
        try:
            if query["has_results"]:
                page = await self._page(account_id(), query_id, begin, RESULTS)
        except SealBroken:
            error = error or _SEALED
        except (
            CohortQueryUnknown,
            CohortQueryNotReady,
        ) as exc:  # the query was deleted or has expired since it was read
            raise ObjectMissing from exc
        response = await self._frame.shown(
            "cohort_query.html",
            "Cohort query",
            status=status,
            error=error,
            query=query,
            items=[orjson.loads(one) for one in page.items],
            coverage=[orjson.loads(one) for one in page.coverage],
            older="" if page.next is None else f"{page.next.number}-{page.next.place}",
            is_first=begin == BEGIN,
        )
        if request.method == "GET" and not query["is_over"]:
            response.headers["refresh"] = f"{_REFRESH_S};url={request.path}"
        return response

    async def _page(self, owner_id: str, query_id: str, begin: ResultPosition, limit: int) -> ResultPage:
        """Return a page of results. For a result that is too long for a page, only its size is shown."""
        try:
            return await self._queries.results(owner_id, query_id, begin, limit)
        except CohortResultTooLarge as exc:
            placeholder = orjson.dumps(
                {"query_id": query_id, "text_excerpt": sentence(exc), "error": "COHORT_RESULT_TOO_LARGE"}
            )
            return ResultPage([placeholder], [], ResultPosition(*exc.next_at))

    async def _pieces(self, owner_id: str, query_id: str) -> AsyncIterator[bytes]:
        # Pieces are produced after the request has ended, so they must not use the request's context.
        here: ResultPosition | None = BEGIN
        while here is not None:
            page = await self._page(owner_id, query_id, here, RESULTS_AT_ONCE)
            yield b"".join(one + b"\n" for one in (*page.items, *page.coverage))
            here = page.next


def _position(text: str) -> ResultPosition:
    """Parse the position at which a page of results begins. An invalid value means the first page."""
    found = _PLACE.fullmatch(text)
    return BEGIN if found is None else ResultPosition(int(found[1]), int(found[2]))


def _view(query: Query) -> dict[str, Any]:
    record, job = query.record, query.job
    return {
        "record": record,
        "job": job,
        "status": query.status,
        "is_over": query.is_over,
        "has_results": query.status in ("succeeded", "failed"),
        "refunded": job.held_credits - job.used_credits if job.is_over else 0,
    }
