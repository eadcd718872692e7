"""Batches: reserve the maximum price of all rows once, settle row by row, and refund the rest (decisions 17).

A batch is one charge. Its rows are read in concurrent legs. A failed leg affects only its own rows. Rows that are not
ready in time are deferred. Only rows with a record, or with a page that was too costly, cost credits, and the batch
costs the sum of its rows. A row that repeats an earlier row is free. If the client disconnects, only the rows that were
already sent are billed.
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
from gateway.calls.parts import KeyPartReader
from gateway.calls.request import CallResult
from gateway.calls.shaping import error_of
from gateway.http import envelope
from limits.errors import LimitError
from limits.idempotency import Claim
from upstreams.composites.batches import Batch, BatchLeg, Row, ceiling, part_of, plan_each, plan_legs, repeats_of
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import ALONE, plan
from upstreams.fetching.site import Site
from upstreams.model import archetypes
from upstreams.model.archetypes import Record
from upstreams.model.errors import InvalidArgument, NotFound, PageTooCostly, UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import CACHE, Fetched, Single

_LEGS_MAX: Final = 16
"""Maximum number of concurrent legs of one batch."""
_TIME_SHARE: Final = 0.75
"""The share of the request's time after which unfinished rows are deferred."""
Status = Literal["ok", "not_found", "unsupported", "failed", "deferred"]
Publish = Callable[[Record], Awaitable[bool]]
"""Sends a finished row. Returns False if the client accepts no more rows."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One batch request: the key, the rows and the request id."""

    key: Key
    batch: Batch
    rows: Sequence[Row]
    request_id: str
    claim: Claim | None = None
    include: tuple[str, ...] = ()
    publish: Publish | None = None


@dataclass(slots=True)
class _LegRun:
    """A started leg and its outcome. A leg with neither a response nor a failure ran out of time."""

    leg: BatchLeg
    started: float
    rows: int
    """The number of the leg's rows, including repeated rows."""
    fetched: Fetched | None = None
    failure: UpstreamError | LimitError | None = None
    took_s: float = 0.0
    credits_used: int = 0

    def records(self) -> dict[int, Record]:
        """Return the leg's records by the positions of their rows."""
        if self.fetched is None:
            return {}
        assert isinstance(self.fetched.result, Single), "endpoints of batches return single records"
        record, leg = self.fetched.result.record, self.leg
        if leg.names:
            return {place: record[name] for place, name in zip(leg.places, leg.names, strict=True) if name in record}
        return {} if leg.endpoint.archetype.is_empty(record) else {leg.places[0]: record}

    def record(self) -> Record:
        """Return the leg in the form that the response shows."""
        fetched, slug = self.fetched, self.leg.site.platform.slug
        place = 0 if fetched is None else fetched.place
        leg = archetypes.leg(
            endpoint=f"{slug}/{self.leg.resource}",
            source=str(getattr(self.failure, "source", slug)) if fetched is None else fetched.source,
            rung="fallback" if place else "primary",
            rung_index=place,
            status="ok" if fetched else _missing(self.failure)[0] if self.failure else "deferred",
            credits_used=self.credits_used,
            latency_ms=round(self.took_s * 1000),
            error=None if self.failure is None else error_of(self.failure),
        )
        return {**leg, "rows": self.rows}


@dataclass(slots=True)
class _Run:
    """The state of a running batch, which its legs modify."""

    request: BatchRequest
    results: list[Record | None]
    parts: KeyPartReader
    """Reads rows, sharing identical calls in progress. It does not use the cache."""
    repeats: Mapping[int, Sequence[int]]
    """The positions of repeated rows, by the position of the first such row."""
    legs: list[_LegRun] = field(default_factory=list)
    turn: trio.Lock = field(default_factory=trio.Lock)
    """A lock that is held while a row is sent, so that events do not interleave."""
    sent_credits: int = 0
    """The total price of the rows sent to the client."""
    is_gone: bool = False


class Batches:
    """Runs batches over a node's sites."""

    def __init__(self, calls: BilledCalls, sites: Mapping[str, Site]) -> None:
        self._sites = sites
        self._calls = calls
        self._clock = calls.clock
        self._now = calls.now

    async def run(self, request: BatchRequest) -> CallResult:
        """Return the results of all rows, billed as one charge.

        Raises:
            InsufficientCredits, KeyBudgetReached, KeyUnusable, ClaimRefused, StorageError: nothing was charged.
            CallFailed: an internal error occurred; the charge was refunded if the store was available.
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
        """Read all rows within the time available."""
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
        """Read the rows of the last leg in `legs`.

        If a single value makes a call for many rows fail, read each row in its own leg.
        """
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
                began.fetched = await run.parts.read(planned, args, end_at, ALONE)
        except (UpstreamError, LimitError) as exc:
            began.failure = exc
        finally:
            began.took_s = self._clock() - began.started
        found, batch = began.records(), run.request.batch
        if leg.names and batch.rows_a_cost == 1 and isinstance(began.failure, NotFound | InvalidArgument):
            legs += plan_each(run.request.rows, self._sites, leg.places)
            return
        is_costly = isinstance(began.failure, PageTooCostly)
        # Another request made this call and is billed for it.
        is_shared = began.fetched is not None and began.fetched.source == CACHE
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
        """Store a row's result, and send it if rows are streamed."""
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
            # Added before the row is sent, because a sent row is billed even if the client disconnects.
            run.sent_credits += credits_used
            run.is_gone = not await publish({"index": place, **result})

    def _answer(self, run: _Run, charge: Charge) -> tuple[int, bytes]:
        """Return the credits that the rows used, and the encoded fragment."""
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
    """Return the status of a row without a record, the reason code, and the message."""
    if failure is None:
        return "not_found", None, None
    if isinstance(failure, NotFound):
        return "not_found", failure.reason, None
    if isinstance(failure, InvalidArgument):
        return "unsupported", failure.reason, failure.problem
    return "failed", error_of(failure), None


def _shares(batch: Batch, is_billed: Sequence[bool]) -> list[int]:
    """Return the price of each row of a leg.

    Successful rows share the cost equally, and the first rows get the remainder.
    """
    ok = sum(is_billed)
    if batch.rows_a_cost == 1:
        return [batch.cost_credits if one else 0 for one in is_billed]
    shares, nth = [], 0
    for one in is_billed:
        shares.append((batch.cost_credits + ok - 1 - nth) // ok if one else 0)
        nth += one
    return shares
