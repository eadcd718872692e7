"""Describes the machine, interpreter, libraries and commit of a run."""

import os
import platform
import shutil
import sqlite3
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
GIT_S = 10
_PACKAGES = (
    "sluice",
    "trio",
    "httptools",
    "httpx",
    "orjson",
    "msgspec",
    "psycopg",
    "coredis",
    "hypercorn",
    "quart-trio",
)
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the software of a run. Fields with a default are missing in older files."""

    cpu: str
    cpus: int
    """The number of CPUs that this process can use."""
    memory_bytes: int
    system: str
    """The operating system with its kernel version."""
    python: str
    libraries: dict[str, str]
    load_average: float
    """The load average in the minute before the run."""
    build: str = ""
    """The interpreter's compiler, and the optimizations that were explicitly enabled."""
    cpu_quota: float | None = None
    """The number of CPUs that the cgroup allows; None if it allows all."""
    store_on: str = ""
    """The file system of the run's stores, which are in the temporary folder."""
    commit: str = ""
    """The commit of this program, followed by `and changes` if files differ from it."""


def this_machine() -> Machine:
    """Describe this machine."""
    return Machine(
        cpu=_cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries={
            **{name: found for name in _PACKAGES if (found := _version(name))},
            "sqlite": sqlite3.sqlite_version,
        },
        load_average=os.getloadavg()[0],
        build=interpreter_build(),
        cpu_quota=cpu_quota(_CGROUP / "cpu.max"),
        store_on=_file_system(Path(tempfile.gettempdir()).resolve()),
        commit=commit_of(PROJECT),
    )


def described(machine: Machine) -> str:
    """Return a one-line description of the machine, to print below the tables."""
    quota = "" if machine.cpu_quota is None else f" (at most {machine.cpu_quota:g} of them at a time)"
    libraries = [
        f"{name} {machine.libraries[name]}" for name in ("trio", "httptools", "sqlite") if name in machine.libraries
    ]
    return "; ".join(
        filter(
            None,
            (
                f"{machine.cpu}, {machine.cpus} CPUs{quota}, {machine.memory_bytes / 1e9:.0f} GB",
                machine.system,
                f"{machine.python}{f' ({machine.build})' if machine.build else ''}",
                ", ".join(libraries),
                machine.store_on and f"store on {machine.store_on}",
                machine.commit and f"commit {machine.commit[:12]}{machine.commit[40:]}",
                f"load average {machine.load_average:.2f} before",
            ),
        )
    )


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def interpreter_build() -> str:
    """Return the interpreter's compiler, and the optimizations that were explicitly enabled."""
    configured = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    asked = [option for option in ("--enable-optimizations", "--with-lto") if option in configured]
    return ", ".join([platform.python_compiler(), *asked])  # distributions may enable them without these options


def cpu_quota(file: Path) -> float | None:
    """Return the number of CPUs that a cgroup's `cpu.max` allows; None without a limit."""
    try:
        allowed, _, period = file.read_text().partition(" ")
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        return None


def _file_system(folder: Path) -> str:
    """Return the type of a folder's file system, from the closest mount above it."""
    mounts = dict(_mounts())
    return next((mounts[str(each)] for each in (folder, *folder.parents) if str(each) in mounts), "")


def _mounts() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        yield before.split()[4], after.split()[0]


def commit_of(folder: Path) -> str:
    """Return the commit of the files in a folder; empty without git or outside a repository."""
    program = shutil.which("git")
    if program is None or not (folder / ".git").exists():
        return ""
    commit, changed = (_git(program, folder, *words) for words in (("rev-parse", "HEAD"), ("diff", "--stat", "HEAD")))
    return f"{commit} and changes" if commit and changed else commit


def _git(program: str, folder: Path, *words: str) -> str:
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, timeout=GIT_S, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
