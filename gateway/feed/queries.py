"""The query of `GET /v1/events`, validated (spec 4.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from events.consumers.steps import Omitted
from events.errors import UnknownType
from events.filters import Filters
from events.log.kinds import named_in, select
from gateway.feed.refusals import CURSOR, CursorSource
from gateway.http.errors import InvalidParam
from gateway.http.params import Declared
from gateway.http.request import Request
from upstreams.model.params import Param, Value

SUBJECTS_MAX = 100
LIMIT_MAX = 500
LIMIT_DEFAULT = 100
WAIT_S_MAX = 25
_FILTERS: Mapping[str, Literal["types", "subjects"]] = {"types": "types", "subject_id": "subjects"}
_NAME = re.compile(r"[a-z0-9_-]{1,64}")

PARAMS = (
    Param(
        "cursor",
        "Where to start: oldest, now, a next_cursor, or an event's id.",
        "oldest",
        length_max=4_096,
    ),
    Param("consumer", "Read as this named consumer of the key. The first read creates it.", "billing", length_max=500),
    Param("start", "Where a consumer's first read begins.", "oldest", choices=("oldest", "now")),
    Param(
        "types", "Event types; a family such as discover.*, or * for all.", "key.revoked,credits.*", length_max=2_000
    ),
    Param("subject_id", f"Ids of the events' subjects, at most {SUBJECTS_MAX}.", "mon_...", length_max=6_000),
    Param(
        "limit",
        f"Events per page, 1 to {LIMIT_MAX}.",
        "100",
        type="integer",
        default=LIMIT_DEFAULT,
        minimum=1,
        maximum=LIMIT_MAX,
    ),
    Param(
        "wait_s",
        f"Seconds to wait for an event, 0 to {WAIT_S_MAX}.",
        "25",
        type="integer",
        default=0,
        minimum=0,
        maximum=WAIT_S_MAX,
    ),
)

_RULES = Declared(replace(one, choices=(), default=None, minimum=None, maximum=None) for one in PARAMS)
"""The bounds are checked below.

Unlike the `limit` of a data endpoint, a `limit` that is too large is refused, with the nearest valid value.
"""


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """One read of the feed. A consumer's read without filters uses the filters that the consumer is bound to."""

    cursor: str
    consumer: str | None
    start: Literal["oldest", "now"]
    filters: Filters | None
    limit: int
    wait_s: int
    sent: Mapping[str, str]
    """`types` and `subject_id` as they were sent, for the URL of the next read."""
    source: CursorSource = CURSOR
    """The part of the request that contained the cursor."""

    @property
    def omitted(self) -> Omitted:
        """Return the names of the filters that were not sent."""
        return frozenset(field for name, field in _FILTERS.items() if name not in self.sent)


def query_of(request: Request) -> FeedQuery:
    """Return the query of a request.

    Raises:
        InvalidParam: 400, for the first error.
    """
    if request.stream is not None and request.headers.get(b"idempotency-key"):
        raise InvalidParam(
            "Idempotency-Key",
            "cannot be combined with Accept: text/event-stream",
            suggestion="Remove Idempotency-Key. Reads are free and can be repeated.",
            reason="conflicting_params",
        )
    return read_query(request.query)


def read_query(pairs: Sequence[tuple[str, str]]) -> FeedQuery:
    """Return the query for pairs of parameter names and texts.

    Raises:
        InvalidParam: 400, for the first error.
    """
    values = _RULES.read(pairs)
    consumer = _consumer(values, pairs)
    cursor, start = values.get("cursor"), values.get("start")
    if consumer is None and start is not None:
        suggestion = "Remove start, or name a consumer."
        raise InvalidParam("start", "is only valid for a consumer's first read", suggestion=suggestion)
    if start not in (None, "oldest", "now"):
        raise InvalidParam("start", "must be oldest or now", suggestion="Send start=oldest or start=now.")
    sent = {name: str(values[name]) for name in _FILTERS if name in values}
    return FeedQuery(
        cursor="oldest" if cursor is None else str(cursor),
        consumer=consumer,
        start="now" if start == "now" else "oldest",
        filters=_filters(sent) if sent else None,
        limit=_within(values, "limit", 1, LIMIT_MAX, default=LIMIT_DEFAULT),
        wait_s=_within(values, "wait_s", 0, WAIT_S_MAX, default=0),
        sent=sent,
    )


def check_name(name: str) -> str:
    """Validate a consumer's name. Raises Refused."""
    if _NAME.fullmatch(name) is None:
        raise InvalidParam(
            "consumer",
            "must be 1 to 64 characters of a-z, 0-9, _ and -",
            suggestion=f"Send consumer={re.sub(r'[^a-z0-9_-]', '-', name.lower())[:64] or 'main'}.",
        )
    return name


def _consumer(values: Mapping[str, Value], pairs: Sequence[tuple[str, str]]) -> str | None:
    if "consumer" not in values:
        # An empty name is refused, because a client that lost the name must not read without its consumer.
        if any(name == "consumer" and not text.strip() for name, text in pairs):
            check_name("")
        return None
    if "cursor" in values:
        raise InvalidParam(
            "cursor",
            "cannot be combined with consumer, which has its own position",
            suggestion="Remove cursor, or reset the consumer to it.",
            reason="conflicting_params",
        )
    return check_name(str(values["consumer"]))


def _filters(sent: Mapping[str, str]) -> Filters:
    try:
        types = select(sent["types"]) if "types" in sent else None
    except UnknownType as exc:
        suggestion = f"Send types={exc.nearest}." if exc.nearest else "Remove types to read all types."
        hint = f"; did you mean {exc.nearest!r}?" if exc.nearest else ""
        problem = f"has an unknown event type {exc.name!r}{hint}"
        raise InvalidParam("types", problem, suggestion=suggestion) from exc
    subjects = _subjects(sent["subject_id"]) if "subject_id" in sent else None
    return Filters(types, subjects, None if types is None else frozenset(named_in(sent["types"])))


def _subjects(text: str) -> frozenset[str]:
    subjects = frozenset(id_.strip() for id_ in text.split(",")) - {""}
    if not subjects:  # An empty list is refused, because it must not mean all subjects.
        raise InvalidParam("subject_id", "contains no id", suggestion="Remove subject_id to read all subjects.")
    if len(subjects) > SUBJECTS_MAX:
        problem = f"has {len(subjects)} ids, but the limit is {SUBJECTS_MAX}"
        raise InvalidParam("subject_id", problem, suggestion="Split the read.")
    return subjects


def _within(values: Mapping[str, Value], name: str, least: int, most: int, *, default: int) -> int:
    number = int(values.get(name, default))
    if not least <= number <= most:
        nearest = min(max(number, least), most)
        problem = f"must be a whole number from {least} to {most}"
        raise InvalidParam(name, problem, suggestion=f"Send {name}={nearest}.")
    return number
