"""From what was measured to the figures: CPU per request, its ratios to the peers of the same run, and the marks."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.load import Measured
from bench.scenarios import Scenario

HELLO = "hello"
PLAIN = "plain"
COLUMNS = ("scenario", "requests", "req/s", "us/req", "x hello", "x plain", "p50 ms", "p99 ms", "RSS MB", "client us")


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of the table. Ratios are CPU per request over that of the peer in the same run."""

    scenario: str
    requests: int
    per_second: float
    cpu_us: float
    to_hello: float | None
    to_plain: float | None
    p50_ms: float
    p99_ms: float
    rss_bytes: int
    client_us: float
    mark_us: float | None
    met: bool | None
    unexpected: dict[str, int]


def figures(runs: Sequence[tuple[Scenario, Measured]]) -> list[Figures]:
    """The figures of one whole run; a ratio is None when its peer is missing or invalid."""
    peers_us = {scenario.name: _cpu_us(measured) for scenario, measured in runs if not measured.unexpected}
    return [_line(scenario, measured, peers_us.get(HELLO), peers_us.get(PLAIN)) for scenario, measured in runs]


def _line(scenario: Scenario, measured: Measured, hello_us: float | None, plain_us: float | None) -> Figures:
    cpu_us = _cpu_us(measured)
    mark_us = scenario.mark_us
    return Figures(
        scenario=scenario.name,
        requests=measured.requests,
        per_second=measured.requests / measured.seconds,
        cpu_us=cpu_us,
        to_hello=_ratio(cpu_us, hello_us),
        to_plain=_ratio(cpu_us, plain_us),
        p50_ms=measured.p50_ms,
        p99_ms=measured.p99_ms,
        rss_bytes=measured.server_rss_bytes,
        client_us=_per_request_us(measured.client_cpu_s, measured.requests),
        mark_us=mark_us,
        met=None if mark_us is None or measured.unexpected else 0 < cpu_us <= mark_us,
        unexpected=measured.unexpected,
    )


def _cpu_us(measured: Measured) -> float:
    return _per_request_us(measured.server_cpu_s, measured.requests)


def _per_request_us(cpu_s: float, requests: int) -> float:
    return cpu_s * 1e6 / requests if requests else 0.0


def _ratio(cpu_us: float, peer_us: float | None) -> float | None:
    return cpu_us / peer_us if peer_us else None


def table(lines: Sequence[Figures]) -> str:
    """The figures as plain text, one line each, with the mark or the reason why a line does not count."""
    rows = [COLUMNS, *(_cells(line) for line in lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    remarks = ["", *(remark(line) for line in lines)]
    return "\n".join(_aligned(row, widths, note) for row, note in zip(rows, remarks, strict=True))


def _aligned(row: Sequence[str], widths: Sequence[int], note: str) -> str:
    name, *numbers = (
        cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join((name, *numbers, note)).rstrip()


def _cells(line: Figures) -> tuple[str, ...]:
    return (
        line.scenario,
        str(line.requests),
        f"{line.per_second:.0f}",
        f"{line.cpu_us:.0f}",
        _shown(line.to_hello),
        _shown(line.to_plain),
        f"{line.p50_ms:.2f}",
        f"{line.p99_ms:.2f}",
        f"{line.rss_bytes / 1e6:.0f}",
        f"{line.client_us:.0f}",
    )


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3g}"


def remark(line: Figures) -> str:
    """What stands beside the figures: why they do not count, or whether the mark is met."""
    if line.unexpected:
        counts = ", ".join(f"{count} x {what}" for what, count in sorted(line.unexpected.items()))
        return f"invalid: {counts}"
    if line.mark_us is None:
        return ""
    return f"mark {line.mark_us:.0f}: {'met' if line.met else 'not met'}"
