"""Web jobs over HTTP: crawls and page batches, their results and their webhooks (decisions 17, 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import orjson
import trio
from msgspec import Meta

from events.instants import iso
from gateway.api.changes import Changes, claim_of_change, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.api.routes.webhooks.deliveries import DeliveryLog, DeliveryLogRoutes, delivery_view
from gateway.calls.planning import check_max_credits
from gateway.docs.account import jobs as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR, DRY_RUN, MAX_CREDITS, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from limits.long_reads import LongReads
from scheduler.jobs.crawl.spec import PLATFORM, BatchBody, CrawlBody, batch_of, crawl_of
from scheduler.jobs.crawl.webhooks import JobWebhooks, links_of
from scheduler.jobs.records import EndedStep, JobRecord, StepStatus, facts_of
from scheduler.jobs.service import JobDraft, JobOwner, JobService
from scheduler.json_input import nearest
from scheduler.monitors.webhooks import Webhooks
from scheduler.packing import PIECE_BYTES, Unpacker
from scheduler.recipes import Recipes
from storage.store import Write
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

JOBS: Final = "/v1/web/jobs"
JOB: Final = f"{JOBS}/{{job_id}}"
_BEGIN: Final = (DRY_RUN, MAX_CREDITS)
_LIST: Final = (limit(100, default=20), CURSOR)
_STEPS: Final = (limit(100, default=20), CURSOR)
_LINES_AT_ONCE: Final = 25


class _Result(msgspec.Struct, frozen=True):
    """The part of a stored result that responses show. The page in it is not decoded."""

    page: msgspec.Raw = msgspec.Raw(b"null")


class ChangeBody(msgspec.Struct, frozen=True):
    """The fields of a job that can be changed."""

    status: Annotated[str, Meta(description="`paused` or `running`.", examples=["paused"])]


class JobRoutes:
    """Serves the jobs of the caller's account."""

    def __init__(
        self,
        jobs: JobService,
        recipes: Recipes,
        hooks: JobWebhooks,
        webhooks: Webhooks,
        *,
        signer: CursorSigner,
        replies: Replies,
        changes: Changes,
        reads: LongReads,
    ) -> None:
        """`hooks` registers the webhooks of `jobs`, and `webhooks` holds the deliveries to these webhooks."""
        self._reads = reads
        self._jobs = jobs
        self._hooks = hooks
        self._recipes = recipes
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies, PLATFORM)
        log = DeliveryLog(JOB, "job_id", docs.LOG, partial(delivery_view, cause={}), PLATFORM)
        self._log = DeliveryLogRoutes(webhooks, log, signer=signer, replies=replies, changes=changes)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the job endpoints."""
        crawl, batch = partial(self.begin, CrawlBody, _crawl_of), partial(self.begin, BatchBody, batch_of)
        return (
            Route("/v1/web/crawl", crawl, ("POST",), doc=docs.CRAWL, params=_BEGIN, body=CrawlBody),
            Route("/v1/web/batch-scrape", batch, ("POST",), doc=docs.BATCH, params=_BEGIN, body=BatchBody),
            Route(JOBS, self.page, doc=docs.LIST, params=_LIST),
            Route(JOB, self.show, doc=docs.SHOW),
            Route(JOB, self.change, ("PATCH",), doc=docs.CHANGE, body=ChangeBody),
            Route(JOB, self.cancel, ("DELETE",), doc=docs.CANCEL),
            Route(f"{JOB}/results", self.results, doc=docs.RESULTS, params=_STEPS),
            Route(f"{JOB}/results.jsonl", self.lines, doc=docs.LINES),
            Route(f"{JOB}/errors", self.errors, doc=docs.ERRORS, params=_STEPS),
            *self._log.routes,
        )

    async def begin(
        self,
        kind: type[CrawlBody | BatchBody],
        draft_of: Callable[[Any, Recipes], Awaitable[JobDraft]],
        request: Request,
        caller: Caller,
    ) -> Reply:
        """Start a job and reserve its maximum cost.

        Return 202 with the job and, only this time, its webhook's secret.
        """
        values = read_free(request.query, _BEGIN)
        sent = await read_json(request, kind)
        draft = await draft_of(sent, self._recipes)
        target = self._hooks.target(sent.webhook_url, sent.webhook_secret)
        claim_of_change(request, caller, sent)  # Rejects an invalid idempotency key, even with `dry_run`.
        check_max_credits(values, draft.held_credits)
        if values.get("dry_run"):
            await self._hooks.check(target)
            data = {"estimated_credits": draft.held_credits, "would_hit_cache": False}
            return await self._replies.free(request, caller, envelope.fragment(PLATFORM, request.path, data))
        owner = JobOwner(caller.key.account_id, caller.key.id, request.id)

        async def begin(write: Write | None) -> JobRecord:
            await self._hooks.check(target)
            return await self._jobs.begin(self._hooks.with_webhook(draft, target), owner, write=write)

        made = await self._changes.make(request, caller, sent, begin, keep=lambda job: job.id)
        if isinstance(made, StoredReply):  # A repeated request gets the job's current state.
            job, target = await self._jobs.get(owner.account_id, text_of(made)), None
        else:
            job = made
        shown = {**self._shown(request, job), "webhook_secret": None if target is None else target.secret}
        fragment = envelope.fragment(PLATFORM, request.path, shown)
        return await self._changes.answer(request, caller, fragment, made, status=202)

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of jobs, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._jobs.page(caller.key.account_id, before=place.before, limit=size + 1)
        last = found[size - 1] if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        items = [self._shown(request, job) for job in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one job."""
        read_free(request.query, ())
        job = await self._jobs.get(caller.key.account_id, _job_id(request))
        return await self._replies.free(request, caller, self._fragment(request, job))

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a job and return it."""
        read_free(request.query, ())
        sent = await read_json(request, ChangeBody)
        if sent.status not in ("paused", "running"):
            problem = f"must be paused or running, not {sent.status[:40]}"
            raise InvalidParam("status", problem, meant=nearest(sent.status, ("paused", "running")))
        job = await self._jobs.set_status(
            caller.key.account_id, _job_id(request), "paused" if sent.status == "paused" else "running"
        )
        return await self._replies.free(request, caller, self._fragment(request, job))

    async def cancel(self, request: Request, caller: Caller) -> Reply:
        """Cancel a job and return its final state."""
        read_free(request.query, ())
        job = await self._jobs.cancel(caller.key.account_id, _job_id(request))
        return await self._replies.free(request, caller, self._fragment(request, job))

    async def results(self, request: Request, caller: Caller) -> Reply:
        """Return a page of results, in order."""
        caller.hold(await self._reads.take(caller.key.account_id))
        return await self._steps_page(request, caller, ("done",))

    async def errors(self, request: Request, caller: Caller) -> Reply:
        """Return a page of the steps that failed or found nothing."""
        return await self._steps_page(request, caller, ("empty", "failed"))

    async def lines(self, request: Request, caller: Caller) -> Reply:
        """Return all results so far. They are sent while they are read from the store."""
        read_free(request.query, ())
        account_id, job_id = caller.key.account_id, _job_id(request)
        await self._jobs.get(account_id, job_id)
        caller.hold(await self._reads.take(account_id))
        reply = Reply(200, b"", content_type=b"application/x-ndjson", pieces=self._lines(account_id, job_id))
        return await self._replies.bare(caller, reply)

    async def _lines(self, account_id: str, job_id: str) -> AsyncIterator[bytes]:
        after, has_more = 0, True
        while has_more:
            rows, has_more = await self._jobs.steps(
                account_id, job_id, ("done",), after=after, limit=_LINES_AT_ONCE, bytes_max=PIECE_BYTES
            )
            if rows:
                some = await self._reads.run(account_id, partial(_lines_of, rows))
                after, has_more = some.last, has_more or some.last != rows[-1].number
                yield some.text

    async def _steps_page(self, request: Request, caller: Caller, statuses: tuple[StepStatus, ...]) -> Reply:
        values = read_free(request.query, _STEPS)
        place = self._lists.position(request, caller, values)
        after = 0 if place.state is None else int(place.state["number"])
        rows, has_more = await self._jobs.steps(
            caller.key.account_id, _job_id(request), statuses, after=after, limit=int(values["limit"])
        )

        def make() -> bytes:
            items = [_shown_error(one) for one in rows] if "failed" in statuses else _shown_results(rows, Unpacker())
            is_cut = len(items) < len(rows)
            more = {"number": items[-1]["number"]} if has_more or is_cut else None
            return self._lists.fragment(request, items, place=place, more=more)

        return await self._replies.free(request, caller, await self._reads.run(caller.key.account_id, make))

    def _fragment(self, request: Request, job: JobRecord) -> bytes:
        return envelope.fragment(PLATFORM, request.path, self._shown(request, job))

    def _shown(self, request: Request, job: JobRecord) -> dict[str, Any]:
        return {**facts_of(job), "links": links_of(job, self._replies.base_url_for(request))}


async def _crawl_of(sent: CrawlBody, recipes: Recipes) -> JobDraft:
    await trio.lowlevel.checkpoint()
    return crawl_of(sent, recipes)


def _job_id(request: Request) -> str:
    """Return the job in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["job_id"]


