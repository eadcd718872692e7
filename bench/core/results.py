"""The results of a run of the bench: one JSON document, and its place on disk."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.core.errors import ResultsUnreadable
from bench.core.machine import Machine, this_machine

FORMAT = 1
FOLDER = Path(__file__).resolve().parents[1] / "results"


class MemorySample(NamedTuple):
    """The memory of the server's process at an instant, in seconds of CLOCK_MONOTONIC."""

    at_s: float
    rss_bytes: int
    own_bytes: int
    """Without files that are mapped."""


@dataclass(frozen=True, slots=True)
class Step:
    """One open loop at one rate. Latencies are of served requests, from the instant each was meant to be sent."""

    rate: float
    """Requests a second that were offered."""
    served_per_s: float
    refused_per_s: float
    cpu_us: float
    """CPU microseconds of the server's process for each answer; 0 when there was none."""
    cpu_share: float
    """CPU seconds of the server's process in a second."""
    machine_share: float
    """The share of the machine's CPU time in use, 0 to 1: at 1 the figures are the machine's, not the server's."""
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    lag_p99_ms: float
    """The generator's own lateness: from a request's instant to when the generator knew that it was due."""
    requests: int
    unanswered: int
    connections: int
    unexpected: dict[str, int]
    memory: tuple[MemorySample, ...]
    seconds: float = 0.0
    """Seconds that were counted; 0 in older files."""
    refused_p99_ms: float = 0.0
    """The percentile of the refusals, 0 where there were none."""


@dataclass(frozen=True, slots=True)
class Point:
    """The repeats of one rate of one scenario."""

    scenario: str
    label: str
    """The key by which `compare` matches: a share of the server's capacity (`50 %`), or the rate when it was given."""
    setting: str = ""
    """The setting that a sweep varies, such as `limits.concurrent_requests=10`."""
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a scenario in the closed loop: a connection sends its next request once its answer is there."""

    scenario: str
    connections: int
    requests: int
    per_second: float
    cpu_us: float
    """CPU microseconds of the server's process for each request."""
    p50_ms: float
    p99_ms: float
    rss_bytes: int
    client_us: float
    unexpected: dict[str, int]
    """Answers that were not as the scenario says; with one of them the figures do not count."""
    wrk_per_second: float | None = None
    wrk_cpu_us: float | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One figure that the gateway should keep."""

    name: str
    value: float | None
    """None when it could not be measured."""
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the figure is there and not above its limit."""
        return self.value is not None and self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that has no mark to keep."""

    name: str
    value: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Results:
    """One run of the suite. Its lists grow while it runs; only the run itself adds to them."""

    machine: Machine
    made_at: str
    format: int = FORMAT
    complete: bool = False
    hello_us: list[float] = field(default_factory=list)
    """CPU microseconds a request of the bare Trio + httptools server, measured along the way: the machine's pace."""
    costs: list[Cost] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def new_results() -> Results:
    """Results without figures, of this machine and now."""
    return Results(machine=this_machine(), made_at=datetime.now(UTC).isoformat(timespec="seconds"))


def save(results: Results, file: Path) -> None:
    """Write the document; its folder is made when it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def load(file: Path) -> Results:
    """Read a document.

    Raises:
        ResultsUnreadable: it is not there, or not of this format.
    """
    try:
        results = msgspec.json.decode(file.read_bytes(), type=Results)
    except OSError as exc:
        raise ResultsUnreadable(f"{file} cannot be read: {exc.strerror}") from exc
    except msgspec.DecodeError as exc:
        raise ResultsUnreadable(f"{file} holds no results of the bench: {exc}") from exc
    if results.format != FORMAT:
        raise ResultsUnreadable(f"{file} has format {results.format}; this program reads {FORMAT}")
    return results
