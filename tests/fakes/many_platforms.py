"""A registry of the size that the service is designed for: 70 platforms with 440 endpoints, most of them copies."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from upstreams.composites import load_all
from upstreams.model.endpoint import Platform
from upstreams.web import SLUG as WEB

PLATFORMS = 70
ENDPOINTS = 440
_COPIED = 5
"""Platforms with more endpoints are not copied."""


def many_platforms() -> tuple[Platform, ...]:
    """Return everything that a node serves, plus copies of platforms under other names."""
    every = load_all()
    found = list(every)
    originals = [one for one in every if one.sources and one.slug != WEB]
    for number in count():
        if len(found) >= PLATFORMS and sum(len(one.endpoints) for one in found) >= ENDPOINTS:
            return tuple(found)
        copied = originals[number % len(originals)]
        slug, title = f"{copied.slug}_{number}", f"{copied.title} {number}"
        found.append(replace(copied, slug=slug, title=title, endpoints=copied.endpoints[:_COPIED]))
    raise AssertionError("the loop above ends")
