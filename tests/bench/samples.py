"""Results as a run would save them, with figures chosen by a test."""

from dataclasses import replace
from random import Random

from bench.core.machine import Machine
from bench.core.results import Cost, MemorySample, Point, Results, Step

MACHINE = Machine("a CPU", 2, 8 * 10**9, "Linux 6", "CPython 3.11", {"trio": "0.35.0"}, 0.1)
STEP = Step(
    rate=1_000.0,
    served_per_s=1_000.0,
    refused_per_s=0.0,
    cpu_us=100.0,
    cpu_share=0.1,
    machine_share=0.3,
    p50_ms=1.0,
    p90_ms=2.0,
    p99_ms=4.0,
    p999_ms=8.0,
    max_ms=9.0,
    lag_p99_ms=0.1,
    requests=3_000,
    unanswered=0,
    connections=8,
    unexpected={},
    memory=(MemorySample(10.0, 90_000_000, 60_000_000), MemorySample(11.0, 91_000_000, 60_000_000)),
)
COST = Cost(
    scenario="miss",
    connections=64,
    requests=10_000,
    per_second=2_000.0,
    cpu_us=200.0,
    p50_ms=1.25,
    p99_ms=7.5,
    rss_bytes=50_000_000,
    client_us=5.0,
    unexpected={},
)


def noisy_step(rng: Random, *, noise: float, factor: float = 1.0, rate: float = 1_000.0) -> Step:
    """Return a repeat: its figures vary by about `noise`, and CPU and latency are `factor` times as high."""

    def around(value: float) -> float:
        return value * rng.lognormvariate(0, noise)

    return replace(
        STEP,
        rate=rate,
        served_per_s=around(rate),
        cpu_us=around(100.0 * factor),
        p50_ms=around(1.0 * factor),
        p99_ms=around(4.0 * factor),
        p999_ms=around(8.0 * factor),
        memory=(MemorySample(10.0, 90_000_000, round(around(60e6))),),
    )


def noisy_results(seed: int, *, noise: float = 0.05, factor: float = 1.0, repeats: int = 5, points: int = 4) -> Results:
    """Return a whole run whose repeats vary randomly."""
    rng = Random(seed)
    made = [
        Point("hit", f"{nth}0%", "", [noisy_step(rng, noise=noise, factor=factor) for _ in range(repeats)])
        for nth in range(points)
    ]
    return Results(MACHINE, "2030-01-01T00:00:00+00:00", complete=True, hello_us=[10.0, 10.1, 9.9], points=made)
