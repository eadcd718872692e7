"""Discover as a job kind: pages of searches and reads of accounts, and their results (decisions 19)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

import orjson
import trio

from events.log.log import EventLog
from scheduler.jobs import job_rows
from scheduler.jobs.discover import run_rows
from scheduler.jobs.discover.drafts import RowDraft, drafts_of, is_past, row_key, store_drafts, stored_drafts
from scheduler.jobs.discover.merging import Merge
from scheduler.jobs.discover.planning import (
    PAGES_MAX,
    AccountRead,
    LegPage,
    PageRest,
    SearchWave,
    price_of,
    read_step,
    share_of_rows,
)
from scheduler.jobs.discover.records import DiscoverLeg, DiscoverRecord, DiscoverRow, Sighting
from scheduler.jobs.discover.run_events import progressed, settled
from scheduler.jobs.discover.spec import DiscoverSpec, PlannedRead, PlannedSearch, spec_of
from scheduler.jobs.discover.waiting import RunWaits
from scheduler.jobs.holds import patiently
from scheduler.jobs.records import JobKind, JobRecord, JobStep, Outcome, Stop, Wave
from scheduler.recipes import Gathered, GatheringFailed, RecipeInvalid, Recipes
from storage.store import Store, Tx

CALL_S: Final = 30.0
DRAFTED_AT_ONCE: Final = 10
"""How many rows of a page are built between two checkpoints. Building that many takes about 0.3 ms."""
_ABSENT: Final = "RESOURCE_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of a leg, or the rest of such a page. `state` is the start of the next page, as JSON."""

    drafts: Sequence[RowDraft]
    rows: int
    state: str | None


@dataclass(frozen=True, slots=True)
class _Account:
    """The result of reading an account's own page. `record` is None if the account does not exist."""

    row_id: str
    key: str = ""
    record: Mapping[str, Any] | None = None


