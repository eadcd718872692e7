"""Every platform's recorded exchanges, compared by field: all as reads, and some through the whole gateway, billed."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from gateway.http.errors import refusal_of
from tests.fakes.calling import Answered
from tests.fakes.gathering import GatheredFailures
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.shared_loop import sharing
from tests.gate.matrix import by_platform, of_run
from tests.platforms.bench import PATIENCE_S, end_pauses
from tests.platforms.case import Case, file_for, recorded, recordings_dir
from tests.platforms.case import check as check_read
from tests.platforms.each import named
from tests.platforms.promised import validator
from tests.spec.rows import CONTACT
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import (
    InvalidArgument,
    InvalidCursor,
    NotFound,
    SourceUnusable,
    StaleCursor,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.platforms import load_platforms

REFUSALS: Sequence[UpstreamError] = (
    *(NotFound(), InvalidArgument("name", "is wrong"), StaleCursor(), InvalidCursor("is malformed")),
    *(UpstreamFailed("api", "is away"), UpstreamThrottled("api"), SourceUnusable("api", "needs a key")),
)
"""One refusal of each kind."""
REFUSED: Mapping[type[UpstreamError], str] = {type(one): refusal_of(one).code.name for one in REFUSALS}
"""The error codes that the API documents for these refusals, and for those derived from them."""
COST = {"standard": 1, "advanced": 5, "premium": 10}
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


PLATFORMS = of_run(with_cases(), lambda platform: platform.slug)
every_platform = named(PLATFORMS)


def known_in(cases: Iterable[Case]) -> list[Mapping[str, str]]:
    """Return the different sets of credentials with which cases run. The first one is empty."""
    found: list[Mapping[str, str]] = [{}]
    for case in cases:
        if case.credentials not in found:
            found.append(case.credentials)
    return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OpenNode]]:
    """Nodes with all platforms. The first one has no credentials, and the others have the cases' credentials."""
    with sharing(open_replaying(tmp_path_factory.mktemp("replaying"))) as opened:
        yield opened


@asynccontextmanager
async def open_replaying(folder: Path) -> AsyncIterator[list[OpenNode]]:
    """Open as many nodes as any platform has different sets of credentials, and verify their ledgers at the end."""
    known = {platform.slug: known_in(cases_of(platform)) for platform in PLATFORMS}
    only = tuple(replace(platform, pace=None) for platform in PLATFORMS)  # a pace would delay the cases
    async with AsyncExitStack() as stack:
        nodes = []
        for round_ in range(max(map(len, known.values()))):
            told = {slug: sets[round_] for slug, sets in known.items() if round_ < len(sets)}
            variables = {slug: {f"{name}_env": f"{slug}_{name}".upper() for name in of} for slug, of in told.items()}
            environ = {f"{slug}_{name}".upper(): value for slug, of in told.items() for name, value in of.items()}
            upstreams = {"operator_contact": CONTACT, "defaults": {"retries": 0}, **variables}
            tables = {"upstreams": upstreams, **NO_LIMITS}
            opening = open_test_node(folder / str(round_), environ=environ, only=only, patience_s=PATIENCE_S, **tables)
            nodes.append(await stack.enter_async_context(opening))
        yield nodes
        for node in nodes:
            await node.assert_sound()


@every_platform
def test_reads_of_recordings_return_the_expected_records(platform: Platform) -> None:
    """Method: run the reads of all cases without a node."""
    recordings_dir()
    failures = GatheredFailures()
    for case in cases_of(platform):
        with failures.case(case.name):
            check_read(platform, case)
    failures.report()


SOME = by_platform(
    ((platform, case) for platform in PLATFORMS for case in cases_of(platform)), lambda pair: pair[0].slug
)


@pytest.mark.parametrize("chosen", SOME.values(), ids=SOME)
async def test_recordings_pass_through_the_gateway_unchanged(
    chosen: Sequence[tuple[Platform, Case]], nodes: list[OpenNode]
) -> None:
    """Method: nodes process a sixth of the cases. Pauses that a recorded answer asks for end before the next case."""
    recordings_dir()
    failures = GatheredFailures()
    for platform, case in chosen:
        node = nodes[known_in(cases_of(platform)).index(case.credentials)]
        with failures.case(case.name):
            check(platform, case, await replay(node, platform, case))
        end_pauses(node.node.catalog.sites[platform.slug])
        assert (await node.money())[1] == 0, "credits stay reserved"
    failures.report()


@every_platform
def test_every_recording_is_used_in_a_case_or_listed(platform: Platform) -> None:
    """Method: files without an endpoint are listed at the top of `cases.py`, as patterns that may begin with a folder.

    The folders are the platform's own and those of which a case uses a file. The tests next to the cases read files of
    rows.
    """
    tests = Path(__file__).parent / platform.slug
    in_cases = {file for case in cases_of(platform) for file in case.answers.values() if isinstance(file, str)}
    named = re.findall(r"`([^`]+)`", ast.get_docstring(ast.parse((tests / "cases.py").read_text())) or "")
    read = "".join(module.read_text() for module in tests.glob("test_*.py"))
    folders = dict.fromkeys((platform.slug, *(file.partition("/")[0] for file in in_cases if "/" in file)))
    for folder in (recordings_dir() / name for name in folders):
        for file in sorted(folder.rglob("*.json")):
            name = file.relative_to(folder).as_posix()
            spelled = (name, name.removesuffix(".json"), f"{folder.name}/{name}")
            is_named = any(fnmatch(one, pattern) for one in spelled for pattern in named)
            is_in_case = bool(in_cases & {name, f"{folder.name}/{name}"})
            assert is_in_case or is_named or f'"{file.stem}' in read, f"{name} is neither in a case nor listed"


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
        assert answer.code == code_of(case.refused), (case.name, body)
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


def code_of(refused: type[UpstreamError]) -> str:
    """Return the error code of a refusal, which may be derived from one of those above."""
    return next(REFUSED[kind] for kind in refused.__mro__ if kind in REFUSED)


def records_of(endpoint: Endpoint, data: dict[str, Any]) -> Any:
    """Return the records without members that the gateway adds."""
    key = endpoint.archetype.key
    if endpoint.archetype.many:
        return [item[key] for item in data["items"]]
    return data[key] if key else {name: value for name, value in data.items() if name not in {"legs", "_warnings"}}
