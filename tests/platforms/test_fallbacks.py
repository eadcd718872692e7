"""Fallbacks with the platforms' stand-ins: each returns the same as the endpoint's own source, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.platforms.case import NOW_AT, drive, from_sandbox
from tests.platforms.credentials import known_of
from tests.platforms.each import PLATFORMS, every_platform
from tests.platforms.stand_in import FOLDER
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.params import Args
from upstreams.model.steps import Call, Page, Single
from upstreams.sandbox.rehearse import example_values

Record = dict[str, Any]

RUNGS = [
    (platform, endpoint, rung_index)
    for platform in PLATFORMS
    for endpoint in platform.endpoints
    for rung_index in range(1, len(endpoint.fallbacks) + 1)
]
every_rung = pytest.mark.parametrize(
    ("platform", "endpoint", "rung_index"),
    RUNGS,
    ids=[f"{platform.slug}/{endpoint.resource}/{rung_index}" for platform, endpoint, rung_index in RUNGS],
)


def has_same_facts(platform: Platform, fallback: Fallback) -> bool:
    """Return whether a fallback's stand-in has the same facts as the own source's stand-in.

    Generated stand-ins invent other facts for a source with another format. The platform's own tests compare such
    sources.
    """
    return fallback.read is None or not (FOLDER / f"{platform.slug}.json").is_file()


TWINS = [rung for rung in RUNGS if has_same_facts(rung[0], rung[1].fallbacks[rung[2] - 1])]
every_twin = pytest.mark.parametrize(
    ("platform", "endpoint", "rung_index"),
    TWINS,
    ids=[f"{platform.slug}/{endpoint.resource}/{rung_index}" for platform, endpoint, rung_index in TWINS],
)

SUBJECTS: Mapping[str, list[dict[str, str | int]]] = {
    "github/profile": [{"handle": name} for name in ("octocat", "@ada", "grace", "linus")],
    "github/repo": [{"url": f"ada/project-{number}"} for number in range(6)],
    "github/repo/readme": [{"url": f"ada/project-{number}"} for number in range(3)],
    "github/repo/releases": [{"url": "ada/project", "limit": 30}],
    "github/issue": [{"url": f"https://github.com/ada/project/issues/{number}"} for number in range(1, 21)],
    "hackernews/story": [{"id": str(number)} for number in range(8860, 8881)],
    "hackernews/comment": [{"id": "2921983"}, {"id": "90000008863002"}],
    "hackernews/story/comments": [{"id": "8863", "limit": 100}, {"id": "8870", "limit": 3}],
    "hackernews/profile": [{"handle": "pg"}, {"handle": "@ada"}],
}
"""Queries to test in addition to the endpoint's example."""

NULL_IN_ONE: Mapping[str, set[str]] = {
    "github/repo/readme": {"id", "url", "ext.size_bytes"},
    "github/issue": {"ext.node"},
    "hackernews/story": {"engagement.comments", "ext.story_id", "flags.deleted"},
    "hackernews/comment": {"post_id", "replies#0.post_id", "replies#1.post_id"},
    "hackernews/new": {"ext.story_id", "flags.deleted"},
    "hackernews/jobs": {"ext.story_id", "flags.deleted"},
}
"""The fields in which the two sources may differ, by endpoint.

One of the two values must be null, except in the readme's URL, which contains either the branch or `HEAD`.
"""
NEVER_NULL = {"github/repo/readme": {"url"}}
"""Those of these fields that are never null."""


def asked_for(platform: Platform, endpoint: Endpoint) -> list[dict[str, Any]]:
    more = SUBJECTS.get(f"{platform.slug}/{endpoint.resource}", [])
    return [{}, *more]


def records_of(platform: Platform, endpoint: Endpoint, values: Mapping[str, Any], rung_index: int) -> list[Record]:
    params = {**example_values(endpoint), **values}
    credentials = known_of(platform)
    result = drive(platform, endpoint.resource, params, from_sandbox(), rung_index=rung_index, credentials=credentials)
    return result.records if isinstance(result, Page) else [result.record]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf of a record by its dotted path. Entries in a list are numbered."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}#{place}")
    else:
        yield path, value


@every_twin
def test_fallback_returns_the_same_as_the_primary_source(
    platform: Platform, endpoint: Endpoint, rung_index: int
) -> None:
    """Method: compare both records field by field. Exactly the fields listed above differ, and one value is null."""
    name = f"{platform.slug}/{endpoint.resource}"
    untold = NULL_IN_ONE.get(name, set())
    found: set[str] = set()
    for values in asked_for(platform, endpoint):
        own = records_of(platform, endpoint, values, 0)
        other = records_of(platform, endpoint, values, rung_index)
        assert [record["id"] for record in own] == [record["id"] for record in other] or "id" in untold
        for first, second in zip(own, other, strict=True):
            told, told_elsewhere = dict(flat(first)), dict(flat(second))
            assert told.keys() == told_elsewhere.keys()
            differing = {path for path, value in told.items() if value != told_elsewhere[path]}
            either = {path for path in differing if None not in (told[path], told_elsewhere[path])}
            assert either <= NEVER_NULL.get(name, set()), values
            found |= differing
    assert found == untold


@every_rung
def test_fallback_calls_only_its_own_source(platform: Platform, endpoint: Endpoint, rung_index: int) -> None:
    fallback = endpoint.fallbacks[rung_index - 1]
    sources = set[str]()
    upstream = from_sandbox()

    def watched(host_and_path: str, call: Call) -> Any:
        sources.add(call.source)
        return upstream(host_and_path, call)

    drive(platform, endpoint.resource, example_values(endpoint), watched, rung_index=rung_index)
    assert sources == {fallback.source}
    assert fallback.source in platform.sources


@every_platform
def test_ladder_sources_are_distinct(platform: Platform) -> None:
    for endpoint in platform.endpoints:
        if not endpoint.fallbacks:
            continue
        credentials = known_of(platform)
        own = next(endpoint.read(Args(example_values(endpoint), credentials=credentials, now_at=NOW_AT)))
        assert isinstance(own, Call)
        sources = [own.source or next(iter(platform.sources)), *(fallback.source for fallback in endpoint.fallbacks)]
        assert len(set(sources)) == len(sources), endpoint.resource


@every_rung
def test_fallback_pages_repeat_no_record(platform: Platform, endpoint: Endpoint, rung_index: int) -> None:
    if not endpoint.archetype.many:
        return
    params: dict[str, Any] = example_values(endpoint)
    ids: list[str] = []
    cursor = None
    while cursor is not None or not ids:
        page = drive(platform, endpoint.resource, params, from_sandbox(), rung_index=rung_index, cursor=cursor)
        assert not isinstance(page, Single)
        ids += [record["id"] for record in page.records]
        cursor = page.next
    assert len(ids) == len(set(ids)) > 0
