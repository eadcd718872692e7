"""Batches: the ceiling of all rows is reserved once, each row settles by itself, and the rest goes back (decisions 17).

A batch is one charge. Its rows are read in legs side by side; a leg that fails takes its own rows with it and no other.
Rows that are not there when the time is over are deferred. Only rows with a record cost something, and those whose page
was too costly, so that what they cost together is what the batch cost. A row that repeats an earlier one costs nothing.
A client that hangs up pays for the rows that it
was sent, one that was sent none for nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import trio

from billing.charges.batch_rows import Charge, ChargeRequest
from billing.keys.cache import Key
from events.instants import iso
from gateway.calls.charged import run_charged
from gateway.calls.execute import BilledCalls
from gateway.calls.parts import KeyParts
from gateway.calls.request import CallResult
from gateway.calls.shaping import error_of
from gateway.http import envelope
from limits.errors import LimitError
from limits.idempotency import Claim
from upstreams.composites.batches import Batch, BatchLeg, Row, ceiling, part_of, plan_each, plan_legs, repeats_of
from upstreams.fetching.fetch import fetch, plan
from upstreams.fetching.site import Site
from upstreams.model import archetypes
from upstreams.model.archetypes import Record
from upstreams.model.errors import InvalidArgument, NotFound, PageTooCostly, UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import CACHE, Fetched, Single

_LEGS_MAX: Final = 16
"""Legs of one batch that run at the same time."""
_TIME_SHARE: Final = 0.75
"""The share of a request's time after which the rows that are not there are deferred."""
Status = Literal["ok", "not_found", "unsupported", "failed", "deferred"]
Publish = Callable[[Record], Awaitable[bool]]
"""Sends a settled row; False: nobody takes another."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One batch: whose key asks for which rows, under which request id."""

    key: Key
    batch: Batch
    rows: Sequence[Row]
    request_id: str
    claim: Claim | None = None
    include: tuple[str, ...] = ()
    publish: Publish | None = None


@dataclass(slots=True)
class _LegRun:
    """A leg that was begun, and how it went; neither an answer nor a failure: the time was over."""

    leg: BatchLeg
    started: float
    rows: int
    """Its rows, with those that repeat them."""
    fetched: Fetched | None = None
    failure: UpstreamError | LimitError | None = None
    took_s: float = 0.0
    credits_used: int = 0

    def records(self) -> dict[int, Record]:
        """The records that it brought, by the places of their rows."""
        if self.fetched is None:
            return {}
        assert isinstance(self.fetched.result, Single), "rows are read by endpoints of one record"
        record, leg = self.fetched.result.record, self.leg
        if leg.names:
            return {place: record[name] for place, name in zip(leg.places, leg.names, strict=True) if name in record}
        return {} if leg.endpoint.archetype.is_empty(record) else {leg.places[0]: record}

    def record(self) -> Record:
        """The leg as the answer tells it."""
        fetched, slug = self.fetched, self.leg.site.platform.slug
        rung_index = 0 if fetched is None else fetched.rung_index
        leg = archetypes.leg(
            endpoint=f"{slug}/{self.leg.resource}",
            source=str(getattr(self.failure, "source", slug)) if fetched is None else fetched.source,
            rung="fallback" if rung_index else "primary",
            rung_index=rung_index,
            status="ok" if fetched else _missing(self.failure)[0] if self.failure else "deferred",
            credits_used=self.credits_used,
            latency_ms=round(self.took_s * 1000),
            error=None if self.failure is None else error_of(self.failure),
        )
        return {**leg, "rows": self.rows}


@dataclass(slots=True)
class _Run:
    """The state of a batch that runs; its legs change it."""

    request: BatchRequest
    results: list[Record | None]
    parts: KeyParts
    """Reads rows with whoever wants the same now; none comes from the cache."""
    repeats: Mapping[int, Sequence[int]]
    """The places of the rows that repeat an earlier one, by its place."""
    legs: list[_LegRun] = field(default_factory=list)
    turn: trio.Lock = field(default_factory=trio.Lock)
    """Held while a row is sent: events must not mix."""
    sent_credits: int = 0
    """The price of the rows that a client was sent."""
    is_gone: bool = False


