"""The results of a run of the bench: one JSON document, and the folder for it."""

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
    """The memory of the server's process at one time, in seconds of CLOCK_MONOTONIC."""

    at_s: float
    rss_bytes: int
    own_bytes: int
    """The resident memory without mapped files."""


@dataclass(frozen=True, slots=True)
class Step:
    """The figures of one open loop at one rate.

    Latencies cover only served requests, and start at their scheduled times.
    """

    rate: float
    """Offered requests per second."""
    served_per_s: float
    refused_per_s: float
    cpu_us: float
    """CPU microseconds of the server's process per response; 0 without responses."""
    cpu_share: float
    """CPU seconds of the server's process per second."""
    machine_share: float
    """The share of the machine's CPU time in use, 0 to 1. At 1, the figures describe the machine, not the server."""
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    lag_p99_ms: float
    """The p99 of the generator's own lateness: the time from a request's scheduled time until the generator noticed it.
    """
    requests: int
    unanswered: int
    connections: int
    unexpected: dict[str, int]
    memory: tuple[MemorySample, ...]
    seconds: float = 0.0
    """The counted time in seconds; 0 in older files."""
    refused_p99_ms: float = 0.0
    """The p99 of refusals; 0 if there were none."""


@dataclass(frozen=True, slots=True)
class Point:
    """The repeats of one rate of one scenario."""

    scenario: str
    label: str
    """The offered load, by which `compare` matches points: a share of the server's capacity (`50 %`), or a rate."""
    setting: str = ""
    """The value of the setting that a sweep varies, such as `limits.concurrent_requests=10`."""
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a scenario in the closed loop, where a connection sends its next request after each response."""

    scenario: str
    connections: int
    requests: int
    per_second: float
    cpu_us: float
    """CPU microseconds of the server's process per request."""
    p50_ms: float
    p99_ms: float
    rss_bytes: int
    client_us: float
    unexpected: dict[str, int]
    """Responses that did not match the scenario. If there are any, the figures are not valid."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One figure with a limit that the gateway should meet."""

    name: str
    value: float | None
    """The measured value; None if it could not be measured."""
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the figure was measured and is within its limit."""
        return self.value is not None and self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure without a limit."""

    name: str
    value: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Results:
    """One run of the suite. The run appends to its lists until it ends; nothing else changes them."""

    machine: Machine
    made_at: str
    format: int = FORMAT
    complete: bool = False
    hello_us: list[float] = field(default_factory=list)
    """CPU microseconds per request of the bare Trio + httptools server, as a measure of the machine's speed."""
    costs: list[Cost] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


def new_results() -> Results:
    """Return empty results with a description of this machine and the current time."""
    return Results(machine=this_machine(), made_at=datetime.now(UTC).isoformat(timespec="seconds"))


def save(results: Results, file: Path) -> None:
    """Write the document. Its folder is created if needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def load(file: Path) -> Results:
    """Read a document.

    Raises:
        ResultsUnreadable: The file is missing, or has another format.
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
