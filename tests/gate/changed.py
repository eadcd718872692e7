"""Which platforms the change under test touches. The gate checks all of their endpoints, and a sixth of the others.

The change begins where the branch left the main branch: `origin/HEAD`, `origin/main` or `main`, whichever exists first.
It includes files that are not committed yet. On the main branch itself, and in a clone without any of these branches,
the change is the last `LATEST` commits, because each of them was tested before the others were merged. A merge counts
as one commit. Outside a repository, no platform counts as touched.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
MAIN: Final = ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/heads/main")
LATEST: Final = 5
INTEGRATION: Final = "SLUICE_INTEGRATION"
"""Set by `.ci/run` on the main branch, where all tables of platforms must be up to date."""
_OF_A_PLATFORM: Final = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"upstreams/(?:platforms|composites)/(\w+)/.+",
        r"upstreams/(web)/.+",
        r"upstreams/sandbox/(?:(?!made/)(\w+)/.+|made/(\w+)\.json)",
        r"tests/platforms/(\w+)/.+",
    )
)


@cache
def changed_platforms() -> frozenset[str]:
    """Return the slugs of the platforms whose code, stand-in or tests the change touches."""
    return platforms_of(changed_files(PROJECT))


def platforms_of(files: Iterable[str]) -> frozenset[str]:
    """Return the slugs of the platforms to which files belong. Other files are ignored."""
    found = (pattern.fullmatch(file) for file in files for pattern in _OF_A_PLATFORM)
    return frozenset(one[one.lastindex or 0] for one in found if one is not None)


def changed_files(folder: Path) -> frozenset[str]:
    """Return the files below `folder` that the change adds, changes or removes, relative to it."""
    base = _base_of(folder)
    if base is None:
        return frozenset()
    known = _lines(folder, "diff", "--name-only", "--no-renames", "--relative", base, "--", ".")
    return frozenset((*known, *_lines(folder, "ls-files", "--others", "--exclude-standard")))


def _base_of(folder: Path) -> str | None:
    """Return the commit before the change. None outside a repository."""
    latest = _lines(folder, "rev-list", "--first-parent", f"--max-count={LATEST + 1}", "HEAD")
    if not latest:
        return None
    for branch in MAIN:
        left_at = _lines(folder, "merge-base", "HEAD", branch)
        if left_at:
            return left_at[0] if left_at[0] != latest[0] else latest[-1]
    return latest[-1]


def _lines(folder: Path, *command: str) -> list[str]:
    """Return the lines that a git command prints; none if it fails, because there is no such branch or repository."""
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
