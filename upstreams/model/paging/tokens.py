"""Paging by data from the previous page: a token, a link, or the id or time of the last row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from upstreams.model.archetypes import Record
from upstreams.model.fields import values
from upstreams.model.paging.shape import Members, Paging, StandInPage
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Answer

_NO_MORE = (0, False, "0", "false")
_PAGE = re.compile(r"[0-9]{1,9}")


class _Tokens(Paging):
    """Paging by an upstream's token. A stand-in uses the number of preceding rows as the token."""

    name: str

    def faults(self) -> Iterator[str]:
        """See `Paging`."""
        yield from super().faults()
        yield from self._not_distinct(name=self.name, size=self.size)

    def _begin(self, query: Mapping[str, str]) -> int:
        text = query.get(self.name, "")
        return int(text) if text.isdecimal() else 0


@dataclass(frozen=True)
class ByToken(_Tokens):
    """Paging by a token in the previous answer. The list ends when the token is missing or no longer changes."""

    name: str
    """The query member that carries the token."""
    member: str = ""
    """The body member that contains the next token. By default, it has the same name as the query member."""
    header: str = field(default="", kw_only=True)
    """The header that contains the next token, if the body does not."""
    first: str | None = field(default=None, kw_only=True)
    """The token that requests the first page."""
    empty_ends: bool = field(default=False, kw_only=True)
    """Whether a page without rows ends the list even if it contains a token."""
    more: str = field(default="", kw_only=True)
    """The body member that is false or 0 on the last page, although the page may contain a token."""

    def faults(self) -> Iterator[str]:
        """See `Paging`."""
        yield from super().faults()
        if self.member and self.header:
            yield f"the token is either in the member `{self.member}` or in the header `{self.header}`; set one of them"

    @property
    def also(self) -> tuple[str, ...]:
        """See `Paging`."""
        members = (*super().also, *filter(None, (self.more,)))
        return members if self.header else (*members, self._member)

    @property
    def _member(self) -> str:
        return self.member or self.name

    def query(self, args: Args) -> dict[str, Value | None]:
        """See `Paging`."""
        token = args.token() or self.first
        return {self.size: args.number("limit"), self.name: token} if self.size else {self.name: token}

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:
        """See `Paging`."""
        token = answer.headers.get(self.header) if self.header else values.ident(members.get(self._member))
        is_last = not token or token == (args.token() or self.first) or (self.empty_ends and not records)
        if self.more and members.get(self.more) in _NO_MORE:
            return None
        return None if is_last else {"c": str(token)}

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`."""
        start = self._begin(query)
        stop = min(start + self._served(query), rows)
        token = str(stop) if stop < rows else None
        place: dict[str, str | int | None] = {} if self.header else {self._member: token}
        if self.more:
            place[self.more] = int(stop < rows)
        return StandInPage(
            start, stop, {**self._counted(rows), **place}, {self.header: token} if self.header and token else {}
        )


@dataclass(frozen=True)
class ByLink(_Tokens):
    """Paging by a query member of the rel="next" URL in the `Link` header.

    If that URL lacks the member `name`, the member `other` is used.
    """

    name: str
    other: str = ""
    """A second query member, usually the page number."""

    def faults(self) -> Iterator[str]:
        """See `Paging`."""
        yield from super().faults()
        yield from self._not_distinct(name=self.name, other=self.other)

    def query(self, args: Args) -> dict[str, Value | None]:
        """See `Paging`."""
        place = args.cursor or {}
        found: dict[str, Value | None] = {}
        if "c" in place:
            found[self.name] = place["c"]
        elif "p" in place and self.other:
            found[self.other] = place["p"]
        if self.size:
            found[self.size] = args.number("limit")
        return found

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as in `Paging`
        """See `Paging`."""
        if (token := answer.next_link(self.name)) is not None:
            return {"c": token} if token and token != args.token() else None
        page = answer.next_link(self.other) if self.other else None
        return {"p": int(page)} if page is not None and _PAGE.fullmatch(page) else None

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`."""
        start = self._begin(query)
        stop = min(start + self._served(query), rows)
        return StandInPage(start, stop, self._counted(rows), link={self.name: str(stop)} if stop < rows else {})


@dataclass(frozen=True)
class ByLastId(_Tokens):
    """Paging by the id of the last row. A page without rows ends the list.

    Some platforms repeat that row at the start of the next page. The repeated row is dropped.
    """

    name: str
    of: str = "id"
    """The field of our records whose value is sent to request the next page."""
    newest_last: bool = field(default=False, kw_only=True)
    """Whether rows are sorted oldest first. Older pages then continue from the first row."""
    short_ends: bool = field(default=False, kw_only=True)
    """Whether a page that is not full ends the list."""

    def query(self, args: Args) -> dict[str, Value | None]:
        """See `Paging`."""
        token = args.token("m")
        return {self.size: args.number("limit"), self.name: token} if self.size else {self.name: token}

    def following(self, args: Args, answer: Answer, members: Members, records: Sequence[Record]) -> State | None:  # noqa: ARG002 - as in `Paging`
        """See `Paging`."""
        if not records or (self.short_ends and len(records) < self.page_rows(args)):
            return None
        value = records[0 if self.newest_last else -1].get(self.of)
        place = None if value is None else self._place(str(value))
        return {"m": place} if place is not None and place != args.token("m") else None

    def fresh(self, args: Args, records: list[Record]) -> list[Record]:
        """See `Paging`. Only an id identifies a repeated row, because several rows can have the same timestamp."""
        known = args.token("m") if self.of == "id" else None
        if known is None or not records:
            return records
        if self.newest_last:
            return records[:-1] if records[-1]["id"] == known else records
        return records[1:] if records[0]["id"] == known else records

    def _place(self, value: str) -> str:
        return value

    def serve(self, query: Mapping[str, str], rows: int) -> StandInPage:
        """See `Paging`. The rows of a stand-in have the ids 0, 1, 2 and so on."""
        start = self._begin(query) + 1 if query.get(self.name) else 0
        return StandInPage(start, min(start + self._served(query), rows), self._counted(rows))


@dataclass(frozen=True)
class ByTime(ByLastId):
    """Paging by the time of the last row, sent as ISO text or as Unix seconds."""

    of: str = "published_at"
    unix: bool = field(default=False, kw_only=True)

    def _place(self, value: str) -> str:
        return str(int(datetime.fromisoformat(value).timestamp())) if self.unix else value
