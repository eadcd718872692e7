"""Web jobs: progress, cost and cancelling (decisions 17)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Literal

import orjson
from quart import Response, request
from quart_trio import QuartTrio

from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import fields, position_of, position_text
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.services import Services
from gateway.http.codes import sentence
from scheduler.errors import JobOver, JobUnknown
from scheduler.jobs.records import JobRecord

JOBS: Final = f"{PREFIX}/jobs"
PAGE: Final = 25
_REFRESH_S: Final = 5


class JobPages:
    """The list of an account's jobs, and the actions on each job."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._jobs = services.jobs
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(JOBS, "jobs", self.page)
        app.add_url_rule(f"{JOBS}/<job_id>/status", "job_status", self.status, methods=["POST"])
        app.add_url_rule(f"{JOBS}/<job_id>/cancel", "job_cancel", self.cancel, methods=["POST"])

    async def page(self) -> Response:
        """List the jobs, newest first. The first page refreshes automatically while one of its jobs is in progress."""
        return await self._shown()

    async def status(self, job_id: str) -> Response:
        """Pause or resume a job."""
        status: Literal["paused", "running"] = "running" if (await fields()).get("status") == "running" else "paused"
        return await self._change(self._jobs.set_status(account_id(), job_id, status), done=f"job_{status}")

    async def cancel(self, job_id: str) -> Response:
        """Ask for confirmation, then cancel the job."""
        if (await fields()).get("sure") != "yes":
            try:
                job = await self._jobs.get(account_id(), job_id)
            except JobUnknown as exc:
                raise ObjectMissing from exc
            return await self._frame.shown("cancel_job.html", "Cancel this job?", job=_view(job))
        return await self._change(self._jobs.cancel(account_id(), job_id), done="job_cancelled")

    async def _change(self, changing: Awaitable[JobRecord], *, done: str) -> Response:
        try:
            await changing
        except JobUnknown as exc:
            raise ObjectMissing from exc
        except JobOver as exc:
            return await self._shown(status=400, error=sentence(exc))
        return self._frame.to_page(JOBS, done=done)

    async def _shown(self, *, status: int = 200, **more: Any) -> Response:
        before = position_of(request.args.get("before", ""))
        found = await self._jobs.page(account_id(), before=before, limit=PAGE + 1)
        jobs = [_view(job) for job in found[:PAGE]]
        last = found[PAGE - 1] if len(found) > PAGE else None
        response = await self._frame.shown(
            "jobs.html",
            "Jobs",
            status=status,
            jobs=jobs,
            older="" if last is None else position_text(last.created_at, last.id),
            is_first=before is None,
            **more,
        )
        if before is None and any(job["is_moving"] for job in jobs):
            response.headers["refresh"] = f"{_REFRESH_S};url={JOBS}"
        return response


def _view(job: JobRecord) -> dict[str, Any]:
    """Return a job as the page shows it. For a crawl, this includes the start URL."""
    bounds: dict[str, Any] = orjson.loads(job.spec).get("bounds") or {}
    return {
        "id": job.id,
        "kind": job.kind,
        "about": str(bounds.get("start", "")),
        "status": job.status,
        "stopped_because": job.stopped_because or "",
        "ended": job.planned - job.pending,
        "failed": job.failed,
        "planned": job.planned,
        "used": job.used_credits,
        "held": max(0, job.left_credits) if not job.is_over else 0,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "is_over": job.is_over,
        "is_moving": job.status in ("queued", "running"),
    }
