"""Discover runs over HTTP: start, wait, read, change, cancel, and their rows (decisions 19)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson
import trio
from msgspec import Meta

from gateway.api.changes import Changes, claim_of_change, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.api.routes.data import refuse_stream
from gateway.api.routes.discover.shapes import changes_data, lines_of, run_data
from gateway.docs.account import discover as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR, DRY_RUN, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.http.sse import EventStream
from gateway.server.errors import ClientGone
from limits.idempotency import StoredReply
from limits.long_reads import LongReads
from scheduler.jobs.discover.records import DiscoverView
from scheduler.jobs.discover.run_drafts import PLATFORM, RunTerms, most_held
from scheduler.jobs.discover.run_events import RUNS_PATH
from scheduler.jobs.discover.service import WAIT_S, DiscoverService, RunPatch, is_settled
from scheduler.jobs.discover.spec import RunBody, read_body
from scheduler.jobs.service import JobOwner
from scheduler.json_input import nearest
from scheduler.packing import PIECE_BYTES
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param, limit

RUN: Final = f"{RUNS_PATH}/{{run_id}}"
CHANGES_MAX: Final = 200
"""Maximum number of rows in one response about changes."""
LINES_AT_ONCE: Final = 50
STREAM_S: Final = 900.0
"""Seconds until an event stream stops following a run."""
_CHECK_S: Final = 0.25
_SILENT_S: Final = 15.0
_BEGIN: Final = (DRY_RUN,)
_LIST: Final = (limit(100, default=20), CURSOR)
_SHOW: Final = (
    Param(
        "changes_since",
        "Also returns the rows that changed since this version.",
        "0",
        "integer",
        minimum=0,
        maximum=2**53,
    ),
)
_LINES: Final = (
    Param("after", "Continue after the row with this row_id.", "row_5b1f8a3e0c7d4f6a9b2e1d0c8a7f6e5d", length_max=100),
    Param("new", "Only rows that no earlier occurrence of the schedule found.", "true", "boolean"),
)


class RunPatchBody(msgspec.Struct, frozen=True):
    """The fields of a run that can be changed."""

    status: Annotated[str | None, Meta(description="`paused` or `running`.", examples=["paused"])] = None
    max_credits: Annotated[
        int | None, Meta(description="The maximum cost of the run, 1 to 10,000 credits.", examples=[200])
    ] = None


class DiscoverRunRoutes:
    """Serves the discover runs of the caller's account."""

    def __init__(
        self,
        runs: DiscoverService,
        *,
        signer: CursorSigner,
        replies: Replies,
        changes: Changes,
        stopping: Callable[[], bool],
        reads: LongReads,
    ) -> None:
        self._reads = reads
        self._runs = runs
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies, PLATFORM)
        self._stopping = stopping

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the run endpoints."""
        return (
            Route(RUNS_PATH, self.page, doc=docs.LIST, params=_LIST),
            Route(RUNS_PATH, self.begin, ("POST",), doc=docs.BEGIN, params=_BEGIN, body=RunBody),
            Route(RUN, self.show, doc=docs.SHOW, params=_SHOW),
            Route(RUN, self.change, ("PATCH",), doc=docs.CHANGE, body=RunPatchBody),
            Route(RUN, self.cancel, ("DELETE",), doc=docs.CANCEL),
            Route(f"{RUN}/results.jsonl", self.lines, doc=docs.LINES, params=_LINES),
        )

    async def begin(self, request: Request, caller: Caller) -> Reply:
        """Start a run. Return the finished run, or its current state with status 202."""
        is_dry = read_free(request.query, _BEGIN).get("dry_run")
        sent = await read_json(request, RunBody)
        spec = read_body(sent, self._runs.searches())
        if claim_of_change(request, caller, sent) is not None:
            refuse_stream(request)
        if is_dry:
            data = {
                "estimated_credits": most_held(spec, sent.max_credits),
                "would_hit_cache": False,
                "legs": spec.legs,
                "searches": [one.id for one in spec.searches],
            }
            return await self._replies.free(request, caller, envelope.fragment(PLATFORM, request.path, data))
        owner = _owner(request, caller)
        terms = RunTerms(sent.max_credits, is_told=sent.background, key_id=owner.key_id)
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._runs.begin(spec, terms, owner, write=write),
            keep=lambda job: job.id,
        )
        run_id = text_of(made) if isinstance(made, StoredReply) else made.id
        is_streamed = False
        if not sent.background and not isinstance(made, StoredReply):
            is_streamed = await self._wait(request, caller, run_id, WAIT_S)
        view = await self._runs.get(owner.account_id, run_id)
        status = 200 if is_settled(view.job) and not sent.background else 202
        stored = await self._fragment(request, view)
        # Nonzero only if the reservation that this request made is already closed.
        used = view.job.closed_credits if view.job.request_id == request.id else 0
        reply = await self._changes.answer(request, caller, stored, made, status=status, credits_used=used)
        return replace(reply, streamed=is_streamed)

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of runs, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._runs.page(caller.key.account_id, before=place.before, limit=size + 1)
        last = found[size - 1].job if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        failed, base_url = await self._runs.failed_legs(found[:size]), self._replies.base_url_for(request)
        items = [run_data(view, failed.get(view.run.run_id, []), base_url) for view in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one run, and the rows that changed since a version."""
        values, run_id, account_id = read_free(request.query, _SHOW), _run_id(request), caller.key.account_id
        await self._runs.get(account_id, run_id)
        is_streamed = await self._wait(request, caller, run_id, STREAM_S) if request.stream is not None else False
        if "changes_since" not in values:
            stored = await self._fragment(request, await self._runs.get(account_id, run_id))
            return replace(await self._replies.free(request, caller, stored), streamed=is_streamed)
        caller.hold(await self._reads.take(account_id))
        since = int(values["changes_since"])
        changes = await self._runs.changes(account_id, run_id, since, limit=CHANGES_MAX)
        run = await self._data(request, changes.view)
        stored = await self._reads.run(
            account_id, lambda: envelope.fragment(PLATFORM, request.path, {**run, **changes_data(changes, since)})
        )
        return replace(await self._replies.free(request, caller, stored), streamed=is_streamed)

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a run and return it."""
        read_free(request.query, ())
        sent = await read_json(request, RunPatchBody)
        status = _status_of(sent.status)
        if status is None and sent.max_credits is None:
            raise InvalidParam("body", "changes nothing", suggestion="Send status, max_credits, or both.")
        view = await self._runs.change(_owner(request, caller), _run_id(request), RunPatch(status, sent.max_credits))
        return await self._replies.free(request, caller, await self._fragment(request, view))

    async def cancel(self, request: Request, caller: Caller) -> Reply:
        """Cancel a run and return its final state."""
        read_free(request.query, ())
        view = await self._runs.cancel(caller.key.account_id, _run_id(request))
        return await self._replies.free(request, caller, await self._fragment(request, view))

    async def lines(self, request: Request, caller: Caller) -> Reply:
        """Return all rows found so far. The rows are sent while they are read."""
        values, run_id = read_free(request.query, _LINES), _run_id(request)
        after = str(values["after"]) if "after" in values else None
        place = await self._runs.place(caller.key.account_id, run_id, after)
        caller.hold(await self._reads.take(caller.key.account_id))
        pieces = self._lines(caller.key.account_id, run_id, place, only_new=bool(values.get("new")))
        reply = Reply(200, b"", content_type=b"application/x-ndjson", pieces=pieces)
        return await self._replies.bare(caller, reply)

    async def _lines(self, account_id: str, run_id: str, after: int, *, only_new: bool) -> AsyncIterator[bytes]:
        read = partial(self._runs.rows, run_id, limit=LINES_AT_ONCE, only_new=only_new, bytes_max=PIECE_BYTES)
        while rows := (await read(after=after))[0]:
            text, after = await self._reads.run(account_id, partial(lines_of, rows))
            yield text

    async def _wait(self, request: Request, caller: Caller, run_id: str, within_s: float) -> bool:
        """Wait for a run to settle.

        Return True if the pages that completed in the meantime were streamed to the client.
        """
        began, account_id = trio.current_time(), caller.key.account_id
        try:
            if request.stream is None:
                await self._runs.wait_settled(run_id, within_s=within_s, stopping=self._stopping)
                return False
            with trio.move_on_after(within_s):
                await self._follow(request.stream, account_id, run_id)
            return True
        finally:
            request.held_s += trio.current_time() - began

    async def _follow(self, stream: EventStream, account_id: str, run_id: str) -> None:
        """Send each page as an event until the run settles, the client disconnects or the node stops."""
        follower, sent_at = self._runs.follow(account_id, run_id), trio.current_time()
        while not self._stopping():
            view, steps = await follower.look()
            for step in steps:
                sent_at = trio.current_time()
                if not await stream.publish("page", orjson.dumps(_page_event(view, step))):
                    return
            if is_settled(view.job) and not steps:
                return
            if trio.current_time() - sent_at > _SILENT_S:
                sent_at = trio.current_time()
                try:
                    await stream.write(b": \n\n")
                except ClientGone:
                    return
            await trio.sleep(_CHECK_S)

    async def _fragment(self, request: Request, view: DiscoverView) -> bytes:
        return envelope.fragment(PLATFORM, request.path, await self._data(request, view))

    async def _data(self, request: Request, view: DiscoverView) -> dict[str, Any]:
        failed = await self._runs.failed_legs([view])
        return run_data(view, failed.get(view.run.run_id, []), self._replies.base_url_for(request))


def _owner(request: Request, caller: Caller) -> JobOwner:
    return JobOwner(caller.key.account_id, caller.key.id, request.id)


def _run_id(request: Request) -> str:
    """Return the run in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["run_id"]


def _status_of(sent: str | None) -> Literal["paused", "running"] | None:
    if sent is None:
        return None
    if sent not in ("paused", "running"):
        problem = f"must be paused or running, not {sent[:40]}"
        raise InvalidParam("status", problem, meant=nearest(sent, ("paused", "running")))
    return "paused" if sent == "paused" else "running"


def _page_event(view: DiscoverView, step: Any) -> dict[str, Any]:
    return {
        "run_id": view.run.run_id,
        "version": view.run.version,
        "step": step.name.removeprefix("@"),
        "status": step.status,
        "credits_used": step.credits_used,
        "error": step.error,
        "rows_kept": view.run.rows_kept,
    }
