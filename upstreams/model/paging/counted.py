"""Paging by a number: the page number, or the number of preceding rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from upstreams.model.archetypes import Record
from upstreams.model.fields import values
from upstreams.model.paging.shape import Members, Paging, StandInPage
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Answer


@dataclass(frozen=True)
class _Counted(Paging):
    """Paging by a number, with several ways to recognize the last page.

    At most one of `more`, `header` and `link` is set. If none is set, `total` decides, and without `total`, a full page
    is assumed to have a successor.
    """

    name: str
    """The query member that carries the number."""
    first: int = field(default=0, kw_only=True)
    more: str = field(default="", kw_only=True)
    """The body member that is true if there are more pages."""
    header: str = field(default="", kw_only=True)
    """The header that is present and not empty if there are more pages."""
    link: bool = field(default=False, kw_only=True)
    """Whether the `Link` header names the next page."""
    depth: int | None = field(default=None, kw_only=True)
    """The maximum number of rows that the platform serves from one list."""
    key: ClassVar[str]
    """The key of the number in the cursor's state."""

    def faults(self) -> Iterator[str]:
        """See `Paging`."""
        yield from super().faults()
        yield from self._not_distinct(name=self.name, size=self.size)
        yield from self._too_small("depth")
        if len(ends := self._ends()) > 1:
            yield f"at most one of {', '.join(f'`{one}`' for one in ends)} can decide which page is the last"

    def _ends(self) -> list[str]:
        """Return the fields that are set among those that each decide alone which page is the last."""
        return [name for name in ("more", "header", "link") if getattr(self, name)]

    @property
    def also(self) -> tuple[str, ...]:
        """See `Paging`."""
        return (*super().also, self.more) if self.more else super().also

    def query(self, args: Args) -> dict[str, Value | None]:
        """See `Paging`."""
        place = args.position(self.key, self.first)
        return {self.name: place, self.size: args.number("limit")} if self.size else {self.name: place}

    def _has_next(self, answer: Answer, members: Members, end: int, *, is_full: bool) -> bool:
        """Return whether there is a page after the one that ends at row number `end`."""
        if self.depth is not None and end >= self.depth:
            return False
        if self.more:
            return bool(members.get(self.more))
        if self.header:
            return bool(answer.headers.get(self.header))
        if self.link:
            return answer.next_link(self.name) is not None
        if self.total:
            return is_full if (total := values.count(members.get(self.total))) is None else end < total
        return is_full

    def _page(self, start: int, query: Mapping[str, str], rows: int, *, following: int) -> StandInPage:
        stop = min(start + self._served(query), rows)
        has_next = stop < rows
        members = {**self._counted(rows), **({self.more: has_next} if self.more else {})}
        headers = {self.header: str(following) if has_next else ""} if self.header else {}
        return StandInPage(start, stop, members, headers, {self.name: str(following)} if self.link and has_next else {})


@dataclass(frozen=True)
class ByPage(_Counted):
    """Paging by page number, starting at `first`."""

    first: int = field(default=1, kw_only=True)
    pages: str = field(default="", kw_only=True)
    """The body member that contains the number of pages."""
    pages_max: int | None = field(default=None, kw_only=True)
    """The maximum number of pages that the platform serves from one list."""
    key: ClassVar[str] = "p"

    def faults(self) -> Iterator[str]:
        """See `Paging`."""
        yield from super().faults()
        yield from self._too_small("pages_max")

    def _ends(self) -> list[str]:
        return [*super()._ends(), *(["pages"] if self.pages else [])]

    def is_last(self, args: Args, number: int) -> bool:  # noqa: ARG002 - some platforms serve more pages to requests with a credential
        """Return whether the platform serves no page after this one. Here numbers start at 1."""
        return number == self.pages_max

    @property
    def also(self) -> tuple[str, ...]:
        """See `Paging`."""
        return (*super().also, self.pages) if self.pages else super().also

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:
        """See `Paging`."""
        page, size = args.position("p", self.first), self.page_rows(args)
        number = page + 1 - self.first
        if self.is_last(args, number):
            return None
        if self.pages:
            has_next = number < (values.count(members.get(self.pages)) or 0)
        else:
            has_next = self._has_next(answer, members, number * size, is_full=len(records) >= size)
        return {"p": page + 1} if has_next else None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`."""
        page, size = int(query.get(self.name, self.first)), self._served(query)
        served = self._page((page - self.first) * size, query, rows, following=page + 1)
        return served._replace(members={**served.members, self.pages: -(-rows // size)}) if self.pages else served


@dataclass(frozen=True)
class ByOffset(_Counted):
    """Paging by the number of preceding rows."""

    key: ClassVar[str] = "o"

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:
        """See `Paging`."""
        size = self.page_rows(args)
        end = args.position("o", self.first) + size
        has_next = self._has_next(answer, members, end - self.first, is_full=len(records) >= size)
        return {"o": end} if has_next else None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`."""
        start = int(query.get(self.name, self.first))
        return self._page(start - self.first, query, rows, following=start + self._served(query))
