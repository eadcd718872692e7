"""Runs the read of a composite with handmade legs. It needs no node and no socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from upstreams.composites import load_all
from upstreams.fetching.plan import Conduct
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.params import Args, State
from upstreams.model.steps import Fetched, Missing, Page, Part, Round, Single

Answered = Fetched | Missing
ABSENT = Missing("no such thing", "test", absent=True, failure=NotFound())
FAILED = Missing("it failed", "test", failure=UpstreamFailed("test", "it failed"))
NOW_AT = 1_735_689_600.0
"""The start of 2025."""
PLATFORMS = load_all()


def endpoint(path: str) -> Endpoint:
    """Return the endpoint with this id, such as `prism/voice`."""
    slug, _, resource = path.partition("/")
    platform = next(one for one in PLATFORMS if one.slug == slug)
    return next(one for one in platform.endpoints if one.resource == resource)


def play(
    path: str,
    values: Mapping[str, Any],
    answer: Callable[[Part], Answered],
    *,
    cursor: State | None = None,
    rounds: list[Round] | None = None,
    left: int = Conduct().pages_max or 200,
) -> Page | Single:
    """Return the result of a composite. `answer` answers its legs. In total, it may read `left` pages."""
    one = endpoint(path)
    steps = one.read(Args(one.canonical(values), cursor, {}, NOW_AT))
    wanted = next(steps)
    try:
        while True:
            if isinstance(wanted, Round):
                if rounds is not None:
                    rounds.append(wanted)
                wanted = steps.send(max(0, left - wanted.pages))
            else:
                parts = wanted if isinstance(wanted, tuple) else (wanted,)
                wanted = steps.send(tuple(map(answer, parts)))
    except StopIteration as done:
        result: Page | Single = done.value
        return result


def single(record: Mapping[str, Any]) -> Fetched:
    """Return a leg that contains one record."""
    return Fetched(Single(dict(record)), source="test")


def page(*records: Mapping[str, Any], following: State | None = None) -> Fetched:
    """Return a leg that contains a page of records."""
    return Fetched(Page([dict(one) for one in records], following), source="test")


def play_page(*args: Any, **options: Any) -> Page:
    """Return the page that a composite returns."""
    result = play(*args, **options)
    assert isinstance(result, Page)
    return result


def play_single(*args: Any, **options: Any) -> Single:
    """Return the single record that a composite returns."""
    result = play(*args, **options)
    assert isinstance(result, Single)
    return result
