"""The interface of paging objects, the objects for lists that need only one call, and the pages they produce."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from upstreams.model import fields
from upstreams.model.archetypes import Record
from upstreams.model.errors import DeclarationError
from upstreams.model.fields import values
from upstreams.model.fields.maps import RecordMap, Rows
from upstreams.model.params import Args, Param, State, Value, collected, limit
from upstreams.model.steps import Accepts, Answer, Page

Members = Mapping[str, Any]
"""The body members that were requested in addition to the rows."""


class StandInPage(NamedTuple):
    """One page that a stand-in serves: the range of its rows, and the data that leads to the next page."""

    start: int
    stop: int
    members: Mapping[str, Any] = {}
    """Values to put into the body, by dotted name."""
    headers: Mapping[str, str] = {}
    link: Mapping[str, str] = {}
    """The query members to change in the request's URL to form the rel="next" URL of the `Link` header."""


@dataclass(frozen=True, kw_only=True)
class Paging:
    """The interface of all paging objects, with the page size and the upstream's total, which all of them share.

    Raises:
        DeclarationError: The declaration is faulty.
    """

    size: str = "limit"
    """The query member that sets the page size. If it is empty, clients cannot choose a size and a page has `size_max`
    rows."""
    size_max: int = 100
    size_default: int = 20
    total: str = ""
    """The body member that contains the total number of rows."""
    whole: ClassVar[bool] = False
    """Whether the upstream sends the whole list at once, so that each page is a slice of the same answer."""

    def __post_init__(self) -> None:
        if faults := list(self.faults()):
            raise DeclarationError("\n".join(f"{type(self).__name__}: {fault}" for fault in faults))

    def faults(self) -> Iterator[str]:
        """Yield the faults of the declaration."""
        yield from self._too_small("size_max", "size_default")

    def _too_small(self, *fields: str) -> Iterator[str]:
        for name in fields:
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"`{name}` must be at least 1, but it is {value}"

    def _not_distinct(self, **names: str) -> Iterator[str]:
        """Yield a fault if the first name is empty, or if two query members have the same name."""
        sent = [name for name in names.values() if name]
        if not next(iter(names.values())):
            yield f"`{next(iter(names))}` must be the name of a query member, but it is empty"
        if len(set(sent)) < len(sent):
            yield f"{', '.join(f'`{one}`' for one in names)} must be different names, but they are {sent}"

    @property
    def also(self) -> tuple[str, ...]:
        """The body members to read in addition to the rows."""
        return (self.total,) if self.total else ()

    def params(self, collect: int = 0) -> tuple[Param, ...]:
        """Return the parameter that sets the page size, or with `collect` the number of items that a walk collects."""
        if collect:
            return (collected(collect, self.size_default),)
        return (limit(self.size_max, min(self.size_default, self.size_max)),) if self.size else ()

    def page_rows(self, args: Args) -> int:
        """Return how many rows a full page has."""
        return args.number("limit") if self.size else self.size_max

    def query(self, args: Args) -> dict[str, Value | None]:
        """Return the query members that request this page."""
        return {self.size: args.number("limit")} if self.size else {}

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:
        """Return the state from which the next page can be requested, or None on the last page."""
        raise NotImplementedError

    def fresh(self, args: Args, records: list[Record]) -> list[Record]:  # noqa: ARG002 - by default, all of them
        """Return the records of a page, without those that the previous page already contained."""
        return records

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """Return the page that a stand-in with this many rows serves for a query."""
        raise NotImplementedError

    def _served(self, query: Mapping[str, str]) -> int:
        """Return the page size that a query requests."""
        return min(int(query.get(self.size, self.size_max)), self.size_max) if self.size else self.size_max

    def _counted(self, rows: int) -> dict[str, Any]:
        return {self.total: rows} if self.total else {}


@dataclass(frozen=True, kw_only=True)
class Once(Paging):
    """A list that has only one page."""

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - there is no next page
        """Return None."""
        return None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`."""
        return StandInPage(0, min(self._served(query), rows), self._counted(rows))


@dataclass(frozen=True, kw_only=True)
class Whole(Paging):
    """A list that the upstream returns whole. A page is the slice that `limit` and our own cursor select."""

    size: str = ""
    whole: ClassVar[bool] = True

    def params(self, collect: int = 0) -> tuple[Param, ...]:
        """See `Paging`."""
        usual = min(self.size_default, self.size_max)
        return (collected(collect, self.size_default) if collect else limit(self.size_max, usual),)

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as in `Paging`
        """See `Paging`. `records` are all records from the start of the page to the end of the list."""
        size = args.number("limit")
        return {"o": args.position("o", 0) + size} if len(records) > size else None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:  # noqa: ARG002 - every query returns the whole list
        """See `Paging`."""
        return StandInPage(0, rows, self._counted(rows))


_NOTHING: Mapping[str, Any] = {}
MakeRecord = RecordMap | Callable[[fields.Json], Record]


class Pages:
    """The pages of a list: its paging, and the map that reads its rows at the path `at` of the body.

    `warnings` maps body members to warnings. If a member is true, its warning is added to the page.
    """

    def __init__(
        self, record: MakeRecord, paging: Paging, *, at: str = "", warnings: Mapping[str, str] = _NOTHING
    ) -> None:
        self.paging = paging
        self.record = record
        self._also = (*paging.also, *warnings)
        self._warnings = warnings
        self._rows = Rows(record, at, self._also)
        self.accepts: Accepts = self._rows if isinstance(record, RecordMap) else "json"

    def page(self, args: Args, answer: Answer) -> Page:
        """Return the page that an answer contains."""
        paging, rows = self.paging, self._rows
        members = rows.members(answer.body) if self._also else _NOTHING
        total = values.count(members.get(paging.total)) if paging.total else None
        if not paging.whole:
            records = rows.records(answer.body, given=args.values)
            warnings = tuple(one for name, one in self._warnings.items() if members.get(name) is True)
            following = paging.following(args, answer, members, records)
            return Page(paging.fresh(args, records), following, total, warnings)
        start = args.position("o", 0)
        left = rows.records(answer.body, start, start + args.number("limit") + 1, args.values)
        return Page(left[: args.number("limit")], paging.following(args, answer, members, left), total)
