"""How lists are paged: an object asks for a page, reads where the next one begins, and plays a stand-in's pages.

    OLDER = ByLink("max_id", size="limit", size_max=40)
    HITS = ByPage("page", first=0, size="hitsPerPage", pages="nbPages", total="nbHits")

Each keeps its place in the cursor's state, and knows where a list ends that has a finite depth. Members of the body
that it reads are named with dots, as in a field map.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from upstreams.model import values
from upstreams.model.archetypes import Record
from upstreams.model.params import Args, Param, State, Value, collected, limit
from upstreams.model.steps import Answer

_PAGE = re.compile(r"[0-9]{1,9}")
Told = Mapping[str, Any]
"""The members of an answer's body that a paging object named."""


class Served(NamedTuple):
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

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:
        """Where the next page begins; None on the last one."""
        raise NotImplementedError

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
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

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - there is none
        """Return None."""
        return None

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`."""
        return Served(0, min(self._served(query), rows), self._counted(rows))


@dataclass(frozen=True, kw_only=True)
class Whole(Paging):
    """A list that comes whole with one call; a page is a part of it, by `limit` and our own cursor."""

    size: str = ""
    whole: ClassVar[bool] = True

    def params(self, collect: int = 0) -> tuple[Param, ...]:
        """As `Paging`."""
        return (collected(collect, self.size_default) if collect else limit(self.size_max, self.size_default),)

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as all
        """As `Paging`; `records` are those from the page's begin to the list's end."""
        size = args.number("limit")
        return {"o": args.position("o", 0) + size} if len(records) > size else None

    def serve(self, query: Mapping[str, str], rows: int) -> Served:  # noqa: ARG002 - it is all of them
        """As `Paging`."""
        return Served(0, rows, self._counted(rows))


@dataclass(frozen=True)
class _Counted(Paging):
    """Pages with a number; whichever of these is declared tells that there is another, else a page that came full."""

    name: str
    """The query member of the number."""
    first: int = field(default=0, kw_only=True)
    more: str = field(default="", kw_only=True)
    """The member of the body that is there and true while there is more."""
    header: str = field(default="", kw_only=True)
    """The header that is not empty while there is more."""
    link: bool = field(default=False, kw_only=True)
    """True: the `Link` header names the next page."""
    depth: int | None = field(default=None, kw_only=True)
    """The rows of one list that the platform serves at most."""
    key: ClassVar[str]
    """The name of the number in a cursor's state."""

    @property
    def also(self) -> tuple[str, ...]:
        """As `Paging`."""
        return (*super().also, self.more) if self.more else super().also

    def query(self, args: Args) -> dict[str, Value | None]:
        """As `Paging`."""
        place = args.position(self.key, self.first)
        return {self.name: place, self.size: args.number("limit")} if self.size else {self.name: place}

    def _goes_on(self, answer: Answer, told: Told, end: int, *, is_full: bool) -> bool:
        """Whether there is a page after the one that ends with row number `end`."""
        if self.depth is not None and end >= self.depth:
            return False
        if self.more:
            return bool(told.get(self.more))
        if self.header:
            return bool(answer.headers.get(self.header))
        if self.link:
            return answer.next_link(self.name) is not None
        if self.total:
            return is_full if (total := values.count(told.get(self.total))) is None else end < total
        return is_full

    def _page(self, start: int, query: Mapping[str, str], rows: int, *, following: int) -> Served:
        stop = min(start + self._served(query), rows)
        goes_on = stop < rows
        members = {**self._counted(rows), **({self.more: goes_on} if self.more else {})}
        headers = {self.header: str(following) if goes_on else ""} if self.header else {}
        return Served(start, stop, members, headers, {self.name: str(following)} if self.link and goes_on else {})


@dataclass(frozen=True)
class ByPage(_Counted):
    """Pages by their number, from `first` on."""

    first: int = field(default=1, kw_only=True)
    pages: str = field(default="", kw_only=True)
    """The member of the body that tells how many pages there are."""
    pages_max: int | None = field(default=None, kw_only=True)
    """The pages of one list that the platform serves at most."""
    key: ClassVar[str] = "p"

    def is_last(self, args: Args, number: int) -> bool:  # noqa: ARG002 - some serve more to those with a credential
        """Whether the platform serves no page after the one of this number, which begins at 1."""
        return number == self.pages_max

    @property
    def also(self) -> tuple[str, ...]:
        """As `Paging`."""
        return (*super().also, self.pages) if self.pages else super().also

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:
        """As `Paging`."""
        page, size = args.position("p", self.first), self.page_rows(args)
        number = page + 1 - self.first
        if self.is_last(args, number):
            return None
        if self.pages:
            goes_on = number < (values.count(told.get(self.pages)) or 0)
        else:
            goes_on = self._goes_on(answer, told, number * size, is_full=len(records) >= size)
        return {"p": page + 1} if goes_on else None

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`."""
        page, size = int(query.get(self.name, self.first)), self._served(query)
        served = self._page((page - self.first) * size, query, rows, following=page + 1)
        return served._replace(members={**served.members, self.pages: -(-rows // size)}) if self.pages else served


@dataclass(frozen=True)
class ByOffset(_Counted):
    """Pages by the number of rows before them."""

    key: ClassVar[str] = "o"

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:
        """As `Paging`."""
        size = self.page_rows(args)
        end = args.position("o", self.first) + size
        goes_on = self._goes_on(answer, told, end - self.first, is_full=len(records) >= size)
        return {"o": end} if goes_on else None

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`."""
        start = int(query.get(self.name, self.first))
        return self._page(start - self.first, query, rows, following=start + self._served(query))


