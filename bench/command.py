"""Runs each `sluice bench` command after its arguments are parsed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import msgspec

from bench import marks
from bench.core.errors import NotAsExpected, WrongUse
from bench.core.results import Results, load
from bench.core.scenarios import SCENARIOS
from bench.report.comparability import comparability_notes
from bench.report.compare import VERDICTS, Comparison, compare, compare_single
from bench.report.report import changes_table, show
from bench.report.terminal import Files, Measure, measure_and_show
from bench.scenarios import feed
from bench.scenarios.feed import FeedOptions
from bench.suite import NAMES, SuiteOptions, names_here, run_suite, works_of
from bench.sweep import check_sweep, read_sweep, run_sweep, works_of_sweep

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
    charges: int | None = None,
    deliveries: int | None = None,
    files: Files,
) -> None:
    """Run the named scenarios, or all of them if none is named.

    `polls`, `events`, `charges` and `deliveries` override the default sizes of `parked`, `depth`, `growth` and
    `deliveries`, in this order.

    Raises:
        BenchError: The usage is wrong, or the run failed, was stopped or is not valid.
    """
    if rates and like:
        raise WrongUse("--rate and --like cannot be combined")
    liked = rates_of(load(like)) if like else {}
    scenarios = _known(names) or tuple(name for name in names_here() if not like or name in liked)
    given = liked if like else {name: _labelled(rates) for name in scenarios if rates}
    missing = [name for name in scenarios if name not in given and name not in feed.SCENARIOS]
    if like and (missing or not scenarios):
        raise WrongUse(f"{like} has no rates for {', '.join(missing) or 'any scenario'}")
    _check_for(
        scenarios,
        {
            "--rate": (rates, tuple(SCENARIOS)),
            "--seconds": (seconds, (*SCENARIOS, "reads", "deliveries", "flood")),
            "--polls": (polls, ("parked",)),
            "--events": (events, ("depth",)),
            "--charges": (charges, ("growth",)),
            "--deliveries": (deliveries, ("deliveries",)),
        },
    )
    sizes = FeedOptions()
    sizes = replace(
        sizes,
        counts=tuple(polls) or sizes.counts,
        events=events or sizes.events,
        charges=charges or sizes.charges,
        deliveries=deliveries or sizes.deliveries,
    )
    options = SuiteOptions(scenarios=scenarios, rates=given, seconds=seconds, repeats=repeats, feed=sizes)
    _measure(partial(run_suite, options), works=works_of(options), files=files)


def _check_for(scenarios: Sequence[str], options: Mapping[str, tuple[object, Sequence[str]]]) -> None:
    """Raise `WrongUse` for an option that has no effect in these scenarios.

    `options` maps each option to its value and to the scenarios that it affects.
    """
    for option, (value, fitting) in options.items():
        if value and not set(scenarios) & set(fitting):
            whose = (
                f"for {', '.join(fitting)} only" if len(fitting) < len(SCENARIOS) else "for scenarios with rates only"
            )
            raise WrongUse(f"{option} has no effect in {', '.join(scenarios)}: the option is {whose}")


def sweep_setting(
    text: str, *, scenario: str, rates: Sequence[float], seconds: float | None, repeats: int, files: Files
) -> None:
    """Run a scenario under several values of a setting.

    Raises:
        BenchError: The usage is wrong, or the run failed, was stopped or is not valid.
    """
    sweep, (name,) = read_sweep(text), _known([scenario])
    if name in feed.SCENARIOS:
        raise WrongUse(f"{name} has no settings to vary")
    check_sweep(sweep, SCENARIOS[name])
    options = SuiteOptions((name,), {name: _labelled(rates)} if rates else {}, seconds, repeats)
    works = works_of_sweep(sweep, options)
    _measure(partial(run_sweep, sweep, options), works=works, files=files, is_sweep=True)


def measure_marks(*, seconds: float | None, files: Files) -> None:
    """Measure all marks except memory growth, which only the `soak` scenario measures.

    Raises:
        BenchError: The run failed, was stopped or is not valid.
    """
    _measure(partial(marks.measure_marks, seconds or MARKS_S), works=marks.WORKS, files=files)


def compare_results(before: Path, after: Path, *, everything: bool, as_json: bool = False) -> bool:
    """Print the changes between two results, and return whether anything is worse.

    Raises:
        ResultsUnreadable: One of the files contains no results.
        WrongUse: The results have nothing in common.
    """
    old, new = load(before), load(after)
    changes, notes = [*compare(old, new), *compare_single(old, new)], comparability_notes(old, new)
    if not changes:
        raise WrongUse(
            "the results have nothing in common: no scenario at the same rate, no cost, no mark and no figure"
        )
    counts = Counter(dict.fromkeys(VERDICTS, 0))
    counts.update(change.verdict for change in changes)
    if as_json:
        print(msgspec.json.encode(Comparison(changes, notes, dict(counts))).decode())
    else:
        show(changes_table(changes, everything=everything))
        print(*(f"note: {note}\n" for note in notes), sep="", end="")
        *known, unknown = (f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
        print(f"{', '.join(known)} and {unknown}: measured once, or too noisy to compare")
    return counts["worse"] > 0


def rates_of(results: Results) -> Mapping[str, Mapping[str, float]]:
    """Return the offered rates of a result, by scenario and label."""
    rates: dict[str, dict[str, float]] = {}
    for point in results.points:
        if point.steps:
            rates.setdefault(point.scenario, {})[point.label] = point.steps[0].rate
    return rates


def _known(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in NAMES:
            nearest = "".join(f'did you mean "{close}"? ' for close in get_close_matches(name, NAMES, n=1, cutoff=0.5))
            raise WrongUse(f"unknown scenario {name!r}; {nearest}known: {', '.join(NAMES)}")
    return tuple(dict.fromkeys(names))


def _labelled(rates: Sequence[float]) -> dict[str, float]:
    return {f"{rate:g}/s": rate for rate in sorted(rates)}


def _measure(measure: Measure, *, works: int, files: Files, is_sweep: bool = False) -> None:
    if not measure_and_show(measure, works=works, files=files, is_sweep=is_sweep):
        raise NotAsExpected("some figures are not valid: the run was stopped, or see the remarks")
