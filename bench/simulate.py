"""Measures a node with many platforms: `python -m bench.simulate --platforms 70 --endpoints 500`.

The simulation is an installation in a temporary folder. Most of its platforms are copies of the real packages, with
their own modules, parameters and stand-ins. Each figure is printed with its aim, and the command fails if a figure
misses it. CPU times are the lowest of several starts, because a busy machine only adds to them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from bench.core.process import PROJECT, PYTHON, usage
from bench.counted_starts import IMPORTED, LIBRARIES_MAX
from upstreams.composites import load_all
from upstreams.platforms import platform_slugs

OPENAPI_BYTES_MAX: Final = 800_000
COMMAND_S_MAX: Final = 0.3
IDLE_MB_MAX: Final = 95.0
COMMANDS: Final = (("--version",), ("check",), ("platforms", "list"), ("account", "list"))
_MAIN: Final = "from gateway.cli import main\nmain()"
_CONFIG: Final = '[server]\nport = 0\n[admin]\nport = 0\n[store]\nurl = "sqlite:///store.db"\n'
_SECRET: Final = "q0Zr7yTn3KxWv5Bd8LsMf2Hj6PcGa9UeRi4YoXk1NbQ"
_IDLE_S: Final = 5.0
_COPY: Final = """

from dataclasses import replace as _replace

_kept = PLATFORM.endpoints[:{endpoints}]
_forms = tuple(form for form in PLATFORM.address_forms if form.resource in {{one.resource for one in _kept}})
_refusals = PLATFORM.refusals
if hasattr(_refusals, "bad"):  # it may name a parameter of an endpoint that is left out
    _refusals = _replace(_refusals, bad={{}})
