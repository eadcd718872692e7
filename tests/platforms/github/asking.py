"""Helpers with which tests call GitHub's endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.platforms.case import drive
from tests.platforms.drive import Upstream, always, page_of, single_of, watched
from upstreams.model.steps import Call
from upstreams.platforms.github import PLATFORM

REPO = "https://github.com/example/project"
ISSUE = f"{REPO}/issues/7"


def single(resource: str, params: Mapping[str, str | int], upstream: Upstream) -> dict[str, Any]:
    return single_of(PLATFORM, resource, params, upstream).record


page = partial(page_of, PLATFORM)


def calls_of(resource: str, params: Mapping[str, str | int], body: Any, **more: Any) -> list[tuple[str, Call]]:
    made, upstream = watched(always(body))
    drive(PLATFORM, resource, params, upstream, **more)
    return made
