"""Walks an endpoint's pages until as many items are collected as `limit` asks for (spec 4.3, rule 7).

All pages of a walk are asked for with the same size, at most `Collect.per_page`: page- and offset-style upstreams count
by it. What the last page holds beyond the limit is not lost: the cursor names that page and how far it was used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from limits.errors import LimitError
from upstreams.fetching.fetch import fetch, plan, state_of
from upstreams.fetching.planned import GoOn, OnLeg, PartReader, Plan, Planned, Reach, Walked, never
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.endpoint import Collect, Endpoint
from upstreams.model.errors import UpstreamError
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched, Page
from upstreams.transport.http import BODY_BYTES_MAX

_UNSIZED = Collect(per_page=10_000, spare_pages=19)
"""How a list is walked whose endpoint has no `limit`: nobody knows how large its pages come, perhaps one has it all."""

_SKIP = "skip"
"""In a cursor's state: how many items of its page were answered already."""


class Walk(NamedTuple):
    """A walk over pages, as `Planned`."""

    first: Plan
    limit: int
    skip: int
    reach: Reach

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        go_on: GoOn | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,  # noqa: ARG002 - a list's pages have no parts
        on_leg: OnLeg | None = None,  # noqa: ARG002 - as above
    ) -> Awaitable[Fetched]:
        """As `walk`."""
        return walk(self, pages_max, deadline_at, go_on, stopping=stopping)

    @property
    def refusal(self) -> UpstreamError | LimitError | None:
        """That of its first page."""
        return self.first.refusal

    def dismiss(self) -> None:
        """End it without a call."""
        self.first.dismiss()


def begin(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> Planned:
    """Run an endpoint's read up to its first call; `keeps` as for `plan`.

    Raises:
        InvalidArgument, InvalidCursor: no call could answer it; free, since nothing was charged.
    """
    return (plan if endpoint.collect is None else plan_walk)(site, endpoint, args, keeps=keeps)


def as_collecting(endpoint: Endpoint) -> Endpoint:
    """The endpoint of a list as one that collects: by pages as large as it gives them."""
    if endpoint.collect is not None:
        return endpoint
    largest = next((param.maximum for param in endpoint.params if param.name == "limit"), None)
    return replace(endpoint, collect=_UNSIZED if largest is None else Collect(largest))


def plan_walk(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> Walk:
    """Run the first page's read up to its first call; `keeps` as for `plan`.

    Raises:
        InvalidArgument, InvalidCursor: no call could answer it; free, since nothing was charged.
    """
    collect = endpoint.collect
    assert collect is not None, "only a collect-until-N endpoint is walked"
    limit, per_page = args.number("limit"), min(args.number("limit"), collect.per_page)
    skip = args.position(_SKIP, 0)
    state = {name: value for name, value in (args.cursor or {}).items() if name != _SKIP}
    # An empty state of a cursor is no beginning: it leads back to the first page of the source that had it.
    cursor = None if args.cursor is None else state
    sized = replace(args, values={**args.values, "limit": per_page}, cursor=cursor)
    planned = plan(site, endpoint, sized, keeps=keeps)
    pages_needed = -(-(min(skip, per_page - 1) + limit) // per_page)
    return Walk(planned, limit, skip, Reach(pages_needed, pages_needed + collect.spare_pages))


async def walk(
    begun: Walk,
    pages_max: int,
    deadline_at: float,
    go_on: GoOn | None = None,
    *,
    stopping: Callable[[], bool] = never,
) -> Fetched:
    """Collect until there are enough items, no more pages, `pages_max` were walked, `go_on` says no or all is stopping.

    A page that fails ends the walk too: what was collected before it is the answer, which says so, and the cursor goes
    on with that page.

    Raises:
        What `fetch` raises, as long as nothing was collected.
    """
    basket, planned = _Basket(begun.limit, begun.skip), begun.first
    while True:
        try:
            fetched = await fetch(planned, deadline_at)
        except (UpstreamError, LimitError) as failure:
            if not basket.records:
                raise
            why = f"page {basket.pages + 1} could not be read ({failure})"
            return basket.answer(planned.args.cursor, why, failure=failure)
        following = basket.take(fetched, state_of(planned, fetched))
        is_wanted = go_on is None or await go_on(Walked(basket.pages, len(basket.records), begun.limit))
        may_go_on = is_wanted and not stopping()
        if following is None or len(basket.records) >= begun.limit:
            return basket.answer(following)
        if not may_go_on:
            return basket.answer(following, "it was ended early", whole=False)
        if basket.body_bytes > BODY_BYTES_MAX:
            return basket.answer(following, "its pages are too long for one answer")
        if basket.pages >= pages_max:
            return _at_the_end(basket, following, begun, pages_max)
        args, keeps = replace(planned.args, cursor=following), planned.kept is not None
        planned = plan(planned.site, planned.endpoint, args, keeps=keeps)


def _at_the_end(basket: _Basket, following: State, begun: Walk, pages_max: int) -> Fetched:
    """The answer of a walk that used every page it may; fewer than usual when the credits were few."""
    if pages_max >= begun.reach.pages_max:
        return basket.answer(following)
    return basket.answer(following, f"there were credits for {pages_max} pages", whole=False)


@dataclass(slots=True)
class _Basket:
    """The rows that a walk has collected so far; changed by `take` only."""

    limit: int
    skip: int
    records: list[Record] = field(default_factory=list)
    pages: int = 0
    _seen: set[object] = field(default_factory=set)
    _fetched: list[Fetched] = field(default_factory=list)
    _pages_used: int = 0

    def take(self, fetched: Fetched, state: State) -> State | None:
        """Take what is new of a page, up to the limit; the state to go on with, None when nothing is left."""
        page = fetched.result
        assert isinstance(page, Page), "a collect-until-N endpoint answers with pages"
        before = len(self.records)
        place = min(self.skip, len(page.records))
        while place < len(page.records) and self._take(page.records[place]):
            place += 1
        self.skip = 0
        self.pages += 1
        self._pages_used += len(self.records) > before
        self._fetched.append(fetched)
        return page.next if place == len(page.records) else {**state, _SKIP: place}

    def _take(self, record: Record) -> bool:
        """Keep a record, or pass over one that came before: lists move while they are read. False: there is no room."""
        id_ = record.get("id")
        if id_ is not None and id_ in self._seen:
            return True
        if len(self.records) == self.limit:
            return False
        self._seen.add(id_)
        self.records.append(record)
        return True

    @property
    def body_bytes(self) -> int:
        """How long the pages were so far."""
        return sum(fetched.body_bytes for fetched in self._fetched)

    def answer(
        self,
        following: State | None,
        ended: str = "",
        *,
        whole: bool = True,
        failure: UpstreamError | LimitError | None = None,
    ) -> Fetched:
        """The walk as one page; `ended` says why there is less of it than was asked for."""
        pages = [fetched.result for fetched in self._fetched if isinstance(fetched.result, Page)]
        warnings = [warning for page in pages for warning in page.warnings]
        first = self._fetched[0]
        return Fetched(
            Page(self.records, next=following, total=pages[0].total, warnings=tuple(warnings)),
            sum(fetched.took_s for fetched in self._fetched),
            first.source,
            first.rung_index,
            pages_used=self._pages_used,
            whole=whole,
            shortfall=ended and f"{len(self.records)} of {self.limit} items were collected: {ended}",
            failure=failure,
            body_bytes=self.body_bytes,
            bodies=tuple(body for fetched in self._fetched for body in fetched.bodies),
        )
