"""Web sessions over HTTP: open pages, act in them, and close them (decisions 17 and 21)."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from events.instants import iso, iso_or_none
from gateway.api.changes import Changes, claim_of_change, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.calls.planning import check_max_credits
from gateway.docs.account import sessions as docs
from gateway.http import envelope
from gateway.http.bodies import read_json
from gateway.http.errors import InvalidParam
from gateway.http.params import CURSOR, DRY_RUN, MAX_CREDITS, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from scheduler.errors import SessionUnknown, WebSessionOver
from scheduler.sessions.records import TTL_S_MAX, SessionRecord, price_of
from scheduler.sessions.service import PLATFORM, SessionDraft, SessionOwner, SessionService
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import limit
from upstreams.web.addresses import PageParam
from upstreams.web.browser.actions import ACTIONS_MAX, Action, check_actions

SESSIONS: Final = "/v1/web/sessions"
SESSION: Final = f"{SESSIONS}/{{session_id}}"
_OPEN: Final = (DRY_RUN, MAX_CREDITS)
_LIST: Final = (limit(100, default=20), CURSOR)
_URL: Final = PageParam("url", "The first page to open.", "https://example.com/")
Seconds = Annotated[int, Meta(ge=10, le=TTL_S_MAX)]


class SessionBody(msgspec.Struct, frozen=True):
    """The body that opens a session."""

    url: Annotated[
        str, Meta(description="The first page to open.", examples=["https://example.com/"], max_length=2_048)
    ]
    ttl_seconds: Annotated[Seconds, Meta(description="Seconds until the session closes, 10 to 3600.")] = 60
    activity_ttl_seconds: Annotated[
        Seconds | None, Meta(description="Seconds without an action until the session closes, 10 to 3600.")
    ] = None
    mobile: Annotated[bool, Meta(description="Whether to emulate a phone.")] = False
    stream_web_view: Annotated[bool, Meta(description="Whether to stream the view. Not supported by any node.")] = False


class SessionTimeBody(msgspec.Struct, frozen=True):
    """The lifetime of a session."""

    ttl_seconds: Annotated[
        Seconds, Meta(description="Seconds from the start of the session to its end.", examples=[600])
    ]


class ExecuteBody(msgspec.Struct, frozen=True):
    """The actions to run."""

    actions: Annotated[
        list[Action],
        Meta(
            description=f"1 to {ACTIONS_MAX} actions, in order.", examples=[[{"type": "scrape", "formats": "markdown"}]]
        ),
    ]


class SessionRoutes:
    """Serves the sessions of the caller's account."""

    def __init__(self, sessions: SessionService, *, signer: CursorSigner, replies: Replies, changes: Changes) -> None:
        self._sessions = sessions
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies, PLATFORM)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the session endpoints."""
        return (
            Route(SESSIONS, self.page, doc=docs.LIST, params=_LIST),
            Route(SESSIONS, self.open, ("POST",), doc=docs.OPEN, params=_OPEN, body=SessionBody),
            Route(SESSION, self.show, doc=docs.SHOW),
            Route(SESSION, self.change, ("PATCH",), doc=docs.CHANGE, body=SessionTimeBody),
            Route(SESSION, self.close, ("DELETE",), doc=docs.CLOSE),
            Route(f"{SESSION}/execute", self.execute, ("POST",), doc=docs.EXECUTE, body=ExecuteBody),
        )

    async def open(self, request: Request, caller: Caller) -> Reply:
        """Open a session. Return 201 with the session after its page has loaded."""
        values = read_free(request.query, _OPEN)
        sent = await read_json(request, SessionBody)
        draft = _draft_of(sent)
        self._sessions.check_means("url")
        claim_of_change(request, caller, sent)  # Rejects an invalid idempotency key, even with `dry_run`.
        price = price_of(draft.ttl_s)
        check_max_credits(values, price)
        if values.get("dry_run"):
            data = {"estimated_credits": price, "would_hit_cache": False}
            return await self._replies.free(request, caller, envelope.fragment(PLATFORM, request.path, data))
        owner = _owner(request, caller)
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._sessions.begin(draft, owner, write=write),
            keep=lambda one: one.id,
        )
        if isinstance(made, StoredReply):
            session = await self._sessions.get(owner.account_id, text_of(made))
        else:
            session = await self._sessions.open(made)
        return await self._changes.answer(request, caller, _fragment(request, session), made, status=201)

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of sessions, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._sessions.page(caller.key.account_id, before=place.before, limit=size + 1)
        last = found[size - 1] if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        return await self._lists.page(request, caller, [_shown(one) for one in found[:size]], place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one session."""
        read_free(request.query, ())
        session = await self._sessions.get(caller.key.account_id, _session_id(request))
        return await self._replies.free(request, caller, _fragment(request, session))

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a session and return it."""
        read_free(request.query, ())
        sent = await read_json(request, SessionTimeBody)
        owner = _owner(request, caller)
        session = await self._sessions.set_time(owner, _session_id(request), sent.ttl_seconds)
        return await self._replies.free(request, caller, _fragment(request, session))

    async def close(self, request: Request, caller: Caller) -> Reply:
        """Close a session and return its final state."""
        read_free(request.query, ())
        session = await self._sessions.close(caller.key.account_id, _session_id(request))
        return await self._replies.free(request, caller, _fragment(request, session))

    async def execute(self, request: Request, caller: Caller) -> Reply:
        """Run actions and return their results."""
        read_free(request.query, ())
        sent = await read_json(request, ExecuteBody)
        check_actions(sent.actions)

        async def do() -> str:
            data = await self._sessions.execute(caller.key.account_id, _session_id(request), sent.actions)
            return envelope.fragment(PLATFORM, request.path, data).decode()

        untouched = (SessionUnknown, WebSessionOver, InvalidArgument)
        made = await self._changes.do_once(request, caller, sent, do, untouched=untouched)
        text = text_of(made) if isinstance(made, StoredReply) else made
        return await self._changes.answer(request, caller, text.encode(), made)


def _draft_of(sent: SessionBody) -> SessionDraft:
    if sent.stream_web_view:
        raise InvalidArgument(
            "stream_web_view", "must be false: streaming a view is not supported", reason="capability_missing"
        )
    idle_s = sent.activity_ttl_seconds
    if idle_s is not None and idle_s > sent.ttl_seconds:
        raise InvalidParam("activity_ttl_seconds", "must not be longer than ttl_seconds")
    return SessionDraft(_URL.canonical(sent.url), sent.ttl_seconds, idle_s, sent.mobile)


def _owner(request: Request, caller: Caller) -> SessionOwner:
    return SessionOwner(caller.key.account_id, caller.key.id, request.id)


def _session_id(request: Request) -> str:
    """Return the session in the path."""
    assert request.named is not None, "the route declares this path parameter"
    return request.named["session_id"]


def _fragment(request: Request, session: SessionRecord) -> bytes:
    return envelope.fragment(PLATFORM, request.path, _shown(session))


def _shown(session: SessionRecord) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "status": session.status,
        "closed_because": session.closed_because,
        "url": session.url,
        "ttl_seconds": session.ttl_s,
        "activity_ttl_seconds": session.idle_s,
        "credits": {
            "reserved": session.held_credits,
            "used": session.used_credits,
            "refunded": session.held_credits - session.used_credits if session.is_over else 0,
        },
        "created_at": iso(session.created_at),
        "expires_at": iso(session.expires_at),
        "closed_at": iso_or_none(session.closed_at),
    }
