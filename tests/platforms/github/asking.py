"""Helpers with which tests call GitHub's endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.platforms.case import drive
from tests.platforms.drive import Upstream, told
from upstreams.model.steps import Answer, Call, Page, Single
from upstreams.platforms.github import PLATFORM

REPO = "https://github.com/example/project"
ISSUE = f"{REPO}/issues/7"


def single(resource: str, params: Mapping[str, str | int], upstream: Upstream) -> dict[str, Any]:
    result = drive(PLATFORM, resource, params, upstream)
    assert isinstance(result, Single)
    return result.record


def page(resource: str, params: Mapping[str, str | int], upstream: Upstream, **more: Any) -> Page:
    result = drive(PLATFORM, resource, params, upstream, **more)
    assert isinstance(result, Page)
    return result


def calls_of(resource: str, params: Mapping[str, str | int], body: Any, **more: Any) -> list[tuple[str, Call]]:
    made: list[tuple[str, Call]] = []

    def upstream(host_and_path: str, call: Call) -> Answer:
        made.append((host_and_path, call))
        return told(body)

    drive(PLATFORM, resource, params, upstream, **more)
    return made
