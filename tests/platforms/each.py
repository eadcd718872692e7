"""Checks of all endpoints of a platform in one test, which costs less than a test for each endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.fakes.gathering import GatheredFailures
from tests.gate.matrix import of_run
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Value
from upstreams.platforms import load_platforms
from upstreams.sandbox.rehearse import example_values

PLATFORMS = of_run(load_platforms(), lambda platform: platform.slug)
"""The platforms that this run checks (`tests.gate.matrix`)."""


ROWS = 3
"""The rows on a page. They are enough to have unchanged rows before and after a changed one."""


def few_rows(endpoint: Endpoint) -> dict[str, Value]:
    """Return the values of an endpoint's example request, limited to a few rows."""
    values = example_values(endpoint)
    return values | {"limit": ROWS} if "limit" in values else values


def named(platforms: Iterable[Platform]) -> pytest.MarkDecorator:
    """Run a test for each of these platforms."""
    listed = tuple(platforms)
    return pytest.mark.parametrize("platform", listed, ids=[platform.slug for platform in listed])


every_platform = named(PLATFORMS)


def check_endpoints(platform: Platform, check: Callable[[Platform, Endpoint], None]) -> None:
    """Run `check` for each endpoint, and report the failures of all endpoints together."""
    failures = GatheredFailures()
    for endpoint in platform.endpoints:
        with failures.case(f"{platform.slug}/{endpoint.resource}"):
            check(platform, endpoint)
    failures.report()
