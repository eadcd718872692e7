"""A backtest fires when its rules fired, or would have fired, because both evaluate the same stored numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from events.instants import iso
from limits.long_reads import LongReads
from scheduler.monitors.history.lists import SlotSpan
from scheduler.monitors.history.projections import Projections, shown_backtest
from scheduler.monitors.metrics.rules import OPS, AlertRule, read_rules
from scheduler.monitors.metrics.tracking import stored_track
from scheduler.monitors.model.records import Monitor
from scheduler.recipes import Gathered, Recipe
from tests.fakes.inline_store import open_inline
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH, MIGRATIONS, Desk
from upstreams.model.errors import UpstreamFailed

HOUR_S = 3600.0
STARS, FORKS = "items[].repository.stars", "items[].repository.forks"
TRACK = {"metrics": [STARS, FORKS, "total"], "row_key": "repository.id", "max_rows": 3}


@dataclass(frozen=True, slots=True)
class ScriptedRun:
    """The upstream's response to one run: whole, partial, or missing."""

    data: dict[str, Any] | None
    coverage: float = 1.0
    whole: bool = True

    def answer(self, _recipe: Recipe) -> Gathered:
        if self.data is None:
            raise UpstreamFailed("api", "status 500")
        return gathered(self.data, coverage=self.coverage, whole=self.whole)


NUMBER = st.sampled_from([0, 1, 2, 2, 3, 5, -1, 0.5, 1e300, 2**60, None, True, "7"])
ROW = st.builds(
    lambda row, stars, forks: {"repository": {"id": row, "stars": stars, "forks": forks}},
    *(st.sampled_from("abcd"), NUMBER, NUMBER),
)
PAGES = st.builds(lambda rows, total: {"items": rows, "total": total}, st.just([]) | st.lists(ROW, max_size=4), NUMBER)
RECORDS = st.just({}) | st.builds(lambda stars, forks: {"stars": stars, "deep": {"forks": forks}}, NUMBER, NUMBER)
"""Records that are often empty.

A page without rows is a failure, but a result without a number is not one for an ordinary monitor.
"""


def histories(data: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[ScriptedRun]]:
    whole = st.builds(ScriptedRun, data)
    partly = st.builds(ScriptedRun, data, st.sampled_from([1.0, 0.5, 0.0]), st.just(value=False))
    return st.lists(whole | whole | partly | st.just(ScriptedRun(None)), min_size=4, max_size=10)


def rules(*metrics: str) -> st.SearchStrategy[list[AlertRule]]:
    values, metric = st.sampled_from([-60, -1, 0, 1, 2, 40.5]), st.sampled_from(metrics)
    paces = st.sampled_from([1, 1, 2, 3]), st.sampled_from([0, 0, 3600, 10_000])
    compared = st.builds(AlertRule, metric, st.sampled_from([op for op in OPS if op != "no_data"]), values, *paces)
    absent = st.builds(AlertRule, metric, st.just("no_data"), st.none(), *paces)
    return st.lists(compared | absent, min_size=4, max_size=10, unique=True)


async def lived(
    desk: Desk, monitor: Monitor, history: Sequence[ScriptedRun], sent: Sequence[Any], *, set_at: int
) -> list[Any]:
    """Return the alerts of each run, in the form of a backtest, for rules that are set just before run `set_at`."""
    found = []
    for place, came in enumerate(history):
        if place == set_at:
            text = orjson.dumps(sent).decode()
            await desk.store.write(lambda tx, text=text: tx.run("UPDATE monitors SET alert_rules = ?", (text,)))
        desk.recipes.answer = came.answer
        run = await desk.ran(monitor, EPOCH + place * HOUR_S)
        if alerts := orjson.loads(run.alerts):
            found.append({"run_id": run.id, "t": iso(run.scheduled_for), "alerts": alerts})
    return found


