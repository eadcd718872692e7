"""A new family of archetypes is one file, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import orjson

PROJECT = Path(__file__).parents[3]
ARCHETYPES = Path("upstreams/model/archetypes")


def copied(folder: Path) -> None:
    """Put the program into `folder`: a copy of the archetypes, and links to everything else."""
    places = [folder / parent for parent in reversed(ARCHETYPES.parents)]
    for place in places:
        place.mkdir(exist_ok=True)
        for entry in (PROJECT / place.relative_to(folder)).iterdir():
            if not ARCHETYPES.is_relative_to(entry.relative_to(PROJECT)) and entry.name[0] not in "._":
                (place / entry.name).symlink_to(entry)
        if (PROJECT / place.relative_to(folder) / "__init__.py").exists():
            (place / "__init__.py").symlink_to(PROJECT / place.relative_to(folder) / "__init__.py")
    copytree(PROJECT / ARCHETYPES, folder / ARCHETYPES, ignore=ignore_patterns("__pycache__"))


def test_everything_about_a_new_record_follows_from_its_file(tmp_path: Path) -> None:
    """Method: a copy of the program gets one more file. A process that runs it reports what it knows."""
    copied(tmp_path)
    copy(Path(__file__).parent / "one_file" / "zines.py", tmp_path / ARCHETYPES)
    done = subprocess.run(
        [sys.executable, "-m", "tests.upstreams.model.one_file.probe"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert orjson.loads(done.stdout) == {
        "schema": ["byline", "contribution", "zine"],
        "openapi": ["BylineRecord", "ContributionRecord", "Zine", "ZineList", "ZineRecord"],
        "csv": [
            "zine.id",
            "zine.url",
            *(f"zine.editor.{name}" for name in ("id", "username", "display_name", "avatar_url", "verified", "url")),
            *("zine.price.amount", "zine.price.currency", "zine.copies", "zine.contributions", "zine.ext"),
        ],
        "numbers": ["items[].zine.copies", "items[].zine.price.amount", "total"],
        "lookup": ["Set if the URL leads to a small magazine."],
        "roles": {"zine": "issue", "zine_search": "search"},
        "cached_s": {"issue": 900, "search": 120},
        "discover": [["zines/search", "item", "zine"]],
        "url": ["issue", {"id": "12"}],
        "docs": ["| [`Zine`](/schemas/Zine.json) | [`zine`](#zine) |", "## Zine"],
    }
