"""Checks the declaration of a platform before the tests in its folder are collected.

A faulty declaration ends the collection with one line for each fault. Without this check, the first test to use the
faulty part would fail, far from the fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from upstreams.model.errors import DeclarationError
from upstreams.model.platform_check import check_platform
from upstreams.platforms import load_platform, platform_slugs


@cache
def faults_of(slug: str) -> str:
    """Return the faults of a platform's declaration, a line for each, or an empty text."""
    try:
        check_platform(load_platform(slug))
    except DeclarationError as exc:
        return str(exc)
    return ""


class PlatformTests(pytest.Module):
    """A test module in a platform's folder."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the tests of the module.

        Raises:
            CollectError: The platform's declaration is faulty.
        """
        if faults := faults_of(self.path.parent.name):
            raise self.CollectError(faults)
        return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return the collector of a test module in a platform's folder, and None for other modules."""
    return PlatformTests.from_parent(parent, path=module_path) if module_path.parent.name in platform_slugs() else None
