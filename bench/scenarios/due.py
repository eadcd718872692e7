"""Measures the cost of monitors that share a slot.

`python -m bench.scenarios.due` reads a `DueLoad` and prints `DueFigures`.
"""

import math
import sys
import time
from dataclasses import dataclass

import msgspec

from bench.control.control_protocol import PLANT, RAN, ControlAddress, ControlClient, Plant, Ran, open_control
from bench.core.process import usage

EACH = 500
"""The number of monitors per account: the limit of active monitors in the largest plan."""
AT_ONCE = 20_000
HALF_A_DAY_S = 43_200.0
POLL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class DueLoad:
    """The number of monitors that share a slot, and of other monitors, on the server with this `pid`."""

    control: ControlAddress
    pid: int
    count: int = 10_000
    stored: int = 100_000
    lead_s: float = 15.0
    """The seconds from creating the monitors to their slot."""
    patience_s: float = 300.0


@dataclass(frozen=True, slots=True)
class DueFigures:
    """The figures of one slot. A lag is the time from a run's own start time within the slot to its actual start."""

    count: int
    stored: int
    lags: dict[int, int]
    took_s: float
    """The seconds from the slot to the end of the last run."""
    cpu_s: float
    """The CPU seconds of the server's process in that time."""


class UnexpectedRuns(Exception):
    """Runs did not happen as planned, so the figures are not valid."""


def measure(due: DueLoad) -> DueFigures:
    """Create all monitors, wait for the slot, and wait for the end of its last run."""
    with open_control(due.control) as control:
        for first in range(0, due.stored, AT_ONCE):
            _plant(control, min(AT_ONCE, due.stored - first), time.time() + HALF_A_DAY_S, stagger_s=0.01)
        slot = float(math.ceil(time.time() + due.lead_s))
        _plant(control, due.count, slot, stagger_s=0.0)
        if time.time() > slot:
            raise UnexpectedRuns("the slot came before its monitors were created")
        time.sleep(max(0.0, slot - time.time()))
        cpu_s = usage(due.pid).cpu_s
        ran = _until_all_ended(control, slot, due)
        cpu_s = usage(due.pid).cpu_s - cpu_s
    if ran.ok != due.count:
        raise UnexpectedRuns(f"{ran.ok} of {due.count} runs were ok")
    return DueFigures(due.count, due.stored, ran.lags, ran.ended_at - slot, cpu_s)


def _plant(control: ControlClient, count: int, slot: float, *, stagger_s: float) -> None:
    control.send(PLANT, Plant(count, math.ceil(count / EACH), slot, stagger_s))
    control.receive(dict[str, str])


def _until_all_ended(control: ControlClient, slot: float, due: DueLoad) -> Ran:
    while time.time() < slot + due.patience_s:
        time.sleep(POLL_EVERY_S)
        control.send(RAN)
        ran = control.receive(Ran)
        if ran.ended >= due.count:
            return ran
    raise UnexpectedRuns(f"not all runs ended within {due.patience_s:g} s")


if __name__ == "__main__":
    found = measure(msgspec.json.decode(sys.stdin.buffer.read(), type=DueLoad))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
