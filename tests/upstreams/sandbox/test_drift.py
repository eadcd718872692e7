"""Drift: members that an upstream no longer sends, found by a comparison with its stand-in."""

from __future__ import annotations

from typing import Any

import pytest

from upstreams.model.steps import Page
from upstreams.platforms import load_platforms
from upstreams.sandbox.drift import members_gone
from upstreams.sandbox.rehearse import rehearsed

INVENTED: Any = {
    "items": [{"id": 1, "user": {"name": "a", "url": "b"}, "tags": [{"name": "x"}]}, {"id": 2, "extra": 1}]
}


@pytest.mark.parametrize(
    ("sent", "gone"),
    [
        (INVENTED, []),
        ({"items": [{"id": 1, "user": {"name": "a"}, "tags": [], "extra": 0}], "more": True}, ["items.user.url"]),
        ({"items": [{"user": None, "tags": None}]}, ["items.id", "items.extra"]),
        ({"items": []}, []),
        ({"rows": []}, ["items"]),
        ({"items": [{"id": 1, "user": "a", "tags": ["x"], "extra": 0}]}, ["items.user", "items.tags"]),
        ([INVENTED], []),
        ("text", [""]),
    ],
)
def test_member_missing_from_every_answer_is_gone(sent: Any, gone: list[str]) -> None:
    assert members_gone([INVENTED], [sent]) == gone


def test_rehearsed_bodies_have_not_drifted() -> None:
    platform = next(one for one in load_platforms() if one.slug == "bluesky")
    endpoint = next(one for one in platform.endpoints if one.resource == "post/likes")
    result, bodies = rehearsed(platform, endpoint, 1_735_689_600.0)
    assert isinstance(result, Page)
    assert len(bodies) == 2
    assert members_gone(bodies, bodies) == []
