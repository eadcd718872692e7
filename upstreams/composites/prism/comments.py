"""All comments on a post on any platform, read page by page (decisions 18; spec 4.3, rule 8)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from upstreams.composites.addresses import Addresses
from upstreams.composites.legs import LEG_S, Settled, attempt, check_any, legs_of
from upstreams.model.archetypes import Record, resolved
from upstreams.model.archetypes.threads import comments_read
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import CACHE, Fetched, Page, Part, Round, Steps

LEAST: Final = 2
MOST: Final = 200
"""The minimum and maximum price in credits. Each call for a page costs one credit."""
_ROWS: Final = 100
_AT_ONCE: Final = 8
"""The number of comments whose replies are read in parallel."""
DESCRIPTION: Final = (
    "The comments on a post, read page by page until there are `max`. Pages are read in full, so there may be a few "
    "more. `sort` and `limit` change the response, never the price. next_cursor continues after the last page read."
)


class Thread(NamedTuple):
    """A post whose comments are read: its platform's endpoints, and the values that identify the post."""

    platform: Platform
    comments: Endpoint
    replies: Endpoint | None
    values: dict[str, Value]

    def page(self, cursor: State | None) -> Part:
        """Return the part that reads a page of comments."""
        size = next((one.maximum or _ROWS for one in self.comments.params if one.name == "limit"), None)
        values = self.values if size is None else {**self.values, "limit": min(size, _ROWS)}
        return Part(self.comments.resource, values, True, self.platform.slug, cursor, LEG_S)  # noqa: FBT003 - the flag is `optional`

    def below(self, comment: Record) -> Part:
        """Return the part that reads the replies to a comment."""
        assert self.replies is not None, "only platforms with an endpoint for replies have replies to read"
        known = {param.name for param in self.replies.params}
        name = next(one.name for one in self.replies.params if one.required and one.name not in self.values)
        values = {key: value for key, value in self.values.items() if key in known}
        size = {"limit": _ROWS} if "limit" in known else {}
        return Part(
            self.replies.resource,
            {**values, **size, name: str(comment["id"])},
            True,  # noqa: FBT003 - the flag is `optional`
            self.platform.slug,
            within_s=LEG_S,
        )


