"""The sandbox: its answers over ASGI, its simulated failures, and rehearsals of every endpoint."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import quote

import orjson
import pytest
import trio
from trio.testing import MockClock

from upstreams.model.archetypes import AUTHOR, DOSSIER
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamThrottled
from upstreams.model.params import Args, Param
from upstreams.model.steps import Call, Page, Single, Steps
from upstreams.platforms import load_platforms
from upstreams.sandbox.app import DRIFT_STEP_S, Behaviour, Sandbox, drifted
from upstreams.sandbox.invent import EPOCH_S, paragraph, person, seeded, sentence, unix_time
from upstreams.sandbox.rehearse import example_values, rehearse
from upstreams.sandbox.site import request_of
from upstreams.sandbox.stand_ins import load_routes
from upstreams.suppliers import resolve_address

NOW_AT = 1_735_689_600.0
COUNTED = ("followersCount", "followsCount", "postsCount")
GITHUB = "api.github.com"
ENDPOINTS = [(platform, endpoint) for platform in load_platforms() for endpoint in platform.endpoints]
every_endpoint = pytest.mark.parametrize(
    ("platform", "endpoint"),
    ENDPOINTS,
    ids=[f"{platform.slug}/{endpoint.resource}" for platform, endpoint in ENDPOINTS],
)


async def ask(sandbox: Sandbox, path: str, query: str = "") -> tuple[int, dict[str, str], bytes]:
    """Return the sandbox's answer to a request: status, headers and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        raise AssertionError("the sandbox does not read bodies")

    scope = {"type": "http", "path": path, "raw_path": quote(path).encode(), "query_string": query.encode()}
    await sandbox(scope, receive, send)
    start, body = sent
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, body["body"]


# The app


async def test_answer_is_json_with_content_length() -> None:
    sandbox = Sandbox(Behaviour(), Random(1))
    status, headers, body = await ask(sandbox, f"/{GITHUB}/users/ada")
    assert status == 200
    assert orjson.loads(body)["login"] == "ada"
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(body))


async def test_same_request_gets_the_same_answer() -> None:
    first, second = Sandbox(Behaviour(), Random(1)), Sandbox(Behaviour(), Random(2))
    assert await ask(first, f"/{GITHUB}/users/ada") == await ask(second, f"/{GITHUB}/users/ada")
    assert (await ask(first, f"/{GITHUB}/users/ada"))[2] != (await ask(first, f"/{GITHUB}/users/grace"))[2]


@pytest.mark.parametrize("path", ["/", "//", "/nowhere.test/x", f"/{GITHUB}", f"/{GITHUB}/no/such/path/here", "/é/ü"])
async def test_unknown_path_is_not_found(path: str) -> None:
    status, _, body = await ask(Sandbox(Behaviour(), Random(1)), path)
    assert status == 404
    assert "The sandbox has no" in orjson.loads(body)["message"]


@pytest.mark.parametrize(("subject", "statuses"), [("missing", {404}), ("throttled", {403, 429}), ("broken", {500})])
async def test_trigger_words_cause_failures(subject: str, statuses: set[int]) -> None:
    assert (await ask(Sandbox(Behaviour(), Random(1)), f"/{GITHUB}/users/{subject}"))[0] in statuses


async def test_only_http_is_served() -> None:
    with pytest.raises(RuntimeError, match="Scope type websocket is not supported"):
        await Sandbox(Behaviour(), Random(1))({"type": "websocket"}, trio.sleep_forever, trio.sleep)


async def test_latency_applies_to_every_answer(autojump_clock: MockClock) -> None:
    behaviour = Behaviour(latency_s=0.25)
    sandbox = Sandbox(behaviour, Random(1))
    await ask(sandbox, f"/{GITHUB}/users/ada")
    assert trio.current_time() == 0.25
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, sandbox, f"/{GITHUB}/users/ada")
    assert trio.current_time() == 0.5, "requests wait concurrently"
    behaviour.latency_s = 0.0
    await ask(sandbox, f"/{GITHUB}/users/ada")
    assert trio.current_time() == 0.5
    assert sandbox.requests_total == 22


@pytest.mark.parametrize(("rate", "low", "high"), [(0.0, 0, 0), (0.2, 50, 110), (1.0, 400, 400)])
async def test_requests_fail_at_the_failure_rate(rate: float, low: int, high: int) -> None:
    sandbox = Sandbox(Behaviour(failure_rate=rate), Random(5))
    statuses = [(await ask(sandbox, f"/{GITHUB}/users/ada"))[0] for _ in range(400)]
    assert set(statuses) <= {200, 503}
    assert low <= statuses.count(503) <= high
    assert sandbox.requests_total == 400


async def test_failure_rate_can_change_and_rng_is_injected() -> None:
    def patterns() -> Sandbox:
        return Sandbox(Behaviour(failure_rate=0.5), Random(9))

    one, other = patterns(), patterns()
    assert [(await ask(one, f"/{GITHUB}/users/ada"))[0] for _ in range(30)] == [
        (await ask(other, f"/{GITHUB}/users/ada"))[0] for _ in range(30)
    ]
    one.behaviour.failure_rate = 0.0
    assert {(await ask(one, f"/{GITHUB}/users/ada"))[0] for _ in range(30)} == {200}


# Rehearsals


@every_endpoint
def test_every_endpoint_rehearses_its_example(platform: Platform, endpoint: Endpoint) -> None:
    result = rehearse(platform, endpoint, NOW_AT)
    if endpoint.archetype.many:
        assert isinstance(result, Page)
        assert result.records, "an example must have rows"
    else:
        assert isinstance(result, Single)
        assert result.record, "an example must have a record"
        assert all(leg.answer for leg in result.legs), "an example must not have failed legs"
    assert not result.warnings
    assert rehearse(platform, endpoint, NOW_AT) == result, "rehearsals are deterministic"
    assert orjson.dumps(result.record if isinstance(result, Single) else result.records)


