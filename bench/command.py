"""What each `sluice bench` command does, once its arguments are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import feed, marks
from bench.compare import caveats, compare
from bench.errors import NotAsExpected, WrongUse
from bench.feed import FeedOptions
from bench.report import changes_table, show
from bench.results import Results, load
from bench.scenarios import SCENARIOS
from bench.suite import NAMES, Options, names_here, run_suite, works_of
from bench.sweep import check_sweep, read_sweep, run_sweep, works_of_sweep
from bench.terminal import Files, Measure, measure_and_show

MARKS_S = 5.0


def run_scenarios(
    names: Sequence[str],
    *,
    rates: Sequence[float],
    like: Path | None,
    seconds: float | None,
    repeats: int,
    polls: Sequence[int] = (),
    events: int | None = None,
    deliveries: int | None = None,
    files: Files,
) -> None:
    """Run scenarios, all of them when none is named; `polls`, `events` and `deliveries` are other sizes of theirs.

    Raises:
        BenchError: wrong use, or the run failed, was stopped or is not valid.
    """
    if rates and like:
        raise WrongUse("--rate and --like exclude each other")
    scenarios = _known(names) or names_here()
    given = rates_of(load(like)) if like else {name: _labelled(rates) for name in scenarios if rates}
    sizes = FeedOptions()
    sizes = replace(
        sizes,
        counts=tuple(polls) or sizes.counts,
        events=events or sizes.events,
        deliveries=deliveries or sizes.deliveries,
    )
    options = Options(scenarios=scenarios, rates=given, seconds=seconds, repeats=repeats, feed=sizes)
    _measure(partial(run_suite, options), works=works_of(options), files=files)


def sweep_setting(
    text: str, *, scenario: str, rates: Sequence[float], seconds: float | None, repeats: int, files: Files
) -> None:
    """Run a scenario under several values of a setting.

    Raises:
        BenchError: wrong use, or the run failed, was stopped or is not valid.
    """
    sweep, (name,) = read_sweep(text), _known([scenario])
    if name in feed.SCENARIOS:
        raise WrongUse(f"{name} has no settings to vary")
    check_sweep(sweep, SCENARIOS[name])
    options = Options((name,), {name: _labelled(rates)} if rates else {}, seconds, repeats)
    works = works_of_sweep(sweep, options)
    _measure(partial(run_sweep, sweep, options), works=works, files=files, is_sweep=True)


def measure_marks(*, seconds: float | None, files: Files) -> None:
    """Measure every mark but the soak's.

    Raises:
        BenchError: the run failed, was stopped or is not valid.
    """
    _measure(partial(marks.measure_marks, seconds or MARKS_S), works=marks.WORKS, files=files)


def compare_results(before: Path, after: Path, *, everything: bool) -> bool:
    """Print what changed between two results; whether something is worse.

    Raises:
        ResultsUnreadable: one of the files holds none.
    """
    old, new = load(before), load(after)
    changes = compare(old, new)
    if not changes:
        raise WrongUse("the two results have no scenario at the same share or rate in common")
    show(changes_table(changes, everything=everything))
    for caveat in caveats(old, new):
        print(f"note: {caveat}")
    counts = {verdict: sum(each.verdict == verdict for each in changes) for verdict in ("better", "worse", "same")}
    unknown = len(changes) - sum(counts.values())
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items()), f"and {unknown} without repeats to tell"
    )
    return counts["worse"] > 0


def rates_of(results: Results) -> Mapping[str, Mapping[str, float]]:
    """The rates that results were measured at: scenario -> label -> rate."""
    rates: dict[str, dict[str, float]] = {}
    for point in results.points:
        if point.steps:
            rates.setdefault(point.scenario, {})[point.label] = point.steps[0].rate
    return rates


def _known(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in NAMES:
            raise WrongUse(f"there is no scenario {name}; there are {', '.join(NAMES)}")
    return tuple(dict.fromkeys(names))


def _labelled(rates: Sequence[float]) -> dict[str, float]:
    return {f"{rate:g}/s": rate for rate in sorted(rates)}


def _measure(measure: Measure, *, works: int, files: Files, is_sweep: bool = False) -> None:
    if not measure_and_show(measure, works=works, files=files, is_sweep=is_sweep):
        raise NotAsExpected("not every figure counts: the run was stopped, or the remarks say why")
