"""The credentials with which tests call a platform. They are made up from the names that its declaration requires."""

from __future__ import annotations

from upstreams.model.endpoint import Platform


def known_of(platform: Platform) -> dict[str, str]:
    """Return a value for each credential that a platform can use, by its name. No other platform has the same value."""
    return {name: f"{name}.{platform.slug}.test" for name in platform.credentials}
