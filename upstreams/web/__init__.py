"""Read, map and search the pages of any host (decisions 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform

SLUG: Final = "web"


def make_web() -> Platform:
    """Return a new platform of web pages, with its own caches."""
    from upstreams.web import endpoints  # noqa: PLC0415 - imported when the platform is loaded, because it takes 30 ms

    return endpoints.make_web()
