"""Every platform's recorded exchanges through the whole gateway, over sockets: billed, and compared by field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.platforms.case import Case, file_for, recorded, recordings_dir
from tests.platforms.promised import validator
from tests.spec.rows import CONTACT
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.platforms import load_platforms

REFUSED: Mapping[type[UpstreamError], str] = {
    NotFound: "RESOURCE_NOT_FOUND",
    InvalidArgument: "INVALID_REQUEST",
    UpstreamFailed: "UPSTREAM_ERROR",
    UpstreamThrottled: "SERVICE_UNAVAILABLE",
}
COST = {"standard": 1, "advanced": 5, "premium": 10}
ALSO_OF = {"app_store": ("itunes",), "podcasts": ("apple_music",)}
"""Other folders of recordings that belong to a platform."""
NOT_REPLAYED = frozenset(
    ("connection", "content-encoding", "content-length", "date", "keep-alive", "server", "transfer-encoding", "trailer")
)
NO_LIMITS: Mapping[str, Mapping[str, object]] = {
    "limits": {"requests_per_minute": 100_000},
    "breaker": {"failures": 1000},
    "cache": {"max_bytes": 0},
}


def cases_of(platform: Platform) -> tuple[Case, ...]:
    """Return the cases in a platform's folder."""
    cases: tuple[Case, ...] = import_module(f"tests.platforms.{platform.slug}.cases").CASES
    return cases


def with_cases() -> Iterator[Platform]:
    """Return the platforms that have cases."""
    for platform in load_platforms():
        if (Path(__file__).parent / platform.slug / "cases.py").is_file():
            yield platform


PLATFORMS = tuple(with_cases())


@pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])
async def test_recordings_pass_through_the_gateway_unchanged(platform: Platform, tmp_path: Path) -> None:
    """Method: one node processes all cases in order. If its upstream asked for a pause, a new node replaces it."""
    recordings_dir()
    waiting = list(cases_of(platform))[::-1]
    while waiting:
        is_fresh, credentials = True, waiting[-1].credentials
        async with replaying_node(tmp_path / str(len(waiting)), platform, credentials) as node:
            while waiting and waiting[-1].credentials == credentials:
                answer = await replay(node, platform, waiting[-1])
                if answer.status == 503 and not is_fresh:
                    break
                check(platform, waiting.pop(), answer)
                is_fresh = False
            await node.assert_sound()


@pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])
def test_every_recording_is_used_in_a_case_or_listed(platform: Platform) -> None:
    """Method: files without an endpoint are listed at the top of `cases.py`.

    The tests next to it read files of rows.
    """
    tests = Path(__file__).parent / platform.slug
    in_cases = {file for case in cases_of(platform) for file in case.answers.values() if isinstance(file, str)}
    named = re.findall(r"`([^`]+)`", ast.get_docstring(ast.parse((tests / "cases.py").read_text())) or "")
    read = "".join(module.read_text() for module in tests.glob("test_*.py"))
    for folder in (recordings_dir() / name for name in (platform.slug, *ALSO_OF.get(platform.slug, ()))):
        for file in sorted(folder.rglob("*.json")):
            name = file.relative_to(folder).as_posix()
            is_named = any(fnmatch(name, one) or fnmatch(name, f"{one}.json") for one in named)
            is_in_case = bool(in_cases & {name, f"{folder.name}/{name}"})
            assert is_in_case or is_named or f'"{file.stem}' in read, f"{name} is neither in a case nor listed"


@asynccontextmanager
async def replaying_node(folder: Path, platform: Platform, credentials: Mapping[str, str]) -> Any:
    """Open a node in a folder of its own. The platform's credentials are in its environment."""
    settings = {f"{name}_env": f"TEST_{name.upper()}" for name in credentials}
    environ = {f"TEST_{name.upper()}": value for name, value in credentials.items()}
    upstreams = {"operator_contact": CONTACT, "defaults": {"retries": 0}, platform.slug: settings}
    only = (replace(platform, pace=None),)  # a pace would delay the cases
    async with open_test_node(folder, environ=environ, only=only, upstreams=upstreams, **NO_LIMITS) as node:
        yield node


async def replay(node: OpenNode, platform: Platform, case: Case) -> Answered:
    """Make the case's request. The upstream answers with the case's recordings, and returns 404 for any other call."""

    def script(asked: str) -> ScriptedAnswer:
        place = asked.partition("?")[0]
        file = file_for(case.answers, place)
        return ScriptedAnswer(404) if file is None else as_sent(platform.slug, file)

    node.upstream.script = script
    return await node.get(f"/v1/{platform.slug}/{case.resource}?{urlencode(case.params)}")


def as_sent(slug: str, file: str) -> ScriptedAnswer:
    """Return a recording as an upstream would send it, without the headers that belong to the original connection."""
    answer = recorded(slug, file)
    headers = {name: value for name, value in answer.headers.items() if name not in NOT_REPLAYED}
    return ScriptedAnswer(answer.status, answer.raw, headers)


def check(platform: Platform, case: Case, answer: Answered) -> None:
    """Check the answer against the case, check its envelope, and check that it was billed or refunded."""
    body = answer.json
    if case.refused is not None:
        assert answer.code == REFUSED[case.refused], (case.name, body)
        if case.refused is NotFound:
            assert body["error"].get("details", {}).get("reason") == case.reason, case.name
        assert body["credits_used"] == 0
        return
    assert answer.status == 200, (case.name, body)
    endpoint = next(found for found in platform.endpoints if found.resource == case.resource)
    validator(endpoint.archetype).validate(body["data"])
    assert case.expected is not None
    told = case.expected(*(recorded(platform.slug, file).body for file in case.answers.values()))
    records = records_of(endpoint, body["data"])
    assert records == orjson.loads(orjson.dumps(told)), case.name
    is_empty = not records if endpoint.archetype.many else endpoint.archetype.found_nothing(records)
    assert body["credits_used"] == (0 if is_empty else COST[endpoint.tier]), case.name
    if endpoint.archetype.many:
        assert case.has_more is None or body["pagination"]["has_more"] == case.has_more, case.name
        assert case.total is None or body["data"]["total"] == case.total, case.name


def records_of(endpoint: Endpoint, data: dict[str, Any]) -> Any:
    """Return the records without members that the gateway adds."""
    key = endpoint.archetype.key
    if endpoint.archetype.many:
        return [item[key] for item in data["items"]]
    return data[key] if key else {name: value for name, value in data.items() if name not in {"legs", "_warnings"}}
