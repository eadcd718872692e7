"""Counts the instructions of short commands, and of a node from its start to its end, for `bench.instructions`.

The counts include Python's own start, which is a seventh of a short command. CPU time is proportional to instructions,
so `MARKS` gives the instructions for 0.3 s of CPU in a short command. The start of a node is compared with importing
the libraries that it needs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.core.callgrind import total_of
from bench.core.errors import ChildFailed
from bench.core.process import PROJECT, PYTHON

NODE: Final = "a node's start and end"
LIBRARIES: Final = "import of the libraries"
IMPORTED: Final = "import trio, httpx, msgspec, orjson, click, jinja2, cryptography"
"""The libraries that every node needs."""
_MAIN: Final = "from gateway.cli import main\nmain()"
STARTS: Final[Mapping[str, Sequence[str]]] = {
    "sluice --help": (_MAIN, "--help"),
    "sluice check": (_MAIN, "check"),
    "sluice account list": (_MAIN, "account", "list"),
    LIBRARIES: (IMPORTED,),
    NODE: (_MAIN, "serve", "--sandbox"),
}
"""The program and the arguments of each start."""
MARKS: Final = {name: 1_400_000_000 for name in STARTS if name.startswith("sluice ")}
"""The maximum instructions of a command. As measured, a core executes 6 to 8 billion per second during Python's start.
"""
LIBRARIES_MAX: Final = 2.5
"""How many times the CPU time of importing the libraries the start of a node may take."""
_WITH_END: Final = 0.8
"""The additional share for the end of a node, and for its periodic work, which counts too much under Valgrind."""
_CONFIG: Final = '[server]\nport = 0\n[admin]\nport = 0\n[store]\nurl = "sqlite:///store.db"\n'
_TIMEOUT_S: Final = 300.0
_SECRET: Final = "q0Zr7yTn3KxWv5Bd8LsMf2Hj6PcGa9UeRi4YoXk1NbQ"
"""A fixed secret, because the time to validate a secret depends on it."""


def count_starts(folder: Path, names: Sequence[str] = tuple(STARTS)) -> dict[str, int]:
    """Return the instructions of each start. `folder` must contain a config and a store.

    Raises:
        ChildFailed: A start did not run as expected.
    """
    (folder / "config.toml").write_text(_CONFIG)
    made = [PYTHON, "-c", _MAIN, "account", "create", "--name", "me"]
    _end(subprocess.Popen(made, cwd=folder, env=_environ(folder), stdout=subprocess.DEVNULL))
    figures = {}
    for name in names:
        _start(name, folder, [])  # this first run compiles the modules, and stores the index of the platforms
        profile = folder / "profile"
        _start(name, folder, ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={profile}"])
        figures[name] = total_of(profile.read_text())
        print(f"{name}: {figures[name]:,}", flush=True)
    return figures


def above_marks(counted: Mapping[str, int]) -> list[str]:
    """Return a line for each start that exceeds its mark."""
    marks = {**MARKS, NODE: int((LIBRARIES_MAX + _WITH_END) * counted[LIBRARIES])} if LIBRARIES in counted else MARKS
    return [
        f"{name} takes {counted[name]:,} instructions, more than {mark:,}"
        for name, mark in marks.items()
        if counted.get(name, 0) > mark
    ]


def _start(name: str, folder: Path, under: Sequence[str]) -> None:
    """Run a command until it exits. A node is stopped once it serves requests."""
    command = [*under, PYTHON, "-c", *STARTS[name]]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, env=_environ(folder), stdout=pipe, stderr=nowhere) as process:
        assert process.stdout is not None, "opened with a pipe"
        if name == NODE:
            process.stdout.readline()
            process.terminate()
        process.stdout.read()
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        exit_code = process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if exit_code:
        raise ChildFailed(f"{process.args!r} ended with {exit_code}")


def _environ(folder: Path) -> Mapping[str, str]:
    own = {"PYTHONPATH": str(PROJECT), "XDG_CACHE_HOME": str(folder / "cache")}
    return {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "SLUICE_SECRET": _SECRET, **own}