class Batches:
    """Runs batches over a node's sites."""

    def __init__(self, calls: BilledCalls, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._calls = calls
        self._clock = calls.clock
        self._now = calls.now

    async def run(self, request: BatchRequest) -> CallResult:
        """The results of all rows, billed as one charge.

        Raises:
            InsufficientCredits, KeyBudgetReached, KeyUnusable, ClaimRefused, StorageError: nothing was charged.
            CallFailed: something went wrong here; all is refunded as far as the store could.
        """
        key, batch, arrived = request.key, request.batch, self._clock()
        held = ceiling(batch, request.rows)
        wanted = ChargeRequest(request.request_id, key.account_id, key.id, held, batch.platform, batch.path)
        parts = self._calls.parts.of_key(key.id, refresh=True)
        run = _Run(request, [None] * len(request.rows), parts, repeats_of(request.rows))

        async def work(charge: Charge) -> tuple[int, bytes]:
            await self._settle_rows(run, arrived)
            return self._answer(run, charge)

        return await run_charged(self._calls, wanted, request.claim, work, spent=lambda: run.sent_credits)

    async def _settle_rows(self, run: _Run, arrived: float) -> None:
        """Read all rows, as far as the time goes."""
        for place, row in enumerate(run.request.rows):
            if row.destination is None:
                await self._settle(run, place, *_missing(row.problem))
        legs = plan_legs(run.request.rows, self._sites)[::-1]
        end_at = arrived + self._calls.timeout_s * _TIME_SHARE

        async def work() -> None:
            while legs and not run.is_gone:
                await self._read(run, legs, end_at)

        with trio.move_on_at(end_at):
            async with trio.open_nursery() as nursery:
                for _ in range(min(len(legs), _LEGS_MAX)):
                    nursery.start_soon(work)
        for place, result in enumerate(run.results):
            if result is None:
                await self._settle(run, place, "deferred")

    async def _read(self, run: _Run, legs: list[BatchLeg], end_at: float) -> None:
        """Read the rows of the last leg; where one value spoils a call for many, each row gets a leg of its own."""
        leg = legs.pop()
        rows = sum(1 + len(run.repeats[place]) for place in leg.places)
        began = _LegRun(leg, self._clock(), rows)
        run.legs.append(began)
        site = leg.site
        try:
            args = Args(leg.values, None, site.credentials, self._now(), run.request.key.account_id)
            planned = plan(site, leg.endpoint, args)
            if leg.names:
                async with run.parts.gate:
                    began.fetched = await fetch(planned, end_at)
            else:
                began.fetched = await run.parts.read(planned, args, end_at)
        except (UpstreamError, LimitError) as exc:
            began.failure = exc
        finally:
            began.took_s = self._clock() - began.started
        found, batch = began.records(), run.request.batch
        if leg.names and batch.rows_a_cost == 1 and isinstance(began.failure, NotFound | InvalidArgument):
            legs += plan_each(run.request.rows, self._sites, leg.places)
            return
        is_costly = isinstance(began.failure, PageTooCostly)
        is_shared = began.fetched is not None and began.fetched.source == CACHE  # another request pays for the call
        shares = _shares(batch, [not is_shared and (is_costly or place in found) for place in leg.places])
        for place, share in zip(leg.places, shares, strict=True):
            began.credits_used += share
            for one in (place, *run.repeats[place]):
                credits_used = share if one == place else 0
                if place in found:
                    record = part_of(batch, found[place], run.request.include)
                    await self._settle(run, one, "ok", record=record, credits_used=credits_used)
                else:
                    await self._settle(run, one, *_missing(began.failure), credits_used=credits_used)

    async def _settle(
        self,
        run: _Run,
        place: int,
        status: Status,
        reason: str | None = None,
        message: str | None = None,
        *,
        record: Record | None = None,
        credits_used: int = 0,
    ) -> None:
        """Keep a row's result, and send it where rows are streamed."""
        row = run.request.rows[place]
        result = run.results[place] = {
            "input": row.item.shown,
            "platform": None if row.destination is None else row.destination.platform.slug,
            "status": status,
            "record": record,
            "ext": {key: text for key, text in (("reason", reason), ("message", message)) if text is not None},
            "credits_used": credits_used,
            "fetched_at": iso(self._now()) if record is not None else None,
        }
        publish = run.request.publish
        if publish is None or run.is_gone:
            return
        async with run.turn:
            run.sent_credits += credits_used  # before it is sent: who has it has had it
            run.is_gone = not await publish({"index": place, **result})

    def _answer(self, run: _Run, charge: Charge) -> tuple[int, bytes]:
        """How much the rows used of the charge, and the encoded fragment."""
        results = [one for one in run.results if one is not None]
        used = run.sent_credits if run.is_gone else sum(one["credits_used"] for one in results)
        counts: dict[str, int] = {name: sum(one["status"] == name for one in results) for name in _STATUSES}
        summary = {
            "total": len(results),
            **counts,
            "coverage": round((counts["ok"] + counts["not_found"]) / len(results), 4),
            "credits_charged": used,
            "credits_refunded": charge.credits - used,
        }
        data = {"results": results, "summary": summary, "legs": [one.record() for one in run.legs]}
        batch = run.request.batch
        return used, envelope.fragment(batch.platform, batch.path, data)


_STATUSES: Final[tuple[Status, ...]] = ("ok", "not_found", "unsupported", "failed", "deferred")


def _missing(failure: Exception | None) -> tuple[Status, str | None, str | None]:
    """The status of a row that has no record, the reason as a code, and what is said of it."""
    if failure is None:
        return "not_found", None, None
    if isinstance(failure, NotFound):
        return "not_found", failure.reason, None
    if isinstance(failure, InvalidArgument):
        return "unsupported", failure.reason, failure.problem
    return "failed", error_of(failure), None


def _shares(batch: Batch, came: Sequence[bool]) -> list[int]:
    """The price of each row of a leg: of those that came, the earlier ones have the remainder of what they share."""
    ok = sum(came)
    if batch.rows_a_cost == 1:
        return [batch.cost_credits if one else 0 for one in came]
    shares, nth = [], 0
    for one in came:
        shares.append((batch.cost_credits + ok - 1 - nth) // ok if one else 0)
        nth += one
    return shares
