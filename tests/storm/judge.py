"""Checks that written and read events match. The pure functions yield one sentence per fault."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.storm.plan import Plan, fact_of, facts_of, is_undone, told

Numbers = Sequence[int]


class Row(NamedTuple):
    """An event as stored."""

    pos: int
    type: str
    key_id: str | None
    subject_id: str
    parent_id: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class Filter:
    """A reader's selection of types or families and of parents; an empty one selects everything."""

    types: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """Return the selection as request parameters."""
        types = f"&types={','.join(self.types)}" if self.types else ""
        return types + (f"&subject_id={','.join(self.parents)}" if self.parents else "")

    def admits(self, row: Row) -> bool:
        """Return whether the filter selects this event."""
        if self.types and not any(fnmatchcase(row.type, one) for one in self.types):
            return False
        return not self.parents or row.parent_id in self.parents


def visible(rows: Iterable[Row], key_id: str, chosen: Filter) -> array[int]:
    """Return the facts that a key must receive, in order."""
    return array("Q", (fact_of(row.subject_id) for row in rows if row.key_id in (None, key_id) and chosen.admits(row)))


@dataclass
class LogJudge:
    """Checks the logs of accounts one after the other, and then whether all batches are complete."""

    plan: Plan
    found: dict[int, int] = field(default_factory=dict)
    """The facts of each batch that were found in the logs, as a bit mask by batch."""

    def log(self, account_id: str, rows: Iterable[Row], *, ends: tuple[int, int]) -> Iterator[str]:
        """Yield the faults of an account's log. `ends` are the first and last position according to its feed."""
        pos, at = 0, 0.0
        for pos, row in enumerate(rows, 1):
            if row.pos != pos:
                yield f"{account_id}: position {row.pos} stands where {pos} belongs"
                return
            if row.created_at < at:
                yield f"{account_id}: created_at falls at position {pos}"
            at = row.created_at
            yield from self._row(account_id, row)
        if ends != (1, pos):
            yield f"{account_id}: the feed tells {ends}, the log ends at {pos}"

    def _row(self, account_id: str, row: Row) -> Iterator[str]:
        fact = fact_of(row.subject_id)
        batch, bit = fact >> 8, 1 << (fact & 0xFF)
        if self.found.setdefault(batch, 0) & bit:
            yield f"{account_id}: {row.subject_id} was written twice"
        self.found[batch] |= bit
        if (account_id, row.key_id, row.type, row.parent_id) != told(self.plan, fact):
            yield f"{account_id}: {row.subject_id} is not what was told"

    def batches(self, reported: Collection[int]) -> Iterator[str]:
        """Check that every reported batch is complete, and that no undone or partial batch exists."""
        for batch in self.found.keys() | set(reported):
            found = self.found.get(batch, 0)
            whole = (1 << len(facts_of(self.plan, batch))) - 1
            if is_undone(self.plan, batch):
                yield f"batch {batch:x} was undone and is there"
            elif batch in reported and not found:
                yield f"batch {batch:x} was reported and is lost"
            elif found != whole:
                yield f"batch {batch:x} is there in part: {found:b}"


def judge_walk(expected: Numbers, seen: Numbers) -> Iterator[str]:
    """Check that a walker saw each event of its visible log once and in order."""
    if array("Q", expected) == array("Q", seen):
        return
    at = next((n for n, pair in enumerate(zip(expected, seen, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        yield f"it saw {len(seen)} events of {len(expected)}, the first ones the same"
    elif seen[at] in seen[:at]:
        yield f"event {at} was seen before"
    elif seen[at] in expected[at:]:
        yield f"event {at} was left out or came too late"
    else:
        yield f"event {at} is none that it may see"


@dataclass(frozen=True, slots=True)
class Given:
    """A page that a consumer received, and the number of acknowledgements that were answered before its request."""

    items: array[int]
    acked_before: int


def judge_consumer(expected: Numbers, given: Sequence[Given], acked: Sequence[Given]) -> Iterator[str]:
    """Check that each page begins where an acknowledgement ended, and that the acknowledged pages are the whole log.

    All readers of a consumer request pages of the same size, so two pages that begin at the same event are the same
    page.
    """
    index = {fact: number for number, fact in enumerate(expected)}
    ends = [_end(index, page) for page in acked]
    places, floors = {0, *ends}, _floors(ends)
    firsts: dict[int, array[int]] = {}
    for page in given:
        start = index.get(page.items[0], -1)
        if start < 0 or page.items != array("Q", expected[start : start + len(page.items)]):
            yield f"a page of {len(page.items)} events, the first is {start}, is no piece of the log"
            continue
        if start not in places:
            yield f"a page begins at event {start}, where nothing was acknowledged"
        if start < floors[page.acked_before]:
            yield f"a page begins at event {start}, acknowledged before up to {floors[page.acked_before]}"
        if firsts.setdefault(start, page.items) != page.items:
            yield f"the page at event {start} changed before it was acknowledged"
    yield from _gaps(index, acked, len(expected))


def _gaps(index: Mapping[int, int], acked: Sequence[Given], size: int) -> Iterator[str]:
    place = 0
    for start, end in sorted((index.get(page.items[0], size), _end(index, page)) for page in acked):
        if start > place:
            yield f"events {place} to {start} were never acknowledged"
        place = max(place, end)
    if place != size:
        yield f"acknowledged up to event {place} of {size}"


def _end(index: Mapping[int, int], page: Given) -> int:
    return index.get(page.items[-1], -1) + 1


def _floors(ends: Sequence[int]) -> list[int]:
    """Return the furthest acknowledged position before the first acknowledgement and after each one."""
    floors = [0]
    for end in ends:
        floors.append(max(floors[-1], end))
    return floors
