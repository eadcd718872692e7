"""Runs one scenario with several values of one setting: `sluice bench sweep limits.concurrent_requests=10,50,200`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from bench.core.errors import WrongUse
from bench.core.results import Results
from bench.core.scenarios import SCENARIOS, Scenario
from bench.core.settings import Setting, check_settings, read_settings
from bench.peers.servers import open_stage
from bench.suite import Announce, SuiteOptions, find_rates, run_suite, works_of

_SHARED: Mapping[str, Setting] = MappingProxyType(
    {"store.url": "postgresql://127.0.0.1/bench", "state.url": "redis://127.0.0.1"}
)
"""Placeholders for the stores of `shared`. Their addresses are known only when its servers run."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A dotted key of config.toml, and the values to try."""

    key: str
    values: tuple[Setting, ...]


def read_sweep(text: str) -> Sweep:
    """Parse a sweep, such as `limits.concurrent_requests=10,50`.

    Raises:
        WrongUse: The text is not a sweep.
    """
    key, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise WrongUse(f"{text!r} is not a setting with values, such as limits.concurrent_requests=10,50")
    return Sweep(key.strip(), tuple(dict.fromkeys(read_settings(values))))


def check_sweep(sweep: Sweep, scenario: Scenario) -> None:
    """Reject settings that a node would reject, before the measurement starts.

    Raises:
        WrongUse: The key or one of its values is not valid in the gateway's config.toml.
    """
    shared = _SHARED if scenario.stage.server == "shared" else {}
    check_settings(sweep.key, sweep.values, {**scenario.stage.settings, **shared})


def works_of_sweep(sweep: Sweep, options: SuiteOptions) -> int:
    """Return the number of progress messages of `run_sweep`."""
    finding = 0 if options.rates else 1
    (name,) = options.scenarios
    rates = {name: options.rates.get(name) or dict.fromkeys(map(str, SCENARIOS[name].shares), 1.0)}
    return finding + len(sweep.values) * works_of(replace(options, rates=rates))


async def run_sweep(sweep: Sweep, options: SuiteOptions, results: Results, announce: Announce) -> None:
    """Run the scenario of `options` with each value, at the same offered rates, and add the figures to `results`.

    Raises:
        ChildFailed: A server or a load generator did not run, or the gateway rejected the setting.
    """
    (name,) = options.scenarios
    scenario = SCENARIOS[name]
    if name not in options.rates:
        announce(f"{name}: the server's capacity")
        async with open_stage(scenario.stage) as target:
            options = replace(options, rates={name: await find_rates(scenario, target)})
    for value in sweep.values:
        await run_suite(replace(options, settings={**options.settings, sweep.key: value}), results, announce)
