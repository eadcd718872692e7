"""`GET /v1/events`: the account's events in order, by cursor or as a named consumer (spec 4.4)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial

import trio

from billing.keys.cache import Key
from events.log.pages import EventPage
from gateway.api.admission import Admission
from gateway.api.responses import Replies
from gateway.docs.account.feed import READ, SOCKET
from gateway.feed import pages, refusals
from gateway.feed.acks import acknowledge
from gateway.feed.following import Stopped, follow
from gateway.feed.pages import PageView
from gateway.feed.polling import Polled, Polls
from gateway.feed.queries import PARAMS, FeedQuery, query_of
from gateway.feed.reading import ByConsumer, ByCursor, Readers, reading_of
from gateway.feed.sinks import EventSocket, EventSource
from gateway.feed.tokens import PATH, FeedTokens
from gateway.http.conditional import matches
from gateway.http.errors import Refused
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.server.errors import ClientGone
from gateway.server.http1.fields import Fields, joined
from storage.errors import StorageError
from upstreams.model.cursors import CursorSigner

SOCKET_PATH = f"{PATH}/ws"
_TAGGED = (b"etag", b"cache-control")
_INTERVAL = (b"x-poll-interval",)
_CACHING = b"private, no-cache"


@dataclass(frozen=True, slots=True)
class _Answered:
    """The last page that was sent.

    Polls that wait at the same position wake together and share this page. A consumer's response contains more than the
    page, so it is never shared.
    """

    page: EventPage
    query: FeedQuery
    key_id: str
    tag: bytes
    fragment: bytes
    base_url: str

    def has_tag_of(self, query: FeedQuery, key: Key) -> bool:
        """Return whether another read of the same page has the same tag, and therefore the same text."""
        return self.key_id == key.id and self.query == query

    def has_text_of(self, query: FeedQuery) -> bool:
        """Return whether another read of the same page, with any key, has the same text."""
        return self.query.limit == query.limit and self.query.sent == query.sent


class Events:
    """Serves reads of the feed."""

    def __init__(
        self, readers: Readers, polls: Polls, *, admission: Admission, signer: CursorSigner, replies: Replies
    ) -> None:
        self._admission = admission
        self._readers = readers
        self._polls = polls
        self._signer = signer
        self._replies = replies
        self._last: _Answered | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the feed."""
        return (
            Route(PATH, self.answer, doc=READ, params=PARAMS),
            Route(SOCKET_PATH, self.answer_socket, doc=SOCKET, params=PARAMS),
        )

    async def answer(self, request: Request, caller: Caller) -> Reply:
        """Return a page, or 304 if the client already has it. Wait while the page is empty.

        During the wait, every coroutine on the call stack stays in memory, so the stack is kept shallow.
        """
        query = query_of(request)
        resumes = request.stream is not None and query.consumer is None
        last_id = request.headers.get(b"last-event-id") if resumes else None
        if last_id:
            query = replace(query, cursor=last_id.decode("latin-1"), source=refusals.LAST_EVENT_ID)
        tokens = FeedTokens(self._signer, caller.key.account_id)
        known = request.headers.get(b"if-none-match")
        try:
            reading = await reading_of(self._readers, query, caller.key, tokens)
            if request.stream is not None and request.method == "GET":
                return await self._follow(EventSource(request.stream, request.receive, tokens), request, reading)
            if known is not None and (held := await self._still_holding(known, reading)):
                return Reply(304, b"", (_TAGGED, (held, _CACHING)))
            polled = await self._read(request, reading, known)
        except StorageError as exc:
            raise refusals.store_away() from exc
        return await self._reply(request, caller, polled, tokens=tokens, query=query)

    async def _reply(
        self, request: Request, caller: Caller, polled: Polled, *, tokens: FeedTokens, query: FeedQuery
    ) -> Reply:
        known = request.headers.get(b"if-none-match")
        base_url = self._replies.base_url_for(request)
        answered = self._answered(polled.view, query, caller.key, tokens, base_url=base_url)
        made = answered.tag
        headers: Fields = _TAGGED, (made, _CACHING)
        if polled.interval_s is not None:
            headers = joined(headers, (_INTERVAL, (b"%d" % polled.interval_s,)))
        if matches(known, made):
            return Reply(304, b"", headers)
        reply = await self._replies.free(request, caller, answered.fragment)
        reply.headers = joined(reply.headers, headers)
        return reply

    def _answered(self, view: PageView, query: FeedQuery, key: Key, tokens: FeedTokens, *, base_url: str) -> _Answered:
        last = self._last
        if last is not None and (last.page is not view.page or query.consumer is not None or last.base_url != base_url):
            last = None
        if last is not None and last.has_tag_of(query, key):
            return last
        if last is not None and last.has_text_of(query):
            text = last.fragment
        else:
            text = pages.fragment(view, query, tokens, base_url)
        self._last = _Answered(view.page, query, key.id, pages.tag(view, query, key.id), text, base_url)
        return self._last

    async def answer_socket(self, request: Request, caller: Caller) -> Reply:
        """Serve the same feed over a WebSocket."""
        if request.socket is None:
            details = {"reason": "websocket_only", "next_step": f"Open it as one, or stream {PATH}."}
            message = "This path is only available as a WebSocket."
            raise Refused("UPGRADE_REQUIRED", message, details=details, headers=((b"upgrade",), (b"websocket",)))
        query, key = query_of(request), caller.key
        tokens = FeedTokens(self._signer, key.account_id)
        ack = None
        if query.consumer is not None:
            ack = partial(acknowledge, readers=self._readers, key=key, name=query.consumer, tokens=tokens)
        try:
            reading = await reading_of(self._readers, query, key, tokens)
            return await self._follow(
                EventSocket(request.socket, tokens, self._replies.base_url_for(request), ack), request, reading
            )
        except StorageError as exc:
            raise refusals.store_away() from exc

    async def _follow(self, sink: EventSource | EventSocket, request: Request, reading: ByCursor | ByConsumer) -> Reply:
        """Send events as they arrive, until either side ends the stream. An error is sent as the last message."""
        began = self._polls.clock()
        try:
            stopped = await follow(
                self._polls,
                reading.key,
                read_on=reading.read_on,
                sink=sink,
                check_key=partial(self._admission.key_of, request),
            )
            # A client that has closed only its sending side still reads the stream.
            if stopped is not Stopped.GONE or request.socket is None:
                await sink.end(stopped)
        except ClientGone:
            await trio.lowlevel.checkpoint_if_cancelled()
        finally:
            request.held_s += self._polls.clock() - began
        return Reply(200 if request.socket is None else 101, b"", streamed=True)

    def _read(self, request: Request, reading: ByCursor | ByConsumer, known: bytes | None) -> Awaitable[Polled]:
        if not reading.query.wait_s or request.method != "GET":
            return _once(reading)

        def is_news(view: PageView) -> bool:
            page = view.page
            if page.has_more or view.restarted_from is not None:
                return True
            if not page.items or known is None:
                return bool(page.items)
            return not matches(known, pages.tag(view, reading.query, reading.key.id))

        return self._polls.poll(request, reading, is_news=is_news)

    async def _still_holding(self, known: bytes, reading: ByCursor | ByConsumer) -> bytes | None:
        """Return the page's tag if the client already has the page, otherwise None. The page is not read."""
        if isinstance(reading, ByConsumer):
            return None
        head = await self._readers.pages.head(reading.key.account_id)
        return pages.still_holding(known, reading.query, reading.key.id, after=reading.origin.pos, head=head)


async def _once(reading: ByCursor | ByConsumer) -> Polled:
    return Polled(await reading.read())
