"""Reads a monitor's past as series, exports, charts and backtests (spec 4.5).

A thousand runs of two hundred rows are millions of numbers. The store's readers return them in stored form, a few runs
at a time. They are decompressed and processed in the thread of long reads, so that other requests do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from events.instants import iso
from limits.fair_turns import FairTurns
from limits.long_reads import LongReads
from scheduler.monitors.history.chart import ChartPoint, chart_svg, points_of
from scheduler.monitors.history.export import CSV_HEADER, csv_lines, ndjson_lines
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.history.past_runs import (
    PastRun,
    RunNumbers,
    StoredNumbers,
    baseline_before,
    newest_runs,
    stored_numbers,
    unpacked_numbers,
)
from scheduler.monitors.history.timeseries import Chosen, Timeseries
from scheduler.monitors.metrics.alerts import Firing, Seen
from scheduler.monitors.metrics.alerts import backtest as judge_past
from scheduler.monitors.metrics.numbers import PAGE, Numbers
from scheduler.monitors.metrics.paths import suggest
from scheduler.monitors.metrics.rules import AlertRule
from scheduler.monitors.model.records import Monitor
from storage.store import Store, Tx

RUNS_A_READ: Final = 8
ALERTS_MAX: Final = 10_000


class Backtest(NamedTuple):
    """The alerts that rules would have fired on the first `runs` runs, oldest first, up to `ALERTS_MAX`."""

    runs: int
    fired: list[Firing]
    truncated: bool


class Pieces:
    """The text of an export, as an async iterator that reads a few runs at a time. `begin` sets `is_empty`."""

    def __init__(
        self,
        make: Callable[[Sequence[PastRun]], Awaitable[bytes]],
        runs: Sequence[PastRun],
        head: bytes,
    ) -> None:
        """`make` returns the text of the given runs."""
        self._make = make
        self._runs = runs
        self._ready = head
        self._next_run = 0
        self.is_empty = False
        """Whether there are runs but none of them has a number."""

    async def begin(self) -> None:
        """Read up to the first number."""
        first = await self._next()
        self.is_empty = bool(self._runs) and not first
        self._ready += first

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        piece, self._ready = self._ready, b""
        if piece := piece or await self._next():
            return piece
        raise StopAsyncIteration

    async def _next(self) -> bytes:
        """Return the text of the next runs that have numbers, or an empty text at the end."""
        text = b""
        while not text and self._next_run < len(self._runs):
            runs = self._runs[self._next_run : self._next_run + RUNS_A_READ]
            self._next_run += RUNS_A_READ
            text = await self._make(runs)
        return text


class Projections:
    """Reads the stored data of runs. Callers must have checked that the monitor belongs to the account."""

    def __init__(self, store: Store, reads: LongReads) -> None:
        self._store = store
        self._reads = reads
        self._backtests = FairTurns(1, spare=1)

    async def timeseries(self, monitor: Monitor, window: SlotSpan, chosen: Chosen) -> bytes:
        """Return the `data` of a timeseries as JSON."""
        runs, series = await self._newest(monitor, window), Timeseries(chosen)
        for some in _parts(runs):
            await self._reads.run(monitor.account_id, partial(_add, series, await self._stored(some)))
            if series.is_full:
                break
        newest = await self._stored(runs[:1])

        def encode() -> bytes:
            body = series.data(monitor.id, by_row=monitor.track is not None)
            return orjson.dumps({**body, **_missing(newest, chosen, body["metric_keys"])})

        return await self._reads.run(monitor.account_id, encode)

    async def chart(self, monitor: Monitor, window: SlotSpan, *, metric: str, row: str) -> str:
        """Return the chart of one metric."""
        oldest_first, points = (await self._newest(monitor, window))[::-1], list[ChartPoint]()
        for some in _parts(oldest_first):
            points += await self._reads.run(monitor.account_id, partial(_points, await self._stored(some), metric, row))
        title = metric if row == PAGE else f"{metric} of {row}"
        return await self._reads.run(monitor.account_id, lambda: chart_svg(f"{monitor.name}: {title}", points))

    async def export(self, monitor: Monitor, window: SlotSpan, *, as_csv: bool) -> Pieces:
        """Return the numbers of the newest runs in the window, oldest first.

        The first numbers are read before this returns.
        """
        runs = (await self._newest(monitor, window))[::-1]
        write = _csv if as_csv else _ndjson

        async def make(some: Sequence[PastRun]) -> bytes:
            stored = await self._store.read(partial(stored_numbers, runs=some, with_deltas=True))
            return await self._reads.run(monitor.account_id, lambda: write(unpacked_numbers(stored)))

        pieces = Pieces(make, runs, CSV_HEADER.encode() if as_csv else b"")
        await pieces.begin()
        return pieces

    async def backtest(self, monitor: Monitor, window: SlotSpan, rules: Sequence[AlertRule]) -> Backtest:
        """Return the alerts that rules would have fired.

        An account's backtests run one after another, and each reads a few runs at a time.
        """
        async with self._backtests.turn(monitor.account_id):
            runs, previous = await self._store.read(partial(_backtest_runs, monitor_id=monitor.id, window=window))
            seen: deque[Seen] = deque()
            by_row = monitor.track is not None
            firings = judge_past(rules, iter(seen.popleft, None), by_row=by_row, previous=previous)
            fired: list[Firing] = []
            place = alerts = 0
            for some in _parts(runs):
                stored = await self._stored(some)
                for firing in await self._reads.run(monitor.account_id, partial(_judged, stored, seen, firings)):
                    alerts += len(firing.alerts)
                    if alerts > ALERTS_MAX:
                        return Backtest(place, fired, truncated=True)
                    fired += [firing] if firing.alerts else []
                    place += 1
            return Backtest(len(runs), fired, truncated=False)

    async def _newest(self, monitor: Monitor, window: SlotSpan) -> list[PastRun]:
        return await self._store.read(lambda tx: newest_runs(tx, monitor.id, window))

    async def _stored(self, runs: Sequence[PastRun]) -> list[StoredNumbers]:
        return await self._store.read(partial(stored_numbers, runs=runs))


def shown_backtest(found: Backtest) -> dict[str, Any]:
    """Return a backtest as JSON."""
    fired = [
        {"run_id": run_id, "t": iso(at), "alerts": [alert.to_json() for alert in alerts]}
        for run_id, at, alerts in found.fired
    ]
    count = sum(len(firing.alerts) for firing in found.fired)
    return {
        "runs": found.runs,
        "runs_fired": len(fired),
        "alerts_fired": count,
        "truncated": found.truncated,
        "fired": fired,
    }


def _missing(newest: Sequence[StoredNumbers], chosen: Chosen, found: Sequence[str]) -> dict[str, list[str]]:
    """Return a warning for each requested metric that no run has, with a suggestion if a similar metric exists."""
    missing = [metric for metric in chosen.metrics or () if metric not in found]
    known = [
        metric
        for run in unpacked_numbers(newest if missing else ())
        for values in run.numbers.values()
        for metric in values
    ]
    near = {metric: suggest(metric, known) for metric in missing}
    warnings = [
        f"no run in this window has a number at {metric}" + (f"; did you mean {meant.path}?" if meant else "")
        for metric, meant in near.items()
    ]
    return {"_warnings": warnings} if warnings else {}


def _parts(runs: Sequence[PastRun]) -> Iterator[Sequence[PastRun]]:
    """Yield the runs, a few at a time."""
    for start in range(0, len(runs), RUNS_A_READ):
        yield runs[start : start + RUNS_A_READ]


def _add(series: Timeseries, stored: Sequence[StoredNumbers]) -> None:
    series.add(unpacked_numbers(stored))


def _points(stored: Sequence[StoredNumbers], metric: str, row: str) -> list[ChartPoint]:
    return list(points_of(unpacked_numbers(stored), metric, row))


def _csv(runs: Iterable[RunNumbers]) -> bytes:
    return "".join(csv_lines(runs)).encode()


def _ndjson(runs: Iterable[RunNumbers]) -> bytes:
    return b"".join(ndjson_lines(runs))


def _backtest_runs(tx: Tx, monitor_id: str, window: SlotSpan) -> tuple[list[PastRun], Numbers | None]:
    """Return the runs of a backtest, oldest first, and the numbers that the first one was compared with."""
    runs = newest_runs(tx, monitor_id, window)[::-1]
    return runs, baseline_before(tx, monitor_id, runs[0].t) if runs else None


def _judged(stored: Sequence[StoredNumbers], seen: deque[Seen], firings: Iterator[Firing]) -> list[Firing]:
    """Evaluate the rules on these runs and return the firings. Consumes all of `seen`."""
    seen.extend(Seen(run.run_id, run.t, run.numbers, run.status != "failed") for run in unpacked_numbers(stored))
    return list(islice(firings, len(stored)))
