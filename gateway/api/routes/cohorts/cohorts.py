"""Cohorts over HTTP: create, fill, read and delete (spec 4.6, decisions 14 and 20)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from events.instants import iso
from gateway.api.changes import Changes, text_of
from gateway.api.responses import Replies, account_fragment
from gateway.docs.account import cohorts as docs
from gateway.http.bodies import read_json
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from scheduler.jobs.cohorts.service import Cohort, CohortService, MembersChange
from scheduler.jobs.cohorts.spec import CohortBody, MembersBody

COHORTS: Final = "/v1/cohorts"
COHORT: Final = f"{COHORTS}/{{cohort_id}}"
_CACHING: Final = b"cache-control"
_NO_STORE: Final = b"private, no-store"


def unstored(reply: Reply) -> Reply:
    """Return a response that must not be stored (decisions 20)."""
    kept = [(name, value) for name, value in zip(*reply.headers, strict=True) if name != _CACHING]
    names, values = zip(*kept, (_CACHING, _NO_STORE), strict=True)
    reply.headers = tuple(names), tuple(values)
    return reply


class CohortRoutes:
    """Serves the cohorts of the caller's account."""

    def __init__(self, cohorts: CohortService, *, replies: Replies, changes: Changes) -> None:
        self._cohorts = cohorts
        self._replies = replies
        self._changes = changes

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the cohort endpoints."""
        return (
            Route(COHORTS, self.create, ("POST",), doc=docs.CREATE, body=CohortBody),
            Route(COHORT, self.show, doc=docs.SHOW),
            Route(COHORT, self.delete, ("DELETE",), doc=docs.DELETE),
            Route(f"{COHORT}/members", self.put_members, ("PUT",), doc=docs.PUT_MEMBERS, body=MembersBody),
        )

    async def create(self, request: Request, caller: Caller) -> Reply:
        """Create a cohort, and return it with status 201."""
        read_free(request.query, ())
        sent = await read_json(request, CohortBody)
        account_id = caller.key.account_id
        made = await self._changes.make(
            request, caller, sent, lambda write: self._cohorts.create(account_id, sent, write=write), keep=str
        )
        cohort = await self._cohorts.get(account_id, text_of(made) if isinstance(made, StoredReply) else made)
        fragment = account_fragment(request.path, _shown(cohort))
        return unstored(await self._changes.answer(request, caller, fragment, made, status=201))

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one cohort, without its members."""
        read_free(request.query, ())
        cohort = await self._cohorts.get(caller.key.account_id, cohort_id_of(request))
        return unstored(await self._replies.free(request, caller, account_fragment(request.path, _shown(cohort))))

    async def delete(self, request: Request, caller: Caller) -> Reply:
        """Delete the cohort and destroy everything encrypted with its key."""
        read_free(request.query, ())
        await self._cohorts.delete(caller.key.account_id, cohort_id_of(request))
        return unstored(await self._replies.bare(caller, Reply(204, b"")))

    async def put_members(self, request: Request, caller: Caller) -> Reply:
        """Add members, and return how many were added, changed and left unchanged."""
        read_free(request.query, ())
        sent = await read_json(request, MembersBody)
        account_id, cohort_id = caller.key.account_id, cohort_id_of(request)
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._cohorts.put_members(account_id, cohort_id, sent, write=write),
            keep=lambda change: orjson.dumps([*change]).decode(),
        )
        change = MembersChange(*orjson.loads(text_of(made))) if isinstance(made, StoredReply) else made
        fragment = account_fragment(request.path, change._asdict())
        return unstored(await self._changes.answer(request, caller, fragment, made))


def cohort_id_of(request: Request) -> str:
    """Return the cohort in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["cohort_id"]


def _shown(cohort: Cohort) -> dict[str, Any]:
    record = cohort.record
    return {
        "id": record.id,
        "name": cohort.name,
        "member_count": record.member_count,
        "retention_days": record.retention_days,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "expires_at": iso(record.expires_at),
    }
