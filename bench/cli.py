"""`sluice bench`: how fast a node is on this machine, what a change did to it, and which setting suits it.

The suite and the packages it needs are loaded by these commands only: a node runs without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from gateway.cli.run import Refusal, json_option

_INSTALL = "the bench needs more packages: pip install -c constraints.txt -e '.[bench]'"
_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)

_options = (
    click.option(
        "--seconds",
        type=click.FloatRange(0.1, 3_600),
        default=None,
        help="Counted seconds of a step; else 3, for `marks` 5.",
    ),
    click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), help="Else bench/results."),
    click.option("--name", help="Of the files that are written; else the time."),
    json_option,
)
_steps = (
    click.option(
        "--rate",
        "rates",
        type=click.FloatRange(0.1, 100_000),
        multiple=True,
        help="Requests a second, once for each rate; else shares of what the node can do.",
    ),
    click.option(
        "--repeats", type=click.IntRange(1, 100), default=5, show_default=True, help="How often each rate is measured."
    ),
)


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the suite's refusals, and its absence, into the command's own refusals."""
    try:
        from bench.core.errors import BenchError  # noqa: PLC0415 - see the module's docstring

        try:
            yield
        except BenchError as exc:
            raise Refusal(*str(exc).splitlines(), exit_code=exc.exit_code) from exc
    except ModuleNotFoundError as exc:
        raise Refusal(_INSTALL) from exc


@click.group()
def bench() -> None:
    """Measure a node on this machine. Everything runs on loopback and is gone afterwards."""


@bench.command("run")
@click.argument("scenarios", metavar="[SCENARIO]...", nargs=-1)
@_with(*_steps, *_options)
@click.option("--like", type=_EXISTING, help="Offer the rates of this result, so that latencies compare.")
@click.option("--polls", type=click.IntRange(25, 200_000), multiple=True, help="How many `parked` parks.")
@click.option("--events", type=click.IntRange(1_000, 100_000_000), help="In the log of `depth`; else 1,000,000.")
@click.option("--charges", type=click.IntRange(1_000, 100_000_000), help="Settled in `growth`; else 1,000,000.")
@click.option("--deliveries", type=click.IntRange(100, 200_000), help="That wait in `deliveries`; else 10,000.")
def run_(**o: Any) -> None:
    """Measure latency, CPU and memory. Runs the named scenarios at some rates; without a name, all of them.

    \b
    At rates:  miss shared hit mixed replay unauthorized reject collect
               slow failing overload soak
    Without:   parked reads depth growth monitors deliveries flood

    bench/README.md says what each shows, how to read the figures and which keys of config.toml move them.
    """
    with _refusals():
        from bench.command import run_scenarios  # noqa: PLC0415 - as in _refusals
        from bench.report.terminal import Files  # noqa: PLC0415 - as in _refusals

        run_scenarios(
            o["scenarios"],
            rates=o["rates"],
            like=o["like"],
            seconds=o["seconds"],
            repeats=o["repeats"],
            polls=o["polls"],
            charges=o["charges"],
            events=o["events"],
            deliveries=o["deliveries"],
            files=Files(o["folder"], o["name"], o["as_json"]),
        )


@bench.command("marks")
@_with(*_options)
def marks(**o: Any) -> None:
    """Measure the marks. CPU of a request beside peers, and all else that a node should keep."""
    with _refusals():
        from bench.command import measure_marks  # noqa: PLC0415 - as in _refusals
        from bench.report.terminal import Files  # noqa: PLC0415 - as in _refusals

        measure_marks(seconds=o["seconds"], files=Files(o["folder"], o["name"], o["as_json"]))


@bench.command("sweep")
@click.argument("setting", metavar="KEY=VALUE,VALUE...")
@click.option("--scenario", default="mixed", show_default=True, help="What is asked of the node.")
@_with(*_steps, *_options)
def sweep(**o: Any) -> None:
    """Try values of a setting. Runs a scenario under each, such as limits.concurrent_requests=10,50 of config.toml."""
    with _refusals():
        from bench.command import sweep_setting  # noqa: PLC0415 - as in _refusals
        from bench.report.terminal import Files  # noqa: PLC0415 - as in _refusals

        sweep_setting(
            o["setting"],
            scenario=o["scenario"],
            rates=o["rates"],
            seconds=o["seconds"],
            repeats=o["repeats"],
            files=Files(o["folder"], o["name"], o["as_json"]),
        )


@bench.command("compare")
@click.argument("before", metavar="A.json", type=_EXISTING)
@click.argument("after", metavar="B.json", type=_EXISTING)
@click.option("--all", "everything", is_flag=True, help="Also what did not change.")
@json_option
def compare(before: Path, after: Path, everything: bool, as_json: bool) -> None:
    """Tell what changed from A to B. Noise is told apart by their repeats; exit 1 when something is worse."""
    with _refusals():
        from bench.command import compare_results  # noqa: PLC0415 - as in _refusals

        if compare_results(before, after, everything=everything, as_json=as_json):
            raise Refusal("something is worse")
