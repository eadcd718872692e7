"""The skeleton of each kind is a valid platform: it loads, its cases pass, and its code follows the style.

`tests/gateway/cli/test_authors_commands.py` runs all tests of the skeletons.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from subprocess import run

import orjson
import pytest

import tests.platforms
import upstreams.platforms
from tests.platforms.case import check
from tests.processes.commands import PROJECT
from upstreams.skeletons import KINDS, SkeletonRefused, write_skeleton

SLUG = "a_new_forum"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A checkout without platforms of its own. The program's packages are found too."""
    added = [tmp_path / "upstreams" / "platforms", tmp_path / "tests" / "platforms"]
    for folder, package in zip(added, (upstreams.platforms, tests.platforms), strict=True):
        folder.mkdir(parents=True)
        package.__path__.append(str(folder))
    yield tmp_path
    for folder, package in zip(added, (upstreams.platforms, tests.platforms), strict=True):
        package.__path__.remove(str(folder))
    for name in [name for name in sys.modules if SLUG in name]:
        del sys.modules[name]


@pytest.mark.parametrize("kind", KINDS)
def test_skeleton_endpoints_have_passing_cases(kind: str, checkout: Path) -> None:
    write_skeleton(SLUG, checkout, kind)
    platform = import_module(f"upstreams.platforms.{SLUG}").PLATFORM
    cases = import_module(f"tests.platforms.{SLUG}.cases").CASES
    assert (platform.slug, platform.title) == (SLUG, "A New Forum")
    assert {case.resource for case in cases} == {endpoint.resource for endpoint in platform.endpoints}
    for case in cases:
        check(platform, case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slug", ["case_files", "zines"])
def test_skeleton_follows_the_code_style(slug: str, kind: str, checkout: Path) -> None:
    for path in write_skeleton(slug, checkout, kind):
        if path.suffix == ".json":
            text = path.read_bytes()
            assert text == orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2) + b"\n", "as the tool writes it"
            continue
        here = str(path.relative_to(checkout))
        for command in (["check", "--ignore", "I001"], ["format", "--check"]):  # I001 depends on other modules
            ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", here, "-"]
            ended = run(ruff, cwd=PROJECT, input=path.read_bytes(), capture_output=True, check=False)
            assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("slug", ["", "Forum", "9gag", "a-b", "a/b", "..", "class", "x" * 41, "forum\n"])
def test_invalid_slug_is_refused(slug: str, checkout: Path) -> None:
    with pytest.raises(SkeletonRefused, match="is not a valid slug"):
        write_skeleton(slug, checkout)
    assert list((checkout / "upstreams" / "platforms").iterdir()) == []


def test_existing_platform_is_not_overwritten(checkout: Path) -> None:
    write_skeleton(SLUG, checkout)
    with pytest.raises(SkeletonRefused, match=r"already exists: upstreams/platforms/a_new_forum/__init__\.py"):
        write_skeleton(SLUG, checkout, "feed")
