"""A faulty declaration ends the collection of the tests of its platform, with one line for each fault."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import upstreams.platforms
from tests.fakes.written_platform import SLUG, TWO_KINDS, write_platform
from tests.platforms.conftest import PlatformTests, faults_of, pytest_pycollect_makemodule


@pytest.fixture
def platforms(tmp_path: Path) -> Iterator[Path]:
    """A folder whose packages are platforms too."""
    upstreams.platforms.__path__.append(str(tmp_path))
    yield tmp_path
    upstreams.platforms.__path__.remove(str(tmp_path))
    sys.modules.pop(f"upstreams.platforms.{SLUG}", None)
    faults_of.cache_clear()


def collector(request: pytest.FixtureRequest) -> pytest.Module | None:
    """Return what collects the tests in the platform's folder."""
    return pytest_pycollect_makemodule(Path(__file__).parent / SLUG / "test_traps.py", request.node.parent.parent)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (TWO_KINDS, "endpoint `profile`: map of `author`: member `user` is read as an object and as a value; "),
        ({"source": "apj"}, "endpoint `profile`: call `/x`: unknown source: `apj`. Did you mean `api`?"),
        ({"fields": "ident=read.ident('id')"}, "unknown field of `author`: `ident`. "),
    ],
)
def test_faulty_declaration_ends_the_collection(
    changes: dict[str, str], fault: str, platforms: Path, request: pytest.FixtureRequest
) -> None:
    write_platform(platforms, **changes)
    found = collector(request)
    assert isinstance(found, PlatformTests)
    with pytest.raises(pytest.Collector.CollectError) as refusal:
        found.collect()
    assert str(refusal.value).startswith(f"platform `{SLUG}`: {fault}")


def test_sound_declaration_has_no_faults(platforms: Path) -> None:
    write_platform(platforms)
    assert faults_of(SLUG) == ""


def test_other_modules_are_collected_as_usual(request: pytest.FixtureRequest) -> None:
    assert collector(request) is None
