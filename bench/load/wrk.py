"""Runs wrk, if installed, as an independent count of the work that the bench's own generator measures."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.core.process import run_command, usage
from bench.load.request_spec import RequestSpec

NEW_FROM = 900_000_000
"""The first key that wrk sends. The bench's own generator never reaches it, so wrk's keys are new."""
SCRIPT = """\
local n = {first}
request = function()
    n = n + {step}
    return wrk.format("GET", (string.gsub({path}, "{{n}}", tostring(n))), {{ {headers} }})
end
done = function(summary, latency, requests)
    io.write(string.format('{{"requests":%d,"micros":%d}}', summary.requests, summary.duration))
end
"""


@dataclass(frozen=True, slots=True)
class WrkFigures:
    """The counts that wrk printed, and the CPU time of the server's process meanwhile."""

    requests: int
    seconds: float
    server_cpu_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The line that wrk's script prints last."""

    requests: int
    micros: int


async def drive_wrk(spec: RequestSpec, *, pid: int, connections: int, seconds: float) -> WrkFigures | None:
    """Drive a server with wrk, with one thread and for whole seconds.

    Return None if wrk is not installed or the keys are mixed.

    Raises:
        ChildFailed: wrk did not run.
    """
    program = shutil.which("wrk")
    if program is None or spec.keys == "mixed":
        return None
    with TemporaryDirectory(prefix="sluice-bench-") as folder:
        script = Path(folder) / "ask.lua"
        script.write_text(script_for(spec))
        before = usage(pid)
        options = ("-t", "1", "-c", str(connections), "-d", f"{max(round(seconds), 1)}s", "-s", str(script))
        printed = await run_command((program, *options, spec.url))
        summary = msgspec.json.decode(printed.splitlines()[-1], type=Summary)
        return WrkFigures(summary.requests, summary.micros / 1e6, usage(pid).cpu_s - before.cpu_s)


def script_for(spec: RequestSpec) -> str:
    """Return the Lua script that sends the requests of `spec`."""
    headers = ", ".join(f"[{_lua(name)}] = {_lua(value)}" for name, value in spec.headers)
    first, step = (0, 0) if spec.keys == "one" else (NEW_FROM, 1)
    return SCRIPT.format(first=first, step=step, path=_lua(spec.path), headers=headers)


def _lua(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
