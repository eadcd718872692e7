"""`/v1/events/consumers`: named consumers of a key, which store a position in the feed (spec 4.4, decisions 13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import msgspec

from events.consumers.steps import Overview
from events.errors import CursorAhead, CursorExpired, EventsError
from events.instants import iso
from gateway.api.changes import Changes, text_of
from gateway.api.responses import Replies, account_fragment
from gateway.docs.account import feed as docs
from gateway.feed import refusals
from gateway.feed.acks import acknowledge
from gateway.feed.queries import check_name
from gateway.feed.reading import Readers, position_of
from gateway.feed.tokens import PATH, FeedTokens
from gateway.http.bodies import read_json
from gateway.http.params import read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route, RouteDoc
from limits.idempotency import StoredReply
from storage.errors import StorageError
from upstreams.model.cursors import CursorSigner

CONSUMERS = f"{PATH}/consumers"
CONSUMER = f"{CONSUMERS}/{{consumer}}"
_Answer = Callable[[Request, Caller, FeedTokens], Awaitable[Reply]]


class AckBody(msgspec.Struct, frozen=True):
    """The body of an acknowledgement and of a reset."""

    cursor: Annotated[
        str,
        msgspec.Meta(
            description="A position that a read returned; for a reset, any cursor, `oldest`, `now` or an event's id.",
            examples=["cur_AQAAAAAAAAAB"],
        ),
    ]


class ConsumerRoutes:
    """Serves the consumers of the caller's key."""

    def __init__(self, readers: Readers, *, signer: CursorSigner, replies: Replies, changes: Changes) -> None:
        self._readers = readers
        self._consumers = readers.consumers
        self._signer = signer
        self._replies = replies
        self._changes = changes

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the consumer endpoints."""
        return (
            self._route(CONSUMERS, self.list, docs.LIST),
            self._route(CONSUMER, self.show, docs.SHOW),
            self._route(CONSUMER, self.delete, docs.DELETE, "DELETE"),
            self._route(f"{CONSUMER}/ack", self.ack, docs.ACK, "POST"),
            self._route(f"{CONSUMER}/reset", self.reset, docs.RESET, "POST"),
        )

    def _route(self, path: str, answer: _Answer, doc: RouteDoc, *methods: str) -> Route:
        async def handle(request: Request, caller: Caller) -> Reply:
            tokens = FeedTokens(self._signer, caller.key.account_id)
            try:
                read_free(request.query, ())
                return await answer(request, caller, tokens)
            except EventsError as exc:
                raise refusals.of_consumer(exc, tokens) from exc
            except StorageError as exc:
                raise refusals.store_away() from exc

        return Route(path, handle, methods or ("GET", "HEAD"), doc=doc, body=AckBody if doc.once else None)

    async def list(self, request: Request, caller: Caller, tokens: FeedTokens) -> Reply:
        """Return all consumers, sorted by name."""
        found = await self._consumers.list(caller.key.id)
        items = [_shown(one, tokens) for one in found]
        pagination = {"next_cursor": None, "has_more": False, "page_size": len(items)}
        return await self._replies.free(request, caller, account_fragment(request.path, {"items": items}, pagination))

    async def show(self, request: Request, caller: Caller, tokens: FeedTokens) -> Reply:
        """Return one consumer."""
        found = await self._consumers.get(caller.key.id, _name(request))
        return await self._free(request, caller, {"consumer": _shown(found, tokens)})

    async def delete(self, request: Request, caller: Caller, tokens: FeedTokens) -> Reply:  # noqa: ARG002 - route signature
        """Delete a consumer. The next read under its name creates a new one."""
        await self._consumers.delete(caller.key.id, _name(request))
        return await self._replies.bare(caller, Reply(204, b""))

    async def ack(self, request: Request, caller: Caller, tokens: FeedTokens) -> Reply:
        """Move a consumer forward to a position that a read returned. It never moves back."""
        name, place = _name(request), await read_json(request, AckBody)

        async def make() -> str:
            data = await acknowledge(place.cursor, readers=self._readers, key=caller.key, name=name, tokens=tokens)
            return account_fragment(request.path, data).decode()

        return await self._change(request, caller, place, make)

    async def reset(self, request: Request, caller: Caller, tokens: FeedTokens) -> Reply:
        """Move a consumer to any position, forward or back."""
        name, place = _name(request), await read_json(request, AckBody)
        return await self._change(request, caller, place, partial(self._reset, request, caller, tokens, name, place))

    async def _reset(self, request: Request, caller: Caller, tokens: FeedTokens, name: str, place: AckBody) -> str:
        position = await position_of(self._readers, place.cursor, caller.key, tokens, source=refusals.RESET)
        try:
            found = await self._consumers.reset(caller.key.id, name, position)
        except CursorExpired as exc:
            raise refusals.expired(exc.head, position, tokens, refusals.RESET) from exc
        except CursorAhead as exc:
            raise refusals.unusable(refusals.AHEAD, exc.head, tokens, refusals.RESET) from exc
        return account_fragment(request.path, {"consumer": _shown(found, tokens)}).decode()

    async def _change(
        self, request: Request, caller: Caller, body: AckBody, make: Callable[[], Awaitable[str]]
    ) -> Reply:
        made = await self._changes.repeat_safely(request, caller, body, make)
        text = text_of(made) if isinstance(made, StoredReply) else made
        return await self._changes.answer(request, caller, text.encode(), made)

    async def _free(self, request: Request, caller: Caller, data: dict[str, Any]) -> Reply:
        return await self._replies.free(request, caller, account_fragment(request.path, data))


def _name(request: Request) -> str:
    assert request.named is not None, "the route declares this path parameter"
    return check_name(request.named["consumer"])


def _shown(overview: Overview, tokens: FeedTokens) -> dict[str, Any]:
    consumer = overview.consumer
    chosen = consumer.filters
    return {
        "consumer": consumer.name,
        "status": overview.status,
        "cursor": tokens.seal(consumer.committed),
        "unread": overview.unread,
        "types": None if chosen.types is None else sorted(chosen.types),
        "subject_id": None if chosen.subjects is None else sorted(chosen.subjects),
        "created_at": iso(consumer.created_at),
        "last_read_at": iso(consumer.seen_at),
    }
