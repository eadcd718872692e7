"""Projects a monitor's past: series, exports, charts, and when rules would have fired (spec 4.5).

A thousand runs of two hundred rows are millions of numbers. They are read and projected on the store's readers, a few
runs at a time, so that neither memory nor the other requests feel it; and few of these at once, for the readers' sake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import orjson
import trio

from events.instants import iso
from scheduler.monitors.history.chart import chart_svg, points_of
from scheduler.monitors.history.export import CSV_HEADER, csv_lines, ndjson_lines
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.history.past_runs import PastRun, RunNumbers, baseline_before, newest_runs, read_numbers
from scheduler.monitors.history.timeseries import Chosen, timeseries
from scheduler.monitors.metrics.alerts import Firing, Seen
from scheduler.monitors.metrics.alerts import backtest as judge_past
from scheduler.monitors.metrics.numbers import PAGE, Numbers
from scheduler.monitors.metrics.paths import meant_by
from scheduler.monitors.metrics.rules import AlertRule
from scheduler.monitors.model.records import Monitor
from storage.store import Store, Tx

AT_ONCE: Final = 2
"""Projections that may occupy readers at the same time; there are four on PostgreSQL."""
RUNS_A_READ: Final = 8
ALERTS_MAX: Final = 10_000
T = TypeVar("T")


class Backtest(NamedTuple):
    """The alerts that rules would have fired on the first `runs` runs, oldest first; cut off past the most it holds."""

    runs: int
    fired: list[Firing]
    truncated: bool


class Pieces:
    """An export on its way: an async iterator of its text, a few runs at a time. `is_empty` once it has begun."""

    def __init__(
        self,
        read: Callable[[Callable[[Tx], bytes]], Awaitable[bytes]],
        runs: Sequence[PastRun],
        make: Callable[[Iterable[RunNumbers]], bytes],
        head: bytes,
    ) -> None:
        self._read = read
        self._runs = runs
        self._make = make
        self._ready = head
        self._at = 0
        self.is_empty = False
        """There are runs, and none of them has a number."""

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
        """The text of the next runs that have any; nothing at the end."""
        text = b""
        while not text and self._at < len(self._runs):
            runs = self._runs[self._at : self._at + RUNS_A_READ]
            self._at += RUNS_A_READ
            text = await self._read(partial(_text, runs=runs, make=self._make))
        return text


class Projections:
    """Reads what runs have kept; whose monitor it is was asked before."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at_once = trio.CapacityLimiter(AT_ONCE)
        self._judging = trio.CapacityLimiter(1)

    async def timeseries(self, monitor: Monitor, window: SlotSpan, chosen: Chosen) -> bytes:
        """The `data` of a timeseries as JSON."""

        def read(tx: Tx) -> bytes:
            runs = newest_runs(tx, monitor.id, window)
            body = timeseries(monitor.id, _each(tx, runs), chosen=chosen, by_row=monitor.track is not None)
            return orjson.dumps({**body, **_missing(tx, runs[:1], chosen, body["metric_keys"])})

        return await self._read(read)

    async def chart(self, monitor: Monitor, window: SlotSpan, *, metric: str, row: str) -> str:
        """The picture of one metric."""

        def read(tx: Tx) -> str:
            oldest_first = newest_runs(tx, monitor.id, window)[::-1]
            title = metric if row == PAGE else f"{metric} of {row}"
            return chart_svg(f"{monitor.name}: {title}", points_of(_each(tx, oldest_first), metric, row))

        return await self._read(read)

    async def export(self, monitor: Monitor, window: SlotSpan, *, as_csv: bool) -> Pieces:
        """The numbers of the newest runs in the window, oldest first; the first of them are read at once."""
        runs = await self._read(lambda tx: newest_runs(tx, monitor.id, window))
        pieces = Pieces(self._read, runs[::-1], _csv if as_csv else _ndjson, CSV_HEADER.encode() if as_csv else b"")
        await pieces.begin()
        return pieces

    async def backtest(self, monitor: Monitor, window: SlotSpan, rules: Sequence[AlertRule]) -> Backtest:
        """Return when rules would have fired; one backtest runs at a time, in a thread, a few runs at once."""
        async with self._judging:
            runs, previous = await self._read(partial(_tried, monitor_id=monitor.id, window=window))
            seen: deque[Seen] = deque()
            by_row = monitor.track is not None
            firings = judge_past(rules, iter(seen.popleft, None), by_row=by_row, previous=previous)
            fired: list[Firing] = []
            alerts = 0
            for start in range(0, len(runs), RUNS_A_READ):
                batch = runs[start : start + RUNS_A_READ]
                seen.extend(await self._read(partial(_seen, runs=batch)))
                judged = await trio.to_thread.run_sync(_take, firings, len(batch))
                for place, firing in enumerate(judged, start):
                    alerts += len(firing.alerts)
                    if alerts > ALERTS_MAX:
                        return Backtest(place, fired, truncated=True)
                    fired += [firing] if firing.alerts else []
            return Backtest(len(runs), fired, truncated=False)

    async def _read(self, fn: Callable[[Tx], T]) -> T:
        async with self._at_once:
            return await self._store.read(fn)


def shown_backtest(found: Backtest) -> dict[str, Any]:
    """A backtest as it is told."""
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


def _missing(tx: Tx, newest: Sequence[PastRun], chosen: Chosen, found: Sequence[str]) -> dict[str, list[str]]:
    """A line for each metric that was asked for by name and that no run has, with the one that was probably meant."""
    missing = [metric for metric in chosen.metrics or () if metric not in found]
    known = [
        metric
        for run in read_numbers(tx, newest if missing else ())
        for values in run.numbers.values()
        for metric in values
    ]
    near = {metric: meant_by(metric, known) for metric in missing}
    warnings = [
        f"no run in this window has a number at {metric}" + (f"; did you mean {meant.path}?" if meant else "")
        for metric, meant in near.items()
    ]
    return {"_warnings": warnings} if warnings else {}


def _each(tx: Tx, runs: Sequence[PastRun]) -> Iterator[RunNumbers]:
    """The runs one by one, read a few at a time and no further than they are asked for."""
    for start in range(0, len(runs), RUNS_A_READ):
        yield from read_numbers(tx, runs[start : start + RUNS_A_READ])


def _text(tx: Tx, runs: Sequence[PastRun], make: Callable[[Iterable[RunNumbers]], bytes]) -> bytes:
    return make(read_numbers(tx, runs, with_deltas=True))


def _csv(runs: Iterable[RunNumbers]) -> bytes:
    return "".join(csv_lines(runs)).encode()


def _ndjson(runs: Iterable[RunNumbers]) -> bytes:
    return b"".join(ndjson_lines(runs))


def _tried(tx: Tx, monitor_id: str, window: SlotSpan) -> tuple[list[PastRun], Numbers | None]:
    """The runs of a backtest, oldest first, and the numbers that the first of them was compared with."""
    runs = newest_runs(tx, monitor_id, window)[::-1]
    return runs, baseline_before(tx, monitor_id, runs[0].t) if runs else None


def _take(firings: Iterator[Firing], count: int) -> list[Firing]:
    """The next of them; nothing is left of `seen` behind the last."""
    return list(islice(firings, count))


def _seen(tx: Tx, runs: Sequence[PastRun]) -> list[Seen]:
    return [Seen(run.run_id, run.t, run.numbers, run.status != "failed") for run in read_numbers(tx, runs)]
