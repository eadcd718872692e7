"""Copy the checkout and clone its platforms, to measure how the tests grow with the number of platforms.

    python -m tests.gate.clones FOLDER [--platforms 70] [--endpoints 500]
    cd FOLDER/project && PYTHONPATH=. pytest tests/platforms tests/spec

A clone has its own modules, stand-in, cases and recordings under another slug, and calls the hosts of its original. The
platforms with generated stand-ins are cloned in turn until both numbers are reached. The copy is no repository, so no
platform counts as changed (`tests.gate.changed`). Two tests fail there: the stand-ins of clones answer for each other,
and the clones of old platforms have many lines.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from upstreams.platforms import load_platforms

PROJECT: Final = Path(__file__).resolve().parents[2]
MADE: Final = "upstreams/sandbox/made"
PLATFORMS: Final = 70
ENDPOINTS: Final = 500


def clone_checkout(folder: Path, platforms: int = PLATFORMS, endpoints: int = ENDPOINTS) -> tuple[int, int]:
    """Copy the checkout to `folder`. Return the numbers of platforms and endpoints with which it ends."""
    copy_checkout(folder)
    originals = load_platforms()
    known, offered = len(originals), sum(len(one.endpoints) for one in originals)
    for number in count(1):
        for one in (one for one in originals if (PROJECT / MADE / f"{one.slug}.json").is_file()):
            if known >= platforms and offered >= endpoints:
                return known, offered
            _clone(folder, one.slug, f"{one.slug}_{number}")
            known, offered = known + 1, offered + len(one.endpoints)
    raise AssertionError("the loop above ends")


def copy_checkout(folder: Path) -> Path:
    """Copy the files that git knows to `folder/project`, with links to the recordings, and return this path."""
    project = folder / "project"
    for file in _tracked():
        target = project / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / file, target)
    _link_recordings(folder)
    return project


def _tracked() -> Iterator[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    yield from (name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file())


def _link_recordings(folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    for each in (PROJECT.parent / "shared").iterdir():
        if each.name != "recordings":
            (shared / each.name).symlink_to(each)
    (shared / "recordings").mkdir()
    for each in (PROJECT.parent / "shared" / "recordings").iterdir():
        (shared / "recordings" / each.name).symlink_to(each.resolve())


def _clone(folder: Path, slug: str, clone: str) -> None:
    project = folder / "project"
    for parent in ("upstreams/platforms", "tests/platforms"):
        shutil.copytree(project / parent / slug, project / parent / clone)
        for file in (project / parent / clone).rglob("*.py"):
            file.write_text(_renamed(file.read_text(), slug, clone))
    shutil.copy2(project / MADE / f"{slug}.json", project / MADE / f"{clone}.json")
    recordings = folder / "shared/recordings"
    if (recordings / slug).exists():
        (recordings / clone).symlink_to((recordings / slug).resolve())


def _renamed(code: str, slug: str, clone: str) -> str:
    code = re.sub(rf"\b((?:upstreams|tests)\.platforms\.){slug}\b", rf"\g<1>{clone}", code)
    return re.sub(rf'\bslug="{slug}"', f'slug="{clone}"', code)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Copy the checkout and clone its platforms.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platforms", type=int, default=PLATFORMS)
    parser.add_argument("--endpoints", type=int, default=ENDPOINTS)
    told = parser.parse_args(words)
    known, offered = clone_checkout(told.folder, told.platforms, told.endpoints)
    print(f"{known} platforms with {offered} endpoints in {told.folder / 'project'}")


if __name__ == "__main__":
    main()
