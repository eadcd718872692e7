"""Discover runs: progress, cost, rows, pausing and cancelling (decisions 19)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from quart import Response, g, request
from quart_trio import QuartTrio

from billing.errors import BillingError
from gateway.api.routes.discover.shapes import lines_of, run_data
from gateway.dashboard.address import PREFIX
from gateway.dashboard.downloads import CSV, csv_of, long_download
from gateway.dashboard.forms import FieldRefused, fields, position_of, position_text
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.pages.discover.rows import COLUMNS, cells_of, row_view
from gateway.dashboard.services import Services
from gateway.http.codes import sentence
from scheduler.errors import JobInvalid, JobOver, JobUnknown
from scheduler.jobs.discover.records import DiscoverRow, DiscoverView
from scheduler.jobs.discover.run_rows import rows_with_records
from scheduler.jobs.discover.service import RunPatch
from scheduler.jobs.service import JobOwner
from scheduler.packing import PIECE_BYTES, Unpacker

DISCOVER: Final = f"{PREFIX}/discover"
PAGE: Final = 20
ROWS: Final = 25
ROWS_AT_ONCE: Final = 50
"""How many rows a download reads from the store per query."""
_REFRESH_S: Final = 5


class RunPages:
    """The list of an account's runs, and the page of each run."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._runs = services.discover
        self._reads = services.reads
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        one = f"{DISCOVER}/runs/<run_id>"
        app.add_url_rule(DISCOVER, "discover", self.page)
        app.add_url_rule(one, "run", self.show)
        app.add_url_rule(f"{one}/rows.jsonl", "run_lines", self.lines)
        app.add_url_rule(f"{one}/rows.csv", "run_table", self.table)
        for deed in (self.pause, self.go_on, self.cancel):
            app.add_url_rule(f"{one}/{deed.__name__}", f"run_{deed.__name__}", deed, methods=["POST"])

    async def page(self) -> Response:
        """List the runs, newest first. The first page refreshes automatically while one of its runs is in progress."""
        before = position_of(request.args.get("before", ""))
        found = await self._runs.page(account_id(), before=before, limit=PAGE + 1)
        last = found[PAGE - 1].job if len(found) > PAGE else None
        response = await self._frame.shown(
            "discover.html",
            "Discover",
            runs=[_view(one) for one in found[:PAGE]],
            older="" if last is None else position_text(last.created_at, last.id),
            is_first=before is None,
        )
        if before is None and any(_is_in_progress(one) for one in found):
            response.headers["refresh"] = f"{_REFRESH_S};url={DISCOVER}"
        return response

    async def show(self, run_id: str) -> Response:
        """Show one run with its first rows, or with the rows after a given row."""
        return await self._shown(run_id)

    async def lines(self, run_id: str) -> Response:
        """Download all rows found so far as JSON lines in the API's format."""
        await self._found(run_id)
        pieces = self._pieces(account_id(), run_id, lines_of)
        return long_download(f"{run_id}.jsonl", pieces, content_type="application/x-ndjson")

    async def table(self, run_id: str) -> Response:
        """Download all rows found so far as a table with the most useful fields as columns."""
        await self._found(run_id)
        pieces = self._pieces(account_id(), run_id, _table_of, head=csv_of([COLUMNS]))
        return long_download(f"{run_id}.csv", pieces, content_type=CSV)

    async def pause(self, run_id: str) -> Response:
        """Pause a run, which refunds its unused credits."""
        return await self._change(run_id, RunPatch("paused"), done="run_paused")

    async def go_on(self, run_id: str) -> Response:
        """Resume a paused run, or raise the maximum cost of a run in progress."""
        sent = (await fields()).get("max_credits", "")
        is_paused = (await self._found(run_id)).job.status == "paused"
        try:
            patch = RunPatch("running" if is_paused else None, _bound(sent))
        except FieldRefused as exc:
            return await self._shown(run_id, status=400, errors={exc.name: exc.problem}, sent=sent)
        return await self._change(run_id, patch, done="run_running" if is_paused else "run_changed", sent=sent)

    async def cancel(self, run_id: str) -> Response:
        """Ask for confirmation, then cancel the run."""
        view = await self._found(run_id)
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("cancel_run.html", "Cancel this run?", run=_view(view))
        try:
            await self._runs.cancel(account_id(), run_id)
        except JobUnknown as exc:
            raise ObjectMissing from exc
        except JobOver as exc:
            return await self._shown(run_id, status=400, error=sentence(exc))
        return self._redirect(run_id, "run_cancelled")

    async def _change(self, run_id: str, patch: RunPatch, *, done: str, sent: str = "") -> Response:
        owner = JobOwner(account_id(), None, g.incoming.id)
        try:
            await self._runs.change(owner, run_id, patch)
        except JobUnknown as exc:
            raise ObjectMissing from exc
        except JobInvalid as exc:
            errors = {exc.param: f"{exc.problem}. {exc.next_step}"}
            return await self._shown(run_id, status=400, errors=errors, sent=sent)
        except (JobOver, BillingError) as exc:
            return await self._shown(run_id, status=400, error=sentence(exc), sent=sent)
        return self._redirect(run_id, done)

    def _redirect(self, run_id: str, done: str) -> Response:
        return self._frame.to_page(f"{DISCOVER}/runs/{run_id}", done=done)

    async def _found(self, run_id: str) -> DiscoverView:
        """Return the account's run. Raises ObjectMissing."""
        try:
            return await self._runs.get(account_id(), run_id)
        except JobUnknown as exc:
            raise ObjectMissing from exc

    async def _pieces(
        self, owner: str, run_id: str, write: Callable[[list[DiscoverRow]], tuple[bytes, int]], head: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield the rows of a run of the account `owner`.

        The account is an argument, because the rows are read after the request's context has ended.
        """
        yield head.encode()
        after = 0
        read = partial(self._runs.rows, run_id, limit=ROWS_AT_ONCE, only_new=False, bytes_max=PIECE_BYTES)
        turn = await self._reads.take(owner)
        try:
            while rows := (await read(after=after))[0]:
                text, after = await self._reads.run(owner, partial(write, rows))
                yield text
        finally:
            turn.release()

    async def _shown(self, run_id: str, *, status: int = 200, **more: Any) -> Response:
        view = await self._found(run_id)
        only_new, after = request.args.get("new") == "1", await self._after(run_id)
        async with self._reads.turn(account_id()):
            rows, has_more = await self._runs.rows(run_id, after, limit=ROWS, only_new=only_new)
            views = await self._reads.run(account_id(), partial(_views_of, rows))
        has_more = has_more or len(views) < len(rows)
        failed = (await self._runs.failed_legs([view])).get(run_id, [])
        response = await self._frame.shown(
            "run.html",
            "Discover run",
            status=status,
            run=run_data(view, failed, ""),
            rows=views,
            older=views[-1]["row_id"] if has_more else "",
            is_first=after == 0,
            only_new=only_new,
            **{"sent": "", **more},
        )
        if request.method == "GET" and after == 0 and _is_in_progress(view):
            response.headers["refresh"] = f"{_REFRESH_S};url={request.path}"
        return response

    async def _after(self, run_id: str) -> int:
        """Parse the number of the row after which the page begins. An invalid value means the beginning."""
        row_id = request.args.get("after", "")
        try:
            return await self._runs.place(account_id(), run_id, row_id) if row_id.isidentifier() else 0
        except JobInvalid:
            return 0


def _views_of(rows: list[DiscoverRow]) -> list[dict[str, Any]]:
    return [row_view(one) for one in rows_with_records(rows, Unpacker())]


def _table_of(rows: list[DiscoverRow]) -> tuple[bytes, int]:
    """Return as many of the first rows as fit in one piece, as CSV lines, and the number of the last of these rows."""
    some = list(rows_with_records(rows, Unpacker(PIECE_BYTES)))
    return csv_of(map(cells_of, some)).encode(), some[-1].number


def _view(view: DiscoverView) -> dict[str, Any]:
    return run_data(view, [], "")


def _is_in_progress(view: DiscoverView) -> bool:
    return view.job.status in ("queued", "running")


def _bound(text: str) -> int | None:
    """Parse the maximum cost of a run; None leaves it unchanged. Raises FieldRefused."""
    plain = text.replace(",", "")
    if not plain:
        return None
    if not plain.isascii() or not plain.isdigit():
        raise FieldRefused("max_credits", "must be a whole number")
    return int(plain[:9])