@every_endpoint
def test_example_sends_required_values_and_defaults(platform: Platform, endpoint: Endpoint) -> None:
    values = example_values(endpoint)
    for group in endpoint.one_of:
        assert len(values.keys() & set(group)) == 1
    for param in endpoint.params:
        assert param.name in values or not param.required
        assert param.default is None or param.name in values


def test_every_source_has_a_sandbox() -> None:
    """A source that accepts whole URLs has stand-ins for the hosts in its examples."""
    hosts = load_routes()
    for platform in load_platforms():
        params = [param for endpoint in platform.endpoints for param in endpoint.params]
        addresses = {param.canonical(param.example).partition("/")[0] for param in params if param.is_address}
        for name, base_url in platform.sources.items():
            is_named_whole = platform.host_of(name) not in (None, *(param.name for param in params))
            wanted = addresses if is_named_whole else {resolve_address(base_url).split("/")[2]}
            assert wanted <= hosts.keys(), (platform.slug, base_url)


def small(path: str, *, optional: bool = False) -> tuple[Platform, Endpoint]:
    """An endpoint that makes one call to GitHub's stand-in and records the answer."""

    def read(_args: Args) -> Steps:
        answer = yield Call(path, optional=optional)
        return Single({"body": answer.body} if answer else {"missing": answer.problem})

    endpoint = Endpoint(resource="x", summary="An x.", archetype=DOSSIER, read=read)
    github = next(platform for platform in load_platforms() if platform.slug == "github")
    return github, endpoint


def test_example_segment_is_decoded_once() -> None:
    result = rehearse(*small("/users/a%2Fb%2525"), NOW_AT)
    assert isinstance(result, Single)
    assert result.record["body"]["login"] == "a/b%25"


def test_sandbox_refusal_is_judged_by_the_platform() -> None:
    with pytest.raises(NotFound):
        rehearse(*small("/users/missing"), NOW_AT)
    with pytest.raises(UpstreamThrottled):
        rehearse(*small("/users/throttled"), NOW_AT)
    with pytest.raises(LookupError):
        rehearse(*small("/users/broken"), NOW_AT)


def test_failed_optional_call_is_missing_in_a_rehearsal() -> None:
    assert rehearse(*small("/users/missing", optional=True), NOW_AT) == Single({"missing": "status 404"})


def test_required_examples_override_defaults() -> None:
    def read(_args: Args) -> Steps:
        answer = yield Call("/users/ada")
        return Single(answer.body)

    params = (
        Param("id", "An id.", "7", required=True),
        Param("sort", "Order.", "top", default="new"),
        Param("site", "A site.", "b", required=True, default="a"),
        Param("handle", "A handle.", "ada"),
        Param("user_id", "An id.", "1"),
        Param("free", "Anything.", "x"),
    )
    endpoint = Endpoint(
        resource="x", summary="An x.", archetype=AUTHOR, read=read, params=params, one_of=(("handle", "user_id"),)
    )
    assert example_values(endpoint) == {"id": "7", "sort": "new", "site": "b", "handle": "ada"}


# Invented facts


def test_invented_facts_depend_only_on_the_subject() -> None:
    assert person(seeded("github", "ada")) == person(seeded("github", "ada"))
    assert len({paragraph(seeded("github", number)) for number in range(50)}) > 40


def test_invented_words_and_timestamps_are_plausible() -> None:
    for number in range(200):
        rng = seeded(number)
        assert len(person(rng).split()) == 2
        assert sentence(rng).endswith(".")
        assert paragraph(rng, 4).count(".") == 4
        assert EPOCH_S <= unix_time(rng) < EPOCH_S + 5 * 366 * 86_400


def test_only_counters_drift() -> None:
    body = {"followers": 1_000, "id": 7, "ok": True, "items": [{"score": 3}], "stargazers": {"totalCount": 200}}
    assert drifted(body, 0) == body
    assert drifted(body, 2) == {
        "followers": 1_012,
        "id": 7,
        "ok": True,
        "items": [{"score": 5}],
        "stargazers": {"totalCount": 204},
    }
    assert drifted({"search": {"totalCount": 5}}, 3) == {"search": {"totalCount": 5}}


async def test_generated_stand_ins_drift_step_by_step_if_enabled(autojump_clock: MockClock) -> None:
    path = "/public.api.bsky.app/xrpc/app.bsky.actor.getProfile"
    behaviour = Behaviour(drifts=True)
    sandbox = Sandbox(behaviour, Random(1))
    first = orjson.loads((await ask(sandbox, path, "actor=ada.test"))[2])
    await trio.sleep(3 * DRIFT_STEP_S)
    later = orjson.loads((await ask(sandbox, path, "actor=ada.test"))[2])
    assert later == {**first, **{name: first[name] + 3 * (1 + first[name] // 200) for name in COUNTED}}
    behaviour.drifts = False
    assert orjson.loads((await ask(sandbox, path, "actor=ada.test"))[2]) == first


@pytest.mark.parametrize(
    ("body", "name"),
    [(b'{"query": {"name": "ada"}}', "ada"), (b"query.name=grace&x=1", "grace"), (b"x" * 70_000, ""), (b"", "")],
)
def test_request_body_is_json_or_form(body: bytes, name: str) -> None:
    assert request_of("POST", "a.example", "/x?y=1&y=2", body).values.get("query.name", "") == name
    assert request_of("POST", "a.example", "/x?y=1&y=2", body).query == {"y": "1,2"}
