"""Reads for one feed request, from its cursor or from the position of a named consumer (spec 4.4, 7.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from billing.keys.cache import Key
from events.consumers.consumers import Consumers
from events.errors import CursorAhead, CursorExpired, EventsError
from events.filters import ALL
from events.log.pages import EventPage, PageQuery, find_event, read_head
from events.log.reader import PageReader
from events.positions import LogHead, Position
from events.waking.waiter import BeginRead
from gateway.feed import refusals
from gateway.feed.pages import PageView
from gateway.feed.queries import FeedQuery
from gateway.feed.refusals import CursorSource
from gateway.feed.tokens import FeedTokens
from gateway.http.errors import InvalidParam
from storage.store import Store, Tx
from upstreams.model.errors import InvalidCursor


@dataclass(frozen=True, slots=True)
class Readers:
    """The services that reads of the feed use."""

    store: Store
    pages: PageReader
    consumers: Consumers


@dataclass(slots=True)
class ByCursor:
    """Reads after a position. While there are no new events, each read begins where the previous read ended."""

    readers: Readers
    query: FeedQuery
    key: Key
    tokens: FeedTokens
    origin: Position
    after: Position

    async def read(self) -> PageView:
        """Return the page after the position.

        Raises:
            Refused: 410 if events after the position were removed, 400 if the position is past the end of the log.
        """
        page = None
        try:
            page = await self.readers.pages.read(self._next())
        except CursorExpired as exc:
            if self.query.cursor != "oldest" or self.after != self.origin:
                raise refusals.expired(exc.head, self.after, self.tokens, self.query.source) from exc
            self.origin = self.after = exc.head.start
        except CursorAhead as exc:
            raise refusals.unusable(refusals.AHEAD, exc.head, self.tokens, self.query.source) from exc
        # Events were removed during the read. Reading again leaves no gap, because no page was sent yet.
        if page is None:
            return await self.read()
        return self.view(page)

    def view(self, page: EventPage) -> PageView:
        """Return the response form of a page."""
        if not (page.items or page.has_more):
            self.after = page.end
        return PageView(page, self.origin, self.query.filters or ALL)

    def next_read(self) -> BeginRead:
        """Return a function that starts the next `read`. It results in a page for `view`, or in a refusal."""
        return partial(self.readers.pages.begin, self._next())

    def _next(self) -> PageQuery:
        return PageQuery(self.key.account_id, self.key.id, self.after.pos, self.query.limit, self.query.filters or ALL)

    async def read_on(self) -> PageView:
        """Like `read`, but the next read begins after the page that this read returns."""
        view = await self.read()
        self.after = view.page.end
        return view


@dataclass(slots=True)
class ByConsumer:
    """Reads as a named consumer. A restart is reported in every page of a request; in a stream, only in the first."""

    readers: Readers
    query: FeedQuery
    name: str
    key: Key
    tokens: FeedTokens
    has_read: bool = False
    """Whether the first read has finished. After that, a consumer that is deleted during a poll is not created again.
    """
    streamed_to: Position | None = None
    restarted_from: Position | None = None
    dropped: int = 0

    async def read(self) -> PageView:
        """Return the page after the acknowledged position.

        Raises:
            Refused: 400 for filters other than the bound ones, 410 once after a lapse, 404 after its deletion.
        """
        try:
            served = await self.readers.consumers.read(
                self.key.account_id,
                self.key.id,
                self.name,
                start=None if self.has_read else self.query.start,
                filters=self.query.filters,
                limit=self.query.limit,
                streamed_to=self.streamed_to,
                omitted=self.query.omitted,
            )
        except EventsError as exc:
            raise refusals.of_consumer(exc, self.tokens) from exc
        self.has_read = True
        if served.restarted_from is not None:
            self.restarted_from, self.dropped = served.restarted_from, served.dropped
        return PageView(served.page, served.committed, served.filters, self.dropped, served.unread, self.restarted_from)

    async def read_on(self) -> PageView:
        """Like `read`, but the next read begins after the page that this read returns, acknowledged or not."""
        view = await self.read()
        self.streamed_to, self.restarted_from, self.dropped = view.page.end, None, 0
        return view


async def reading_of(readers: Readers, query: FeedQuery, key: Key, tokens: FeedTokens) -> ByCursor | ByConsumer:
    """Return the reader for a query. A reader can read several times.

    Raises:
        Refused: 400 for an invalid cursor.
    """
    if query.consumer is not None:
        return ByConsumer(readers, query, query.consumer, key, tokens)
    position = await position_of(readers, query.cursor, key, tokens, source=query.source)
    return ByCursor(readers, query, key, tokens, position, position)


async def position_of(readers: Readers, cursor: str, key: Key, tokens: FeedTokens, *, source: CursorSource) -> Position:
    """Return the position of a cursor: `oldest`, `now`, a token or an event's id.

    Raises:
        Refused: 400.
    """
    if cursor in ("oldest", "now"):
        head = await readers.pages.head(key.account_id)
        return head.start if cursor == "oldest" else head.end
    if cursor.startswith("evt_"):
        found, head = await readers.store.read(partial(_find, key=key, event_id=cursor))
        if found is None:
            raise refusals.unusable("does not match a stored event of this key", head, tokens, source)
        return found
    try:
        return tokens.open(cursor)
    except InvalidCursor as exc:
        problem = f"cannot be used: it {exc.problem}"
        raise InvalidParam(source.param, problem, suggestion=source.suggestion) from exc


def _find(tx: Tx, *, key: Key, event_id: str) -> tuple[Position | None, LogHead]:
    return find_event(tx, key.account_id, key.id, event_id), read_head(tx, key.account_id)
