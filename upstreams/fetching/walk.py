"""Collects items from the pages of an endpoint until it has `limit` of them (spec 4.3, rule 7).

All pages of a walk have the same size, at most `Collect.per_page`, because upstreams with page numbers count in units
of that size. If the last page has more items than needed, the cursor names that page and how many of its items were
used.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field, replace

import trio

from limits.errors import LimitError
from upstreams.fetching.fetch import fetch, state_of
from upstreams.fetching.plan import SKIP, Conduct, Plan, Walked, WalkTerms, plan
from upstreams.model.archetypes import Record
from upstreams.model.errors import UpstreamError
from upstreams.model.params import State
from upstreams.model.steps import Fetched, Page
from upstreams.transport.http import BODY_BYTES_MAX

_PROCESSING_SHARE = 0.1
"""The share of a composite's time that is reserved for processing after all parts are read."""
_TIMEOUT = "timeout"
"""The parameter that limits a read's time in milliseconds, for endpoints that have this parameter."""


def run_plan(planned: Plan, conduct: Conduct, deadline_at: float) -> Awaitable[Fetched]:
    """Run a plan: read up to `conduct.pages_max` pages by `deadline_at` on Trio's clock.

    `Fetched.pages_used` is the number of pages to bill.

    Raises:
        UpstreamError, LimitError: The read has no usable result.
    """
    if planned.walk is not None:
        return _walk(planned, planned.walk, conduct, deadline_at)
    if _TIMEOUT in planned.args.values:
        deadline_at = min(deadline_at, trio.current_time() + planned.args.number(_TIMEOUT) / 1_000)
    if planned.endpoint.archetype.has_legs:
        deadline_at -= (deadline_at - trio.current_time()) * _PROCESSING_SHARE
    return fetch(planned, deadline_at, conduct)


async def _walk(planned: Plan, terms: WalkTerms, conduct: Conduct, deadline_at: float) -> Fetched:
    """Collect up to `terms.limit` items from up to `conduct.pages_max` pages; `conduct` can end the walk earlier.

    A page that fails also ends the walk. The result then has the items collected so far and a note about the failure,
    and its cursor leads to the failed page.

    Raises:
        UpstreamError, LimitError: As for `fetch`, if nothing was collected yet.
    """
    collected, wants_more, pages_max = _Collected(terms.limit, terms.skip), conduct.wants_more, conduct.pages_max
    while True:
        try:
            fetched = await fetch(planned, deadline_at)
        except (UpstreamError, LimitError) as failure:
            if not collected.records:
                raise
            why = f"page {collected.pages + 1} could not be read ({failure})"
            return collected.answer(planned.args.cursor, why, failure=failure)
        following = collected.take(fetched, state_of(planned, fetched))
        is_wanted = wants_more is None or await wants_more(Walked(collected.pages, len(collected.records), terms.limit))
        may_go_on = is_wanted and not conduct.stopping()
        if following is None or len(collected.records) >= terms.limit:
            return collected.answer(following)
        if not may_go_on:
            return collected.answer(following, "the walk was stopped early", whole=False)
        if collected.body_bytes > BODY_BYTES_MAX:
            return collected.answer(following, "the pages are too long for one response")
        if collected.pages >= pages_max:
            return _ended_by_limit(collected, following, terms, pages_max)
        args, keeps = replace(planned.args, cursor=following), planned.kept is not None
        planned = plan(planned.site, planned.endpoint, args, keeps=keeps)


def _ended_by_limit(collected: _Collected, following: State, terms: WalkTerms, pages_max: int) -> Fetched:
    """Return the result of a walk that read all pages it was allowed to read.

    The available credits may limit their number.
    """
    if pages_max >= terms.reach.pages_max:
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
        return page.next if place == len(page.records) else {**state, SKIP: place}

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
            first.first_rung,
            pages_used=self._pages_used,
            whole=whole,
            shortfall=ended and f"{len(self.records)} of {self.limit} items were collected: {ended}",
            failure=failure,
            body_bytes=self.body_bytes,
            bodies=tuple(body for fetched in self._fetched for body in fetched.bodies),
        )
