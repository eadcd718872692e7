"""Collects items from the pages of an endpoint until it has `limit` of them (spec 4.3, rule 7).

All pages of a walk have the same size, at most `Collect.per_page`, because upstreams with page numbers count in units
of that size. If the last page has more items than needed, the cursor names that page and how many of its items were
used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from limits.errors import LimitError
from upstreams.fetching.fetch import fetch, plan, state_of
from upstreams.fetching.planned import OnLeg, PartReader, Plan, Planned, Reach, Walked, WantsMore, never
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.endpoint import Collect, Endpoint
from upstreams.model.errors import UpstreamError
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched, Page
from upstreams.transport.http import BODY_BYTES_MAX

_UNSIZED = Collect(per_page=10_000, spare_pages=19)
"""The walk settings for a list whose endpoint has no `limit`. Page sizes are unknown, and one page may have all items.
"""

_SKIP = "skip"
"""The key in a cursor's state for the number of items of its page that were already returned."""


class Walk(NamedTuple):
    """A walk over pages, as a `Planned`."""

    first: Plan
    limit: int
    skip: int
    reach: Reach

    def run(
        self,
        pages_max: int,
        deadline_at: float,
        *,
        wants_more: WantsMore | None = None,
        stopping: Callable[[], bool] = never,
        parts: PartReader | None = None,  # noqa: ARG002 - the pages of a list have no parts
        on_leg: OnLeg | None = None,  # noqa: ARG002 - as above
    ) -> Awaitable[Fetched]:
        """See `walk`."""
        return walk(self, pages_max, deadline_at, wants_more, stopping=stopping)

    @property
    def refusal(self) -> UpstreamError | LimitError | None:
        """The error that the first page would raise without any call."""
        return self.first.refusal

    def dismiss(self) -> None:
        """Close the walk without sending anything."""
        self.first.dismiss()


def begin(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> Planned:
    """Run an endpoint's read up to its first call; `keeps` as in `plan`.

    Raises:
        InvalidArgument, InvalidCursor: No call could serve the values. The request is free.
    """
    return (plan if endpoint.collect is None else plan_walk)(site, endpoint, args, keeps=keeps)


def as_collecting(endpoint: Endpoint) -> Endpoint:
    """Return a list endpoint as one that collects items, using the largest pages that the endpoint offers."""
    if endpoint.collect is not None:
        return endpoint
    largest = next((param.maximum for param in endpoint.params if param.name == "limit"), None)
    return replace(endpoint, collect=_UNSIZED if largest is None else Collect(largest))


def plan_walk(site: Site, endpoint: Endpoint, args: Args, *, keeps: bool = False) -> Walk:
    """Run the first page's read up to its first call; `keeps` as in `plan`.

    Raises:
        InvalidArgument, InvalidCursor: No call could serve the values. The request is free.
    """
    collect = endpoint.collect
    assert collect is not None, "only a collect-until-N endpoint is walked"
    limit, per_page = args.number("limit"), min(args.number("limit"), collect.per_page)
    skip = args.position(_SKIP, 0)
    state = {name: value for name, value in (args.cursor or {}).items() if name != _SKIP}
    # A cursor with an empty state is not a fresh start: it leads back to the first page of the source that issued it.
    cursor = None if args.cursor is None else state
    sized = replace(args, values={**args.values, "limit": per_page}, cursor=cursor)
    planned = plan(site, endpoint, sized, keeps=keeps)
    pages_needed = -(-(min(skip, per_page - 1) + limit) // per_page)
    return Walk(planned, limit, skip, Reach(pages_needed, pages_needed + collect.spare_pages))


async def walk(
    begun: Walk,
    pages_max: int,
    deadline_at: float,
    wants_more: WantsMore | None = None,
    *,
    stopping: Callable[[], bool] = never,
) -> Fetched:
    """Collect up to `limit` items from up to `pages_max` pages; `wants_more` and `stopping` can end the walk earlier.

    A page that fails also ends the walk. The result then has the items collected so far and a note about the failure,
    and its cursor leads to the failed page.

    Raises:
        UpstreamError, LimitError: As for `fetch`, if nothing was collected yet.
    """
    collected, planned = _Collected(begun.limit, begun.skip), begun.first
    while True:
        try:
            fetched = await fetch(planned, deadline_at)
        except (UpstreamError, LimitError) as failure:
            if not collected.records:
                raise
            why = f"page {collected.pages + 1} could not be read ({failure})"
            return collected.answer(planned.args.cursor, why, failure=failure)
        following = collected.take(fetched, state_of(planned, fetched))
        is_wanted = wants_more is None or await wants_more(Walked(collected.pages, len(collected.records), begun.limit))
        may_go_on = is_wanted and not stopping()
        if following is None or len(collected.records) >= begun.limit:
            return collected.answer(following)
        if not may_go_on:
            return collected.answer(following, "the walk was stopped early", whole=False)
        if collected.body_bytes > BODY_BYTES_MAX:
            return collected.answer(following, "the pages are too long for one response")
        if collected.pages >= pages_max:
            return _ended_by_limit(collected, following, begun, pages_max)
        args, keeps = replace(planned.args, cursor=following), planned.kept is not None
        planned = plan(planned.site, planned.endpoint, args, keeps=keeps)


def _ended_by_limit(collected: _Collected, following: State, begun: Walk, pages_max: int) -> Fetched:
    """Return the result of a walk that read all pages it was allowed to read.

    The available credits may limit their number.
    """
    if pages_max >= begun.reach.pages_max:
        return collected.answer(following)
    return collected.answer(following, f"the credits ran out after page {pages_max}", whole=False)


@dataclass(slots=True)
class _Collected:
    """The rows that a walk has collected so far. Only `take` modifies them."""

    limit: int
    skip: int
    records: list[Record] = field(default_factory=list)
    pages: int = 0
    _seen: set[object] = field(default_factory=set)
    _fetched: list[Fetched] = field(default_factory=list)
    _pages_used: int = 0

    def take(self, fetched: Fetched, state: State) -> State | None:
        """Add the new rows of a page, up to the limit.

        Return the state where the walk continues, or None at the end of the list.
        """
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
        """Add a record unless it was already collected. Lists shift while they are read, which repeats records.

        Return False if the walk already has all the records that it needs.
        """
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
        """The total length of the pages so far, in bytes."""
        return sum(fetched.body_bytes for fetched in self._fetched)

    def answer(
        self,
        following: State | None,
        ended: str = "",
        *,
        whole: bool = True,
        failure: UpstreamError | LimitError | None = None,
    ) -> Fetched:
        """Return the walk as one page. If the page has fewer items than requested, `ended` is the reason."""
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
