"""Finds the differences that make two results hard to compare."""

from collections.abc import Callable, Iterator
from dataclasses import fields

from bench.core.machine import Machine
from bench.core.results import Point, Results
from bench.report.compare import SMALLEST, difference

RATE_SHARE = 0.02
"""Offered rates that differ by more than this share are reported, because the latencies belong to different loads."""
BUSY_LOAD = 0.5
"""A load average per CPU above this, in the minute before the run, indicates other work."""
_HARDWARE = ("cpu", "cpus", "cpu_quota", "memory_bytes", "store_on")


def comparability_notes(before: Results, after: Results) -> list[str]:
    """Return one line for each reason why two results are hard to compare."""
    return [
        *_machine_notes(before.machine, after.machine),
        *_run_notes(before, after),
        *_speed_notes(before.hello_us, after.hello_us),
        *_point_notes(before, after),
    ]


def _machine_notes(before: Machine, after: Machine) -> Iterator[str]:
    differing = [
        field.name
        for field in fields(Machine)
        # A value that is missing in an older file is not a difference.
        if field.name not in ("libraries", "load_average", "commit")
        and (old := getattr(before, field.name)) != (new := getattr(after, field.name))
        and None not in (old, new)
        and "" not in (old, new)
    ]
    if hardware := [name for name in differing if name in _HARDWARE]:
        yield f"the results are of different machines ({', '.join(hardware)})"
    for name in differing:
        if name not in _HARDWARE:
            yield f"{name}: {getattr(before, name)} before, {getattr(after, name)} after"
    for name in sorted(before.libraries.keys() & after.libraries.keys()):
        if before.libraries[name] != after.libraries[name]:
            yield f"{name} {before.libraries[name]} before, {after.libraries[name]} after"


def _run_notes(before: Results, after: Results) -> Iterator[str]:
    for letter, results in (("A", before), ("B", after)):
        if not results.complete:
            yield f"{letter} was stopped before its end"
        if results.machine.load_average > BUSY_LOAD * results.machine.cpus:
            yield f"other work was running before {letter}: a load average of {results.machine.load_average:.1f}"
        if invalid := _scenarios(results, lambda point: any(step.unexpected for step in point.steps)):
            yield f"not every response was as expected in {letter}: {invalid}"
        if unanswered := _scenarios(results, lambda point: any(step.unanswered for step in point.steps)):
            yield f"some requests got no response in {letter}: {unanswered}"


def _scenarios(results: Results, which: Callable[[Point], bool]) -> str:
    return ", ".join(dict.fromkeys(point.scenario for point in results.points if which(point)))


def _speed_notes(before: list[float], after: list[float]) -> Iterator[str]:
    if before and after:
        change, noise = difference(before, after)
        if abs(change) > (SMALLEST if noise is None else noise):
            yield f"the bare server changed by {change:+.1%} too: the machine explains part of the difference"


def _point_notes(before: Results, after: Results) -> Iterator[str]:
    later = {_name(point): point for point in after.points if point.steps}
    pairs = [(point, later[_name(point)]) for point in before.points if point.steps and _name(point) in later]
    apart = {old.scenario for old, new in pairs if abs(new.steps[0].rate / old.steps[0].rate - 1) > RATE_SHARE}
    if apart:
        named = ", ".join(sorted(apart))
        yield f"the offered rates differ in {named}: run B with --like A.json to compare latencies"
    unlike = {old.scenario for old, new in pairs if old.steps[0].seconds != new.steps[0].seconds}
    if unlike and all(point.steps[0].seconds for pair in pairs for point in pair):
        yield f"the steps have different lengths in {', '.join(sorted(unlike))}: run B with the --seconds of A"


def _name(point: Point) -> tuple[str, str, str]:
    return point.scenario, point.label, point.setting
