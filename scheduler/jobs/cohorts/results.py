"""The results of a query in pages: for each member, in order, its matching posts and its coverage (spec 7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import orjson

from scheduler.errors import CohortResultTooLarge
from scheduler.packing import unpacked

PAGE_BYTES: Final = 1_000_000
"""The maximum size of a page in bytes, including the JSON around its rows."""
AROUND_BYTES: Final = 2_000
"""The maximum size of a response in bytes without its rows."""


class ResultPosition(NamedTuple):
    """A position among the rows: the number of a shard, and how many of its rows come before the position."""

    number: int
    place: int


BEGIN: Final = ResultPosition(1, 0)


class ResultPage(NamedTuple):
    """The rows of a page as JSON, in order, and the start of the next page, which is None on the last page."""

    items: list[bytes]
    coverage: list[bytes]
    next: ResultPosition | None


class ResultRow(NamedTuple):
    """A row as JSON, and the position after it."""

    body: bytes
    is_item: bool
    next_at: ResultPosition


def rows_of(query_id: str, number: int, packed: bytes) -> Iterator[ResultRow]:
    """Yield the rows of a shard."""
    place = 0
    for member in orjson.loads(unpacked(packed)):
        own = {"query_id": query_id, "member_id": member["member_id"], "external_id": member["external_id"]}
        for item in member["items"]:
            place += 1
            row = {**own, "platform": member["platform"], "route": member["route"], **item}
            yield ResultRow(orjson.dumps(row), True, ResultPosition(number, place))  # noqa: FBT003 - named by its field
        place += 1
        yield ResultRow(orjson.dumps({**own, **_coverage(member)}), False, ResultPosition(number, place))  # noqa: FBT003


def _coverage(member: dict[str, Any]) -> dict[str, Any]:
    errors = [] if member["error"] is None else [{"route": member["route"], "code": member["error"]}]
    kept = {name: member[name] for name in ("platform", "status", "window_complete", "oldest_seen", "pages")}
    return {**kept, "route_errors": errors}


class PageBuilder:
    """A page that is filled row by row. It is not shared between tasks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = PAGE_BYTES - AROUND_BYTES
        self._items: list[bytes] = []
        self._coverage: list[bytes] = []

    def fill(self, begin: ResultPosition, rows: Iterable[ResultRow]) -> ResultPosition | None:
        """Add rows from `begin` on, as many as fit.

        Return the position of the first row that did not fit, or None if all were added.

        Raises:
            CohortResultTooLarge: the first row is longer than a whole page.
        """
        here = begin
        for row in rows:
            if row.next_at.place <= begin.place and row.next_at.number == begin.number:
                continue
            size = len(row.body) + 1
            is_first = not self._items and not self._coverage
            if size > self._left and is_first:
                raise CohortResultTooLarge(len(row.body), PAGE_BYTES, row.next_at)
            if size > self._left or len(self._items) + len(self._coverage) >= self._limit:
                return here
            self._left -= size
            (self._items if row.is_item else self._coverage).append(row.body)
            here = row.next_at
        return None

    def page(self, following: ResultPosition | None) -> ResultPage:
        """Return the page with the rows added so far."""
        return ResultPage(self._items, self._coverage, following)