_named = dict(slug={slug!r}, title={title!r})
PLATFORM = _replace(PLATFORM, **_named, endpoints=_kept, address_forms=_forms, refusals=_refusals)
"""


@dataclass(frozen=True, slots=True)
class SimulationFigure:
    """A figure, in the unit of its name, and the highest value that is acceptable. None if there is no aim."""

    name: str
    value: float
    aim: float | None = None

    @property
    def line(self) -> str:
        """The figure as a line of the report."""
        aim = "" if self.aim is None else f"aim {self.aim:,g}: {'missed' if self.is_missed else 'reached'}"
        return f"{self.name:<46} {self.value:>12,.3f}  {aim}".rstrip()

    @property
    def is_missed(self) -> bool:
        """Whether the figure is higher than its aim."""
        return self.aim is not None and self.value > self.aim


def write_simulation(folder: Path, platforms: int, endpoints: int) -> None:
    """Copy this installation's `upstreams` to `folder`, and add copies of platforms until there are so many."""
    ignored = shutil.ignore_patterns("__pycache__", "compiled.json")
    shutil.copytree(PROJECT / "upstreams", folder / "upstreams", ignore=ignored)
    existing = load_all()
    copies = max(0, platforms - len(existing))
    missing = endpoints - sum(len(one.endpoints) for one in existing)
    each = -(-missing // copies) if copies else 0
    for number, slug in enumerate(islice(cycle(platform_slugs()), copies)):
        _copy_platform(folder / "upstreams", slug, f"{slug}_{number}", each)


def _copy_platform(upstreams: Path, slug: str, name: str, endpoints: int) -> None:
    package = upstreams / "platforms" / name
    shutil.copytree(upstreams / "platforms" / slug, package)
    for module in package.rglob("*.py"):
        module.write_text(module.read_text().replace(f"upstreams.platforms.{slug}", f"upstreams.platforms.{name}"))
    with (package / "__init__.py").open("a") as declaration:
        declaration.write(_COPY.format(slug=name, title=name.replace("_", " ").capitalize(), endpoints=endpoints))
    made = upstreams / "sandbox/made" / f"{slug}.json"
    if made.exists():
        shutil.copy(made, made.with_stem(name))


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated installation, with a config and a store in `folder`."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its processes. They may write compiled modules, as an installation has them."""
        own = {
            "PYTHONPATH": f"{self.folder}:{PROJECT}",
            "SLUICE_SECRET": _SECRET,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), **own}

    def run(self, *program: str) -> tuple[bytes, float]:
        """Run a program, and return its output and CPU seconds."""
        process = self._start(*program)
        assert process.stdout is not None, "opened with a pipe"
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{program} ended with {process.returncode}")
        return output, used.ru_utime + used.ru_stime

    @contextmanager
    def node(self, *options: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Run a node until the block ends. Yield its process id and the line that it printed."""
        process = self._start("-c", _MAIN, "serve", *options)
        assert process.stdout is not None, "opened with a pipe"
        try:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the node did not start")
            yield process.pid, orjson.loads(line)
        finally:
            process.terminate()
            process.stdout.read()
            process.wait()

    def _start(self, *program: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PYTHON, *program],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def open_simulation(platforms: int, endpoints: int) -> Iterator[Simulation]:
    """Open a simulated installation whose modules are compiled and whose store contains an account with a key."""
    with TemporaryDirectory(prefix="sluice-simulation-") as folder:
        write_simulation(Path(folder), platforms, endpoints)
        (Path(folder) / "config.toml").write_text(_CONFIG)
        simulation = Simulation(Path(folder))
        simulation.run("-c", _MAIN, "account", "create", "--name", "me")
        with simulation.node():
            pass
        yield simulation


def measure(simulation: Simulation, starts: int) -> Iterator[SimulationFigure]:
    """Yield the figures of a simulated installation."""
    document, document_s = simulation.run("-c", _MAIN, "openapi")
    operations = sum(len(path) for path in orjson.loads(document)["paths"].values())
    yield SimulationFigure(
        f"OpenAPI document, bytes ({operations} operations)", len(document.strip()), OPENAPI_BYTES_MAX
    )
    yield SimulationFigure("sluice openapi, CPU s", document_s)
    base_s, start_s, sandbox_s = _starts(simulation, starts)
    yield SimulationFigure("import of the libraries, CPU s", base_s)
    yield SimulationFigure("start of a node, CPU s", start_s)
    yield SimulationFigure("start of a node, times the libraries", start_s / base_s, LIBRARIES_MAX)
    yield SimulationFigure("start with the sandbox, times the libraries", sandbox_s / base_s)
    for command in COMMANDS:
        least = min(simulation.run("-c", _MAIN, *command)[1] for _ in range(starts))
        yield SimulationFigure(f"sluice {' '.join(command)}, CPU s", least, COMMAND_S_MAX)
    yield from _running(simulation)


def _starts(simulation: Simulation, starts: int) -> tuple[float, float, float]:
    """Return the CPU seconds of importing the libraries, of a start, and of a start with the sandbox.

    They alternate, so that a change of the machine's speed affects all of them.
    """
    found = [
        (simulation.run("-c", IMPORTED)[1], _start_s(simulation), _start_s(simulation, "--sandbox"))
        for _ in range(starts)
    ]
    return min(one for one, _, _ in found), min(one for _, one, _ in found), min(one for _, _, one in found)


def _start_s(simulation: Simulation, *options: str) -> float:
    with simulation.node(*options) as (pid, _):
        return usage(pid).cpu_s


def _running(simulation: Simulation) -> Iterator[SimulationFigure]:
    """Yield the memory of an idle node, and the CPU time of reading its catalog."""
    import httpx  # noqa: PLC0415 - not for the base time, but only this function needs it

    accounts, _ = simulation.run("-c", _MAIN, "account", "list", "--json")
    made, _ = simulation.run("-c", _MAIN, "key", "create", "--account", orjson.loads(accounts)[0]["id"], "--json")
    with simulation.node() as (pid, line):
        time.sleep(_IDLE_S)
        yield SimulationFigure("memory of an idle node, MB", usage(pid).rss_bytes / 1e6, IDLE_MB_MAX)
        headers = {"x-api-key": orjson.loads(made)["key"]}
        with httpx.Client(base_url=line["url"], headers=headers, timeout=60.0) as client:

            def read() -> None:
                client.get("/v1/utility/endpoints").raise_for_status()

            yield SimulationFigure("first read of the catalog, CPU s", _cpu_s(pid, read))
            yield SimulationFigure("next read of the catalog, CPU s", _cpu_s(pid, read))


def _cpu_s(pid: int, work: Callable[[], None]) -> float:
    before = usage(pid).cpu_s
    work()
    return usage(pid).cpu_s - before


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=int, default=70, help="with the web and the composites (default 70)")
    parser.add_argument("--endpoints", type=int, default=500, help="at least so many (default 500)")
    parser.add_argument("--starts", type=int, default=7, help="starts per figure (default 7)")
    options = parser.parse_args(arguments)
    is_missed = False
    with open_simulation(options.platforms, options.endpoints) as simulation:
        for measured in measure(simulation, options.starts):
            print(measured.line, flush=True)
            is_missed |= measured.is_missed
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