class _Lines(NamedTuple):
    """Results as JSON lines. `last` is the number of the last result in `text`."""

    text: bytes
    last: int


def _lines_of(rows: Sequence[EndedStep]) -> _Lines:
    shown = _shown_results(rows, Unpacker(PIECE_BYTES))
    text = b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in shown)
    return _Lines(text, shown[-1]["number"])


def _shown_results(rows: Sequence[EndedStep], unpacker: Unpacker) -> list[dict[str, Any]]:
    """Return the first results, as many as fit in a page."""
    shown = []
    for row in rows:
        if (bodies := unpacker.take(row.result)) is None:
            break
        shown.append(_shown_result(row, bodies[0] or b"{}"))
    return shown


def _shown_result(step: EndedStep, result: bytes) -> dict[str, Any]:
    return {
        "number": step.number,
        "depth": step.wave - 1,
        "url": step.name,
        "fetched_at": iso(step.ended_at),
        "credits_used": step.credits_used,
        "page": orjson.Fragment(bytes(msgspec.json.decode(result, type=_Result).page)),
        **({} if step.error is None else {"_warnings": [step.error]}),
    }


def _shown_error(step: EndedStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "url": step.name,
        "status": step.status,
        "error": step.error,
        "at": iso(step.ended_at),
    }
