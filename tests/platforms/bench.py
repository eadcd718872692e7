"""What the tests of a node with all platforms need: no pace, no pauses between cases, and much time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.site import Site
from upstreams.fetching.source import Source
from upstreams.model.endpoint import Platform

PATIENCE_S: Final = 3_600.0
"""Seconds for all tests on one node."""


def unhurried(platform: Platform) -> Platform:
    """Return the platform without its pace and quotas, because they would delay hundreds of requests."""
    return replace(platform, pace=None, rest=lambda _answer: None)


def end_pauses(site: Site) -> None:
    """End all pauses that a platform's upstream has asked for."""
    for source in _sources_of(site):
        source._governor.held.clear()
        source._pause_requests.clear()


def _sources_of(site: Site) -> Iterator[Source]:
    for source in site.sources.values():
        if isinstance(source, Source):
            yield source
        else:
            yield from source.sources().values() if isinstance(source, NamedSource) else (source.source_at(""),)
