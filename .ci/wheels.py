"""Checks that the package index has wheels of every pinned dependency for each kind of machine; lists missing ones.

    python .ci/wheels.py [VERSION ...]     by default, the oldest and the newest Python

Only compiled packages are looked up, because a pure wheel that was installed here is the same on every machine. Since
version 24, pip reads only the metadata of a wheel if the index has it separately, so no wheels are downloaded.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement

PYTHONS = ("3.11", "3.14")
MACHINES = {
    "Linux on x86-64": tuple(f"manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "_2_26", "_2_17", "2014")),
    "Linux on ARM": tuple(f"manylinux{tag}_aarch64" for tag in ("_2_28", "_2_27", "_2_26", "_2_17", "2014")),
    "macOS on ARM": ("macosx_14_0_arm64", "macosx_14_0_universal2"),
}
MACHINE_HERE = {("linux", "x86_64"): "Linux on x86-64", ("linux", "aarch64"): "Linux on ARM"}.get(
    (sys.platform, platform.machine())
)
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def pins(lines: Iterable[str], python: str) -> Iterator[str]:
    """Yield each pin that applies to a version of Python, without its marker."""
    for line in filter(None, map(str.strip, lines)):
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate({"python_version": python, "python_full_version": f"{python}.0"}):
            yield f"{pin.name}{pin.specifier}"


def is_pure(pin: str) -> bool:
    """Return whether the wheel that is installed here runs on every machine."""
    try:
        return "Root-Is-Purelib: true" in (distribution(Requirement(pin).name).read_text("WHEEL") or "")
    except PackageNotFoundError:
        return False


def lacking(asked: list[str], python: str, platforms: Iterable[str]) -> list[str]:
    """Return the pins without a wheel. pip stops at the first missing one, so it is run again without that pin."""
    lacks: list[str] = []
    while left := [pin for pin in asked if pin not in lacks]:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--only-binary=:all:"]
        command += ["--quiet", "--disable-pip-version-check", "--target", "never-made", "--python-version", python]
        command += ["--implementation", "cp", *(f"--platform={each}" for each in platforms), *left]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip, with our pins
        if found.returncode == 0:
            break
        named = [pin for pin in left if f"requirement {pin} (" in found.stderr or f"found for {pin}\n" in found.stderr]
        if not named:
            sys.exit(f"pip could not look up the wheels: {found.stderr.strip()}")
        lacks += named
    return lacks


def main(pythons: tuple[str, ...]) -> int:
    """Print each pin without a wheel on a line, and return the exit code."""
    lines = CONSTRAINTS.read_text().splitlines()
    asked = {python: [pin for pin in pins(lines, python) if not is_pure(pin)] for python in pythons}
    installed_here = ("{}.{}".format(*sys.version_info), MACHINE_HERE)
    targets = [target for target in product(pythons, MACHINES) if target != installed_here]
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = list(pool.map(lambda target: lacking(asked[target[0]], target[0], MACHINES[target[1]]), targets))
    lacks = [
        f"{pin} has no wheel for {machine}, Python {python}"
        for (python, machine), pins_ in zip(targets, found, strict=True)
        for pin in pins_
    ]
    sys.stdout.write(
        "".join(f"{each}\n" for each in lacks or [f"all wheels exist for {len(targets)} kinds of machine"])
    )
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PYTHONS))
