"""The count of lines per endpoint reads the files of every platform."""

from __future__ import annotations

from tests.platforms.lines import LINES_MAX, lines_of_platforms, median_of_declared
from upstreams.platforms import platform_slugs


def test_every_platform_is_counted_with_its_parts() -> None:
    found = {one.slug: one for one in lines_of_platforms()}
    assert tuple(sorted(found)) == platform_slugs()
    assert all(one.adapter and one.cases and one.traps for one in found.values())
    assert all(one.each == (one.adapter + one.cases + one.traps) / one.endpoints for one in found.values())


def test_declared_platform_needs_few_lines_per_endpoint() -> None:
    assert median_of_declared() <= LINES_MAX