async def tried(desk: Desk, monitor: Monitor, sent: Sequence[Any], *, since: int) -> Any:
    """Return a backtest of all runs from hour `since` on."""
    track = None if monitor.track is None else stored_track(orjson.loads(monitor.track))
    window = SlotSpan(since=EPOCH + since * HOUR_S)
    return shown_backtest(await Projections(desk.store, LongReads()).backtest(monitor, window, read_rules(sent, track)))


async def agrees(track: Any, history: Sequence[ScriptedRun], ruled: Sequence[AlertRule], set_at: int) -> None:
    kept, sent = open_inline(MIGRATIONS), [rule.to_json() for rule in ruled]
    try:
        desk = Desk(kept)
        monitor = await desk.monitor(await desk.account(), track=track)
        fired = await lived(desk, monitor, history, sent, set_at=set_at)
        told = await tried(desk, monitor, sent, since=set_at)
        assert told["fired"] == fired
        assert (told["runs_fired"], told["truncated"]) == (len(fired), False)
    finally:
        kept.close()


@settings(max_examples=25, deadline=None)  # each example is a history of up to ten runs
@given(histories(PAGES), rules(STARS, FORKS, "total"), st.sampled_from([0, 0, 1, 3]))
def test_backtest_of_a_numbers_only_monitor_matches_its_alerts(history, ruled, set_at) -> None:
    """Goal: a backtest agrees with the alerts of the past.

    Method: run monitors through the real store, with rules that are set before any run, and then backtest the rules.
    """
    trio.run(agrees, TRACK, history, ruled, set_at)


@settings(max_examples=25, deadline=None)  # each example is a history of up to ten runs
@given(histories(RECORDS), rules("stars", "deep.forks"), st.sampled_from([0, 0, 1, 3]))
def test_backtest_of_an_ordinary_monitor_matches_its_alerts(history, ruled, set_at) -> None:
    trio.run(agrees, None, history, ruled, set_at)


EMPTY = ScriptedRun({"items": [], "total": 0})
FULL = ScriptedRun({"items": [{"repository": {"id": "a", "stars": 5}}], "total": 1})
NO_TOTAL = {"metric": "total", "op": "no_data"}
LOW_TOTAL = {"metric": "total", "op": "lt", "value": 1}


@pytest.mark.parametrize(("rule", "places"), [(NO_TOTAL, [1]), (LOW_TOTAL, [])])
async def test_run_without_results_has_no_numbers_in_run_and_backtest(
    desk: Desk, rule: dict[str, Any], places: list[int]
) -> None:
    """A `total` of 0 is not stored for such a run, so the owner could never look up the cause of an alert."""
    monitor = await desk.monitor(await desk.account(), track=TRACK)
    fired = await lived(desk, monitor, [FULL, EMPTY, FULL], [rule], set_at=0)
    assert [(await desk.all_runs(monitor.id))[place].id for place in places] == [one["run_id"] for one in fired]
    assert (await tried(desk, monitor, [rule], since=0))["fired"] == fired


async def test_first_run_of_a_window_is_compared_with_the_previous_run(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    history = [ScriptedRun({"stars": 5}), ScriptedRun(None), ScriptedRun({"stars": 9})]
    rule = {"metric": "stars", "op": "abs_change_gt", "value": 1}
    await lived(desk, monitor, history, [], set_at=0)
    (fired,) = (await tried(desk, monitor, [rule], since=2))["fired"]
    assert (fired["alerts"][0]["from"], fired["alerts"][0]["to"]) == (5, 9)


async def test_result_without_numbers_is_the_next_baseline(desk: Desk) -> None:
    """An ordinary monitor's run without numbers is ok and becomes the next run's baseline."""
    monitor = await desk.monitor(await desk.account())
    rule = {"metric": "stars", "op": "abs_change_gt", "value": 1}
    history = [ScriptedRun({"stars": 5}), ScriptedRun({"stars": "hidden"}), ScriptedRun({"stars": 9})]
    assert await lived(desk, monitor, history, [rule], set_at=0) == []
    assert (await tried(desk, monitor, [rule], since=0))["fired"] == []
