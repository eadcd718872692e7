"""One scenario under several values of one setting: `sluice bench sweep limits.concurrent_requests=10,50,200`."""

from dataclasses import dataclass, replace

from bench.errors import WrongUse
from bench.results import Results
from bench.scenarios import SCENARIOS
from bench.servers import open_stage
from bench.settings import Setting, read_setting
from bench.suite import Options, Tell, find_rates, run_suite, works_of


@dataclass(frozen=True, slots=True)
class Sweep:
    """A dotted key of config.toml and its values."""

    key: str
    values: tuple[Setting, ...]


def read_sweep(text: str) -> Sweep:
    """`limits.concurrent_requests=10,50` as a sweep.

    Raises:
        WrongUse: it is none.
    """
    key, equals, values = text.partition("=")
    if not equals or "." not in key or not all(values.split(",")):
        raise WrongUse(f"{text} is no setting of config.toml with values, as in limits.concurrent_requests=10,50")
    return Sweep(key.strip(), tuple(read_setting(value.strip()) for value in values.split(",")))


def works_of_sweep(sweep: Sweep, options: Options) -> int:
    """How often `run_sweep` tells what is next."""
    return 1 + len(sweep.values) * works_of(options)


async def run_sweep(sweep: Sweep, options: Options, results: Results, tell: Tell) -> None:
    """Add to `results` the scenario of `options` under each value, all at the same offered rates.

    Raises:
        ChildFailed: a server or a load generator did not run, or the gateway refuses the setting.
    """
    (name,) = options.scenarios
    scenario = SCENARIOS[name]
    tell(f"{name}: what the server can do")
    if name not in options.rates:
        async with open_stage(scenario.stage) as target:
            options = replace(options, rates={name: await find_rates(scenario, target)})
    for value in sweep.values:
        await run_suite(replace(options, settings={**options.settings, sweep.key: value}), results, tell)