class DiscoverSteps(JobKind):
    """The job kind of discover runs."""

    at_once: ClassVar[int] = 4

    def __init__(self, store: Store, recipes: Recipes, feed: EventLog) -> None:
        self._store = store
        self._recipes = recipes
        self._feed = feed
        self.waits = RunWaits(store)
        """The requests that wait for runs to settle."""

    def price_of(self, job: JobRecord, step: JobStep) -> int:
        """Return the price of a page, or of reading an account."""
        return price_of(spec_of(job.spec), read_step(step.name))

    def next_wave(self, job: JobRecord) -> Wave:  # noqa: ARG002 - required by the protocol
        """Return the next wave: the accounts that the last wave found, and the next pages."""
        return SearchWave()

    async def perform(self, job: JobRecord, step: JobStep) -> Outcome:
        """Read a page of a search, the rest of a page, or an account. A full run reads no more pages."""
        spec, planned = spec_of(job.spec), read_step(step.name)
        if isinstance(planned, AccountRead):
            row = await self._store.read(partial(run_rows.read_row, run_id=job.id, row_id=planned.row_id))
            return await self._read_account(job.account_id, spec.profiles[planned.platform], row)
        run, leg = await self._store.read(partial(_run_and_leg, run_id=job.id, number=planned.leg))
        if run.is_full or leg.status != "pending":
            return Outcome("empty")
        if isinstance(planned, PageRest):
            return Outcome("done", kept_value=_Page(await _listed(stored_drafts(leg.rest)), 0, leg.state))
        return await self._read_page(job.account_id, spec, planned, leg)

    async def _read_page(self, account_id: str, spec: DiscoverSpec, planned: LegPage, leg: DiscoverLeg) -> Outcome:
        keyword, search = spec.leg(planned.leg)
        state = None if leg.state is None else orjson.loads(leg.state)
        gathered = await self._gather(account_id, search.id, spec.values(keyword, search), cursor=state)
        if isinstance(gathered, Outcome):
            return gathered
        items = gathered.data["items"]
        drafts = await _drafts_of(spec, search, items, before=leg.rows_found)
        goes_on = gathered.next is not None and planned.page < PAGES_MAX and not is_past(spec, search, items)
        following = orjson.dumps(gathered.next).decode() if goes_on else None
        found = [AccountRead(search.platform, one.row_id).name for one in _incomplete_accounts(spec, search, drafts)]
        if following is not None:
            found.append(LegPage(planned.leg, planned.page + 1).name)
        kept_value = _Page(drafts, len(items), following)
        return Outcome("done", None, gathered.used_credits, found=tuple(found), kept_value=kept_value)

    async def _read_account(self, account_id: str, read: PlannedRead, row: DiscoverRow | None) -> Outcome:
        if row is None or row.is_gone:
            return Outcome("empty")
        handle = run_rows.record_of(row)["author"]["username"]
        gathered = await self._gather(account_id, read.id, {read.param: handle})
        if isinstance(gathered, Outcome):
            return replace(gathered, kept_value=_Account(row.row_id)) if gathered.status == "empty" else gathered
        record = {name: gathered.data.get(name) for name in ("author", "computed")}
        kept_value = _Account(row.row_id, row_key(row.platform, record["author"]), record)
        return Outcome("done", None, gathered.used_credits, kept_value=kept_value)

    async def _gather(
        self, account_id: str, id_: str, values: Mapping[str, Any], *, cursor: Mapping[str, Any] | None = None
    ) -> Gathered | Outcome:
        """Call an endpoint for the price of one page. Retry if its source asks for a pause.

        Return an outcome if the call fails.
        """
        try:
            recipe = self._recipes.read(id_, dict(values))
            gather = partial(self._recipes.gather, recipe, recipe.credits_least, timeout_s=CALL_S)
            return await patiently(partial(gather, account_id=account_id, cursor=cursor))
        except RecipeInvalid as exc:
            return Outcome("failed", error=exc.reason or "INVALID_REQUEST")
        except GatheringFailed as exc:
            code = next((str(leg.get("error")) for leg in exc.legs), "UPSTREAM_ERROR")
            return Outcome("empty" if code == _ABSENT else "failed", None, exc.used_credits, error=code)

    def keep(self, tx: Tx, job: JobRecord, step: JobStep, outcome: Outcome, *, at: float) -> None:
        """Store the rows of a page or an account, the leg's state, and a progress event if another tenth is complete.

        A page that changes no row is free. If a page has more rows than its share, another step adds the rest.
        """
        run, planned = run_rows.the_run(tx, job.id), read_step(step.name)
        merge, now = Merge(run), job_rows.read_job(tx, job.id)
        assert now is not None, "the job is locked"
        if isinstance(outcome.kept_value, _Account):
            _keep_account(tx, merge, outcome.kept_value)
        elif not isinstance(planned, AccountRead):
            share = share_of_rows(run.max_rows - run.rows_kept, now.pending + 1)
            charged = _keep_page(tx, merge, spec_of(job.spec), planned, outcome, share=share, at=at)
            if charged < outcome.credits_used:
                job_rows.free_step(tx, job, step, outcome.credits_used)
                now = replace(now, used_credits=now.used_credits - outcome.credits_used)
            if merge.has_rest:
                turn = planned.turn if isinstance(planned, PageRest) else 0
                rest = PageRest(planned.leg, planned.page, turn + 1)
                job_rows.add_step(tx, now, JobStep(now.planned + 1, step.wave, rest.name))
        run_rows.save_rows(tx, merge.rows.values())
        told, facts = progressed(now, merge.merged())
        run_rows.save_run(tx, told)
        self._feed.append(tx, facts)

    def verdict(self, tx: Tx, job: JobRecord, *, has_credits: bool) -> Stop:
        """Return how a run ends, depending on its legs.

        With too few credits the run is paused: either its own limit is reached, or the account's balance is used up.
        """
        run = run_rows.the_run(tx, job.id)
        if not has_credits:
            is_bound = job.held_credits - job.returned_credits >= run.max_credits
            return Stop("paused", "max_credits" if is_bound else "insufficient_credits")
        because = "max_rows" if run.is_cut else None
        if not run.legs_failed:
            return Stop("completed", because)
        return Stop("partial", because) if run.legs_done or run.legs_empty else Stop("failed", "upstreams_down")

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: ARG002 - required by the protocol
        """Publish the event for the end or the pause of a run."""
        run = run_rows.the_run(tx, job.id)
        told, facts = settled(job, replace(run, version=run.version + 1))
        run_rows.save_run(tx, told)
        self._feed.append(tx, facts)
        tx.on_commit(partial(self.waits.publish, job.id))


