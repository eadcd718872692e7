"""The interface of paging objects, those of lists that have one call, and the pages that one leads through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from upstreams.model import fields, values
from upstreams.model.archetypes import Record
from upstreams.model.maps import RecordMap, Rows
from upstreams.model.params import Args, Param, State, Value, collected, limit
from upstreams.model.steps import Accepts, Answer, Page

Members = Mapping[str, Any]
"""The members of an answer's body that a paging object named."""


class StandInPage(NamedTuple):
    """A page of a stand-in: which of its rows, and what the answer says of the next one."""

    start: int
    stop: int
    members: Mapping[str, Any] = {}
    """Members of the body by their dotted names."""
    headers: Mapping[str, str] = {}
    link: Mapping[str, str] = {}
    """The query members of the `Link` header's rel="next" address, which has the others of the request."""


@dataclass(frozen=True, kw_only=True)
class Paging:
    """The interface of all, and what they share: the size of a page and the upstream's own count."""

    size: str = "limit"
    """The query member for the size of a page; empty where the platform takes none: then pages have `size_max` rows."""
    size_max: int = 100
    size_default: int = 20
    total: str = ""
    """The member of the body that tells how many there are in all."""
    whole: ClassVar[bool] = False
    """Whether a list comes as a whole, of which a page is a part."""

    @property
    def also(self) -> tuple[str, ...]:
        """The members of the body that are read beside the rows."""
        return (self.total,) if self.total else ()

    def params(self, collect: int = 0) -> tuple[Param, ...]:
        """The parameter for the size of a page, or for the rows that a walk collects."""
        if collect:
            return (collected(collect, self.size_default),)
        return (limit(self.size_max, min(self.size_default, self.size_max)),) if self.size else ()

    def page_rows(self, args: Args) -> int:
        """The rows of a full page."""
        return args.number("limit") if self.size else self.size_max

    def query(self, args: Args) -> dict[str, Value | None]:
        """The query members that ask for the page."""
        return {self.size: args.number("limit")} if self.size else {}

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:
        """Where the next page begins; None on the last one."""
        raise NotImplementedError

    def fresh(self, args: Args, records: list[Record]) -> list[Record]:  # noqa: ARG002 - mostly all
        """Those of a page's records that the page before did not have."""
        return records

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """The page that a request's query asks a stand-in for, of so many rows."""
        raise NotImplementedError

    def _served(self, query: Mapping[str, str]) -> int:
        """The rows that a request asks for."""
        return min(int(query.get(self.size, self.size_max)), self.size_max) if self.size else self.size_max

    def _counted(self, rows: int) -> dict[str, Any]:
        return {self.total: rows} if self.total else {}


@dataclass(frozen=True, kw_only=True)
class Once(Paging):
    """A list that has one page."""

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - there is none
        """Return None."""
        return None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """As `Paging`."""
        return StandInPage(0, min(self._served(query), rows), self._counted(rows))


@dataclass(frozen=True, kw_only=True)
class Whole(Paging):
    """A list that comes whole with one call; a page is a part of it, by `limit` and our own cursor."""

    size: str = ""
    whole: ClassVar[bool] = True

    def params(self, collect: int = 0) -> tuple[Param, ...]:
        """As `Paging`."""
        return (collected(collect, self.size_default) if collect else limit(self.size_max, self.size_default),)

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as all
        """As `Paging`; `records` are those from the page's begin to the list's end."""
        size = args.number("limit")
        return {"o": args.position("o", 0) + size} if len(records) > size else None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:  # noqa: ARG002 - it is all of them
        """As `Paging`."""
        return StandInPage(0, rows, self._counted(rows))


_NOTHING: Mapping[str, Any] = {}
MakeRecord = RecordMap | Callable[[fields.Json], Record]


class Pages:
    """The pages of a list: how it is paged, and how its rows are read. `at` leads to the rows in the body.

    `warnings` are told with a page where the member of the body that each names is true.
    """

    def __init__(
        self, record: MakeRecord, paging: Paging, at: str = "", *, warnings: Mapping[str, str] = _NOTHING
    ) -> None:
        self.paging = paging
        self.record = record
        self._also = (*paging.also, *warnings)
        self._warnings = warnings
        self._rows = Rows(record, at, self._also)
        self.accepts: Accepts = self._rows if isinstance(record, RecordMap) else "json"

    def page(self, args: Args, answer: Answer) -> Page:
        """The page that came."""
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
