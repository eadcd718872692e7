"""Checks of all endpoints of a platform in one test, which costs less than a test for each endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from upstreams.model.endpoint import Endpoint, Platform
from upstreams.platforms import load_platforms

PLATFORMS = load_platforms()


def named(platforms: Iterable[Platform]) -> pytest.MarkDecorator:
    """Run a test for each of these platforms."""
    listed = tuple(platforms)
    return pytest.mark.parametrize("platform", listed, ids=[platform.slug for platform in listed])


every_platform = named(PLATFORMS)


def check_endpoints(platform: Platform, check: Callable[[Platform, Endpoint], None]) -> None:
    """Run `check` for each endpoint, and report the failures of all endpoints together."""
    failures: dict[str, Exception] = {}
    for endpoint in platform.endpoints:
        try:
            check(platform, endpoint)
        except Exception as exc:  # noqa: BLE001 - raised below, after the other endpoints
            failures[f"{platform.slug}/{endpoint.resource}"] = exc
    if failures:
        raise ExceptionGroup(", ".join(failures), list(failures.values()))