async def _drafts_of(
    spec: DiscoverSpec, search: PlannedSearch, items: Sequence[Mapping[str, Any]], *, before: int
) -> list[RowDraft]:
    """Return the rows of a page, without duplicates."""
    found: dict[str, RowDraft] = {}
    for begin in range(0, len(items), DRAFTED_AT_ONCE):
        some = items[begin : begin + DRAFTED_AT_ONCE]
        for draft in await _listed(drafts_of(spec, search, some, before=before + begin)):
            found.setdefault(draft.key, draft)
    return list(found.values())


async def _listed(drafts: Iterator[RowDraft]) -> list[RowDraft]:
    """Return all of these drafts as a list, with a checkpoint after every few."""
    found = list[RowDraft]()
    while some := list(islice(drafts, DRAFTED_AT_ONCE)):
        found += some
        await trio.lowlevel.checkpoint()
    return found


def _run_and_leg(tx: Tx, run_id: str, number: int) -> tuple[DiscoverRecord, DiscoverLeg]:
    return run_rows.the_run(tx, run_id), run_rows.read_leg(tx, run_id, number)


def _incomplete_accounts(spec: DiscoverSpec, search: PlannedSearch, drafts: Sequence[RowDraft]) -> list[RowDraft]:
    """Return the accounts of a page whose own pages have more details."""
    if search.platform not in spec.profiles:
        return []
    return [one for one in drafts if not one.is_known_well and one.record["author"]["username"]]


def _keep_page(
    tx: Tx, merge: Merge, spec: DiscoverSpec, planned: LegPage | PageRest, outcome: Outcome, *, share: int, at: float
) -> int:
    """Store a page with at most `share` new rows. Return its price, which is 0 if it changes no row."""
    leg = run_rows.read_leg(tx, merge.run.run_id, planned.leg)
    if leg.status != "pending":  # the previous page, which planned this one, has already filled the run
        return 0
    page, charged = outcome.kept_value, outcome.credits_used
    if isinstance(page, _Page):
        keyword, search = spec.leg(planned.leg)
        keys, ids = [one.key for one in page.drafts], [one.row_id for one in page.drafts]
        known = run_rows.find_rows(tx, leg.run_id, keys, ids)
        place = Sighting(search.platform, search.id, keyword, 0)
        added, rest = merge.take(page.drafts, known, place, share=share, at=at)
        merge.has_rest = bool(rest) and not merge.is_full
        merge.is_cut = merge.is_cut or (bool(rest) and merge.is_full)
        charged = charged if merge.rows else 0
        if merge.run.schedule_id is not None:
            new = run_rows.see(tx, merge.run.schedule_id, leg.run_id, [one.row_id for one in added])
            merge.mark(new, added)
        leg = replace(
            leg,
            pages=leg.pages + int(isinstance(planned, LegPage)),
            rows_found=leg.rows_found + page.rows,
            state=page.state,
            rest=store_drafts(rest) if merge.has_rest else None,
        )
    leg = replace(leg, credits_used=leg.credits_used + charged)
    leg = _judged_leg(leg, outcome, is_full=merge.is_full)
    if merge.is_full and (not isinstance(page, _Page) or page.state is not None):
        merge.is_cut = True
    run_rows.save_leg(tx, leg)
    merge.end_page(leg.status)
    return charged


def _judged_leg(leg: DiscoverLeg, outcome: Outcome, *, is_full: bool) -> DiscoverLeg:
    """Return a leg after one of its pages: still pending, or ended."""
    if outcome.status == "failed":
        return replace(leg, status="failed", error=outcome.error)
    is_passed_over = outcome.kept_value is None and outcome.error is None
    has_more = leg.state is not None or leg.rest is not None
    if (is_passed_over and not leg.pages) or (has_more and not is_full and not is_passed_over):
        return leg
    return replace(leg, status="done" if leg.rows_found else "empty", state=None, rest=None)


def _keep_account(tx: Tx, merge: Merge, account: _Account) -> None:
    row = run_rows.read_row(tx, merge.run.run_id, account.row_id)
    if row is None or row.is_gone:
        return
    if account.record is None:
        merge.drop(row)
        return
    others = run_rows.find_rows(tx, row.run_id, [account.key], [account.row_id])
    other = next((one for one in others if one.key == account.key and not one.is_gone), None)
    merge.enrich(row, account.key, account.record, other)
