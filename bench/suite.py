"""Runs scenarios in the open loop, at several rates, and each rate several times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from types import MappingProxyType

from bench.core.results import Mark, Point, Results, Step
from bench.core.scenarios import PEERS, SCENARIOS, Scenario, Stage
from bench.core.settings import Setting, spelled
from bench.cost import measure_cost
from bench.load.closed_load import ClosedLoad
from bench.load.driving import Tempo, drive, drive_open, spec_for
from bench.peers.servers import ServerTarget, can_run, open_stage
from bench.scenarios import feed
from bench.scenarios.feed import FeedOptions

NAMES = (*(name for name in SCENARIOS if name not in PEERS), *feed.SCENARIOS)
"""The names of all scenarios. The ones of the feed have no rates, so they are not in `SCENARIOS`."""


def names_here() -> tuple[str, ...]:
    """Return the names whose servers are installed here."""
    return tuple(name for name in NAMES if name in feed.SCENARIOS or can_run(SCENARIOS[name].stage))


CAPACITY_S = 2.0
HELLO_S = 1.0
KEYS_A_STEP = 10_000_000
SOAK_S_MAX = 1_800.0
SOAK_REQUESTS_MIN = 100_000
"""The minimum number of requests for a meaningful figure of memory growth."""
REFUSALS = (429, 503)

Announce = Callable[[str], None]
"""A callback that receives a message before each measurement. `works_of` returns the number of calls in a run."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """The scenarios to run, and their durations.

    Rates are in requests per second. Without rates, a scenario uses shares of its capacity.
    """

    scenarios: tuple[str, ...] = NAMES
    rates: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    """The rates by scenario and label."""
    seconds: float | None = None
    """The counted seconds of a step. By default 3, or in a soak as long as its requests take."""
    repeats: int = 5
    settings: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    """Dotted keys of config.toml that override the scenario's own."""
    feed: FeedOptions = field(default_factory=FeedOptions)


def works_of(options: SuiteOptions) -> int:
    """Return the number of progress messages of a run."""
    return sum(1 if name in feed.SCENARIOS else _works_of(name, options) for name in options.scenarios)


def _works_of(name: str, options: SuiteOptions) -> int:
    """Count the measurements: the bare server, the capacity if no rates are given, and the repeats of each rate."""
    given = options.rates.get(name)
    return 1 + (0 if given else 1) + options.repeats * len(given or SCENARIOS[name].shares)


async def run_suite(options: SuiteOptions, results: Results, announce: Announce) -> None:
    """Run every scenario and add its figures to `results`.

    Raises:
        ChildFailed: A server or a load generator did not run.
    """
    for name in options.scenarios:
        if name in feed.SCENARIOS:
            await run_feed(name, replace(options.feed, seconds=options.seconds), results, announce)
        else:
            await _run_scenario(_with_settings(SCENARIOS[name], options.settings), options, results, announce)


async def run_feed(name: str, options: FeedOptions, results: Results, announce: Announce) -> None:
    """Run a scenario without rates and add its figures to `results`.

    Raises:
        ChildFailed: A server did not run, or a reader of the feed received an unexpected response.
    """
    announce(name)
    found = await feed.SCENARIOS[name](options)
    results.marks.extend(found.marks)
    results.figures.extend(found.figures)
    results.points.extend(found.points)


def _with_settings(scenario: Scenario, settings: Mapping[str, Setting]) -> Scenario:
    """Return the scenario with other settings, under which refusals are expected."""
    if not settings:
        return scenario
    stage = replace(scenario.stage, settings={**scenario.stage.settings, **settings})
    tolerated = tuple({*scenario.tolerated, *REFUSALS} - set(scenario.statuses))
    return replace(scenario, stage=stage, tolerated=tolerated)


async def _run_scenario(scenario: Scenario, options: SuiteOptions, results: Results, announce: Announce) -> None:
    setting = ", ".join(f"{key}={spelled(value)}" for key, value in options.settings.items())
    named = f"{scenario.name} with {setting}" if setting else scenario.name
    announce(f"{named}: the bare server, which shows the machine's speed")
    results.hello_us.append(await measure_hello(min(HELLO_S, options.seconds or HELLO_S)))
    async with open_stage(scenario.stage) as target:
        rates = options.rates.get(scenario.name)
        if not rates:
            announce(f"{named}: the server's capacity")
            rates = await find_rates(scenario, target)
        points = {label: Point(scenario.name, label, setting) for label in rates}
        results.points.extend(points.values())
        # Rates alternate, so that a slow minute of the machine affects all rates alike.
        plan = [(label, rate) for _ in range(options.repeats) for label, rate in rates.items()]
        for nth, (label, rate) in enumerate(plan, start=1):
            announce(f"{named}: {label} of the capacity, {rate:.0f}/s" if "%" in label else f"{named}: {label}")
            pace = Tempo(rate, seconds_of(scenario, options, rate))
            points[label].steps.append(await drive_open(scenario, target, pace, first_key=nth * KEYS_A_STEP))
    results.marks.extend(soak_marks(scenario, list(points.values())))


def seconds_of(scenario: Scenario, options: SuiteOptions, rate: float) -> float:
    """Return the counted seconds of a step."""
    if options.seconds is not None or scenario.requests is None:
        return options.seconds or 3.0
    return min(scenario.requests / rate, SOAK_S_MAX)


async def find_rates(scenario: Scenario, target: ServerTarget) -> dict[str, float]:
    """Return the rates that are the scenario's shares of the server's capacity in the closed loop."""
    load = ClosedLoad(spec_for(scenario, target), connections=scenario.busy, seconds=CAPACITY_S)
    measured = await drive(load)
    capacity = max(measured.requests / measured.seconds, 1.0)
    return {f"{share:.0%}": capacity * share for share in scenario.shares}


async def measure_hello(seconds: float) -> float:
    """Return the bare server's CPU microseconds per request, which show the machine's current speed.

    The warm-up is as long as the measurement.
    """
    async with open_stage(Stage("hello")) as target:
        cost = await measure_cost(SCENARIOS["hello"], target, connections=64, seconds=seconds, warmup_s=seconds)
    return cost.cpu_us


def soak_marks(scenario: Scenario, points: Sequence[Point]) -> list[Mark]:
    """Return the mark for memory growth per million requests; nothing for other scenarios and short runs."""
    steps = [step for point in points for step in point.steps]
    if scenario.requests is None or sum(step.requests for step in steps) < SOAK_REQUESTS_MIN:
        return []
    return [Mark("growth in 1,000,000 requests", growth_mb(steps), 5, "MB")]


def growth_mb(steps: Sequence[Step]) -> float:
    """Return the growth of own memory in MB (10**6 bytes) per million requests.

    It is the difference between the last and the first tenth of the samples.
    """
    own = [held.own_bytes for step in steps for held in step.memory]
    tenth = max(len(own) // 10, 1)
    grown = median(own[-tenth:]) - median(own[:tenth])
    return grown / sum(step.requests for step in steps)
