"""Runs prism's composites with recorded or handmade legs. It needs no node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.platforms.case import recorded
from tests.platforms.drive import drive
from upstreams.composites.prism import over
from upstreams.model.endpoint import Platform
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms import load_platforms

Json = dict[str, Any]
ALGOLIA = "hn.algolia.com/api/v1"
DAY_S = 86_400.0
NOW_AT = 1_735_689_600.0 + 9 * DAY_S + 3_600
"""One o'clock in the morning of 2025-01-10."""


@cache
def prism() -> Platform:
    """Prism over all platforms that need no credentials."""
    return over(tuple(one for one in load_platforms() if one.slug not in ("bluesky", "youtube")))


def compose(resource: str, values: Json, answers: Mapping[str, Any], now_at: float = NOW_AT) -> Page | Single:
    """Return the result of a composite. `answers` maps `host/path` to a recording or a body. Other calls return 404."""
    endpoint = next(one for one in prism().endpoints if one.resource == resource)
    whole = endpoint.canonical(values)

    def upstream(host_and_path: str, _call: Call) -> Answer:
        body = answers.get(host_and_path)
        return Answer(404, {}, {}) if body is None else recorded("", body)

    return drive(prism(), resource, whole, upstream, now_at=now_at)


def record(resource: str, values: Json, answers: Mapping[str, Any], now_at: float = NOW_AT) -> Json:
    """Return the record that a composite returns, if it is not a list."""
    result = compose(resource, values, answers, now_at)
    assert isinstance(result, Single)
    return result.record


def hit(
    item_id: int, day: str, title: str, *, by: str = "ada", points: int = 1, comments: int = 0, link: str = ""
) -> Json:
    """Return a story from Hacker News' search. `day` has the form `2025-01-05`."""
    return {
        "objectID": str(item_id),
        "created_at": f"{day}T12:00:00Z",
        "author": by,
        "title": title,
        "points": points,
        "num_comments": comments,
        "url": link or None,
        "_tags": ["story"],
    }


def hits(*rows: Json) -> dict[str, Json]:
    """Return these stories as a search that has no next page."""
    body = {"hits": list(rows), "nbHits": len(rows), "nbPages": 1, "page": 0}
    return {f"{ALGOLIA}/search_by_date": body}
