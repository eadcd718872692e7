"""`sluice bench`: measures a node's speed on this machine, the effect of a change, and the best value of a setting.

Only these commands import the suite and its packages, so a node runs without them.
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
        help="Counted seconds per step (default 3; 5 for `marks`).",
    ),
    click.option(
        "--out",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for the result files (default bench/results).",
    ),
    click.option("--name", help="Name of the result files (default: the time)."),
    json_option,
)
_steps = (
    click.option(
        "--rate",
        "rates",
        type=click.FloatRange(0.1, 100_000),
        multiple=True,
        help="Requests per second; repeat for each rate (default: shares of the node's capacity).",
    ),
    click.option("--repeats", type=click.IntRange(1, 100), default=5, show_default=True, help="Measurements per rate."),
)


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert errors of the suite into errors of the command, including an error if the suite is not installed."""
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
    """Measure a node on this machine. Everything runs on loopback and is removed afterward."""


@bench.command("run")
@click.argument("scenarios", metavar="[SCENARIO]...", nargs=-1)
@_with(*_steps, *_options)
@click.option("--like", type=_EXISTING, help="Use the rates of this result, so that latencies are comparable.")
@click.option(
    "--polls", type=click.IntRange(25, 200_000), multiple=True, help="Polls to park in `parked`; repeat for each size."
)
@click.option(
    "--events", type=click.IntRange(1_000, 100_000_000), help="Events in the log of `depth` (default 1,000,000)."
)
@click.option(
    "--charges", type=click.IntRange(1_000, 100_000_000), help="Charges to settle in `growth` (default 1,000,000)."
)
@click.option(
    "--deliveries", type=click.IntRange(100, 200_000), help="Queued deliveries in `deliveries` (default 10,000)."
)
def run_(**o: Any) -> None:
    """Measure latency, CPU and memory in the named scenarios (default: all).

    \b
    With rates:     miss shared hit mixed replay unauthorized reject collect
                    slow failing overload soak
    Without rates:  parked reads depth growth monitors deliveries flood

    bench/README.md explains what each scenario shows, how to read the figures and which keys of config.toml change
    them.
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
    """Measure all marks, which are limits that a node should meet, and compare the CPU per request with peers."""
    with _refusals():
        from bench.command import measure_marks  # noqa: PLC0415 - as in _refusals
        from bench.report.terminal import Files  # noqa: PLC0415 - as in _refusals

        measure_marks(seconds=o["seconds"], files=Files(o["folder"], o["name"], o["as_json"]))


@bench.command("sweep")
@click.argument("setting", metavar="KEY=VALUE,VALUE...")
@click.option("--scenario", default="mixed", show_default=True, help="The scenario to run.")
@_with(*_steps, *_options)
def sweep(**o: Any) -> None:
    """Measure a scenario with several values of a setting.

    The setting is a key of config.toml, for example limits.concurrent_requests=10,50.
    """
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
@click.option("--all", "everything", is_flag=True, help="Also show unchanged figures.")
@json_option
def compare(before: Path, after: Path, everything: bool, as_json: bool) -> None:
    """Show what changed from A to B, apart from noise. Exit 1 if a figure is worse."""
    with _refusals():
        from bench.command import compare_results  # noqa: PLC0415 - as in _refusals

        if compare_results(before, after, everything=everything, as_json=as_json):
            raise Refusal("at least one figure is worse")