def price_span(values: Mapping[str, Value]) -> tuple[int, int]:
    """Return the range of the price: at least two credits, and at most one for every five requested comments."""
    return LEAST, min(MOST, max(LEAST, -(-int(values["max"]) // 5)))


@dataclass(slots=True)
class _Gathering:
    """The comments that were read so far. Only the walk modifies them."""

    most: int
    comments: dict[str, Record] = field(default_factory=dict)
    """The comments by id. A comment without an id is stored under its position."""
    legs: list[Settled] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)

    def take(self, leg: Settled) -> list[Record]:
        """Add the new comments of a page and return them."""
        self.legs.append(leg)
        new = [one for one in leg.records if one["id"] is None or one["id"] not in self.comments]
        for one in new:
            self.comments[one["id"] or f"#{len(self.comments)}"] = one
        return new

    @property
    def scanned(self) -> int:
        """The number of comments so far, including replies."""
        return sum(map(_size, self.comments.values()))

    @property
    def pages(self) -> int:
        """The number of page calls that are billed."""
        answers = [leg.answer for leg in self.legs]
        return sum(1 for one in answers if isinstance(one, Fetched) and one.source != CACHE)

    def done(self) -> Round:
        """Return the progress of the walk after a round of calls."""
        return Round(self.pages, self.scanned, self.most)


def read_comments(addresses: Addresses, args: Args) -> Steps:
    """Return the comments on the post at `url`."""
    threads = _threads(addresses, args)
    gathering = _Gathering(args.number("max"))
    place, leg = yield from _begin(threads, args)
    thread, following = threads[place], leg.next
    new = gathering.take(leg)
    while True:
        left = yield gathering.done()
        if args.values["replies"] and thread.replies is not None and left:
            left = yield from _read_below(thread, gathering, new, left)
        if following is None or gathering.scanned >= gathering.most:
            break
        if not left:
            gathering.shortfalls.append("the read stopped before the last page")
            break
        (leg,) = yield from attempt([thread.page(following)])
        if not leg.answer:
            gathering.legs.append(leg)
            gathering.shortfalls.append(f"page {gathering.pages + 1} could not be read")
            break
        following, new = leg.next, gathering.take(leg)
    return _answer(thread, gathering, args, None if following is None else _state(place, following))


def _threads(addresses: Addresses, args: Args) -> list[Thread]:
    found = addresses.find(args.text("url"))
    threads = []
    for one in found.destinations:
        comments, post = one.platform.playing("comments"), one.platform.playing("post")
        if comments is not None and post is not None and post.resource == one.endpoint.resource:
            known = {param.name for param in comments.params}
            values = {name: value for name, value in one.values.items() if name in known}
            threads.append(Thread(one.platform, comments, one.platform.playing("replies"), values))
    if not threads:
        raise InvalidArgument("url", "does not lead to a post whose comments can be read")
    return threads


def _begin(threads: Sequence[Thread], args: Args) -> Generator[Any, Any, tuple[int, Settled]]:
    """Read the first page, or the page of the cursor.

    If several platforms may have the post, determine which one does.
    """
    if args.cursor is not None:
        place = args.position("at", 0)
        settled = yield from attempt([threads[place].page(orjson.loads(str(args.cursor["of"])))])
        check_any(settled)
        return place, settled[0]
    settled = yield from attempt([one.page(None) for one in threads])
    check_any(settled)
    return next((place, leg) for place, leg in enumerate(settled) if leg.answer)


def _state(place: int, following: State) -> State:
    return {"at": place, "of": orjson.dumps(dict(following)).decode()}


def _read_below(
    thread: Thread, gathering: _Gathering, comments: Iterable[Record], left: int
) -> Generator[Any, Any, int]:
    """Read the replies that the page did not include. Return how many more pages may be read."""
    waiting = [one for one in comments if (one["engagement"]["replies"] or 0) > len(one["replies"]) and one["id"]]
    while waiting and left and gathering.scanned < gathering.most:
        size = min(_AT_ONCE, left)
        batch, waiting = waiting[:size], waiting[size:]
        settled = yield from attempt([thread.below(one) for one in batch])
        for comment, leg in zip(batch, settled, strict=True):
            gathering.legs.append(leg)
            gathering.comments[comment["id"]] = _with_replies(comment, leg.records)
        left = yield gathering.done()
    if waiting:
        gathering.shortfalls.append(f"the replies to {len(waiting)} of the comments were not read")
    return left


def _with_replies(comment: Record, replies: Sequence[Record]) -> Record:
    known = {one["id"] for one in comment["replies"]}
    return {**comment, "replies": [*comment["replies"], *(one for one in replies if one["id"] not in known)]}


def _answer(thread: Thread, gathering: _Gathering, args: Args, following: State | None) -> Page:
    rows = list(gathering.comments.values())
    if not args.values["replies"]:
        rows = [{**one, "replies": []} for one in rows if one["parent_id"] in (None, one["post_id"])]
    is_top = args.text("sort") == "top"
    rows.sort(key=_likes if is_top else _time, reverse=True)
    rows = rows[: args.number("limit") if "limit" in args.values else args.number("max")]
    beside = comments_read(
        returned=len(rows),
        scanned=gathering.scanned,
        sorted_by="likes_desc" if is_top else None,
        resolved=resolved(
            platform=thread.platform.slug,
            endpoint=f"/v1/{thread.platform.slug}/{thread.comments.resource}",
            archetype=thread.comments.archetype.name,
            params=thread.values,
        ),
    )
    return Page(
        rows,
        following,
        warnings=tuple(f"comments read: {gathering.scanned}; {one}" for one in gathering.shortfalls),
        legs=legs_of(gathering.legs),
        credits_used=max(LEAST, gathering.pages),
        beside=beside,
    )


def _size(comment: Record) -> int:
    return 1 + sum(map(_size, comment["replies"]))


def _likes(comment: Record) -> tuple[int, str]:
    likes = comment["engagement"]["likes"]
    return -1 if likes is None else likes, _time(comment)


def _time(comment: Record) -> str:
    instant: str | None = comment["published_at"]
    return instant or ""