class _Tokens(Paging):
    """Pages by a token of the upstream's; a stand-in's tokens say how many rows came before."""

    name: str

    def _begin(self, query: Mapping[str, str]) -> int:
        told = query.get(self.name, "")
        return int(told) if told.isdecimal() else 0


@dataclass(frozen=True)
class ByToken(_Tokens):
    """Pages by a token that the answer before told; one that leads nowhere else ends the list."""

    name: str
    """The query member of the token."""
    member: str = ""
    """The member of the body that holds the next one; where it is not given it has the same name."""
    header: str = field(default="", kw_only=True)
    """The header that holds it instead."""
    first: str | None = field(default=None, kw_only=True)
    """The token of the first page."""
    empty_ends: bool = field(default=False, kw_only=True)
    """True: a page without rows is the last one, whatever token it tells."""

    @property
    def also(self) -> tuple[str, ...]:
        """As `Paging`."""
        return super().also if self.header else (*super().also, self._member)

    @property
    def _member(self) -> str:
        return self.member or self.name

    def query(self, args: Args) -> dict[str, Value | None]:
        """As `Paging`."""
        token = args.token() or self.first
        return {self.size: args.number("limit"), self.name: token} if self.size else {self.name: token}

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:
        """As `Paging`."""
        token = answer.headers.get(self.header) if self.header else values.ident(told.get(self._member))
        is_last = not token or token == (args.token() or self.first) or (self.empty_ends and not records)
        return None if is_last else {"c": str(token)}

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`."""
        start = self._begin(query)
        stop = min(start + self._served(query), rows)
        token = str(stop) if stop < rows else None
        told = {} if self.header else {self._member: token}
        return Served(
            start, stop, {**self._counted(rows), **told}, {self.header: token} if self.header and token else {}
        )


@dataclass(frozen=True)
class ByLink(_Tokens):
    """Pages by a query member of the `Link` header's rel="next" address, or by another one where it lacks the first."""

    name: str
    other: str = ""
    """A page's number, mostly."""

    def query(self, args: Args) -> dict[str, Value | None]:
        """As `Paging`."""
        place = args.cursor or {}
        asked: dict[str, Value | None] = {}
        if "c" in place:
            asked[self.name] = place["c"]
        elif "p" in place and self.other:
            asked[self.other] = place["p"]
        if self.size:
            asked[self.size] = args.number("limit")
        return asked

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as all
        """As `Paging`."""
        if (token := answer.next_link(self.name)) is not None:
            return {"c": token} if token and token != args.token() else None
        page = answer.next_link(self.other) if self.other else None
        return {"p": int(page)} if page is not None and _PAGE.fullmatch(page) else None

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`."""
        start = self._begin(query)
        stop = min(start + self._served(query), rows)
        return Served(start, stop, self._counted(rows), link={self.name: str(stop)} if stop < rows else {})


@dataclass(frozen=True)
class ByLastId(_Tokens):
    """Pages that go on from the last row's id; a page without rows is the last one."""

    name: str
    of: str = "id"
    """The field of our record that holds it."""
    newest_last: bool = field(default=False, kw_only=True)
    """True: rows come oldest first, and the page before them goes on from the first row."""
    short_ends: bool = field(default=False, kw_only=True)
    """True: a page that is not full is the last one."""

    def query(self, args: Args) -> dict[str, Value | None]:
        """As `Paging`."""
        token = args.token("m")
        return {self.size: args.number("limit"), self.name: token} if self.size else {self.name: token}

    def following(self, args: Args, answer: Answer, told: Told, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as all
        """As `Paging`."""
        if not records or (self.short_ends and len(records) < self.page_rows(args)):
            return None
        value = records[0 if self.newest_last else -1].get(self.of)
        place = None if value is None else self._place(str(value))
        return {"m": place} if place is not None and place != args.token("m") else None

    def _place(self, value: str) -> str:
        return value

    def serve(self, query: Mapping[str, str], rows: int) -> Served:
        """As `Paging`; a stand-in's rows have their numbers as ids, from 0 on."""
        start = self._begin(query) + 1 if query.get(self.name) else 0
        return Served(start, min(start + self._served(query), rows), self._counted(rows))


@dataclass(frozen=True)
class ByTime(ByLastId):
    """Pages that go on from the last row's time, sent as ISO text or as Unix seconds."""

    of: str = "published_at"
    unix: bool = field(default=False, kw_only=True)

    def _place(self, value: str) -> str:
        return str(int(datetime.fromisoformat(value).timestamp())) if self.unix else value
