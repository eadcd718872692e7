"""A node that is asked what its upstream answers well, and then again while the upstream answers oddly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
import trio

from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import Told
from tests.platforms.case import file_for, recordings_dir
from tests.platforms.promised import check_data
from tests.platforms.test_recordings import COST, NO_LIMITS, as_sent, cases_of
from tests.spec.rows import CREDENTIALS, ENVIRON
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.sandbox import site
from upstreams.sandbox.rehearse import example_values
from upstreams.sandbox.stand_ins import load_routes

Record = dict[str, Any]
ROUTES = load_routes()
SESSION = {"identifier": "ada.test", "password": "abcd-efgh"}
SIGN_IN = "createSession"


@dataclass(slots=True)
class Question:
    """A request that is answered well, and what the upstream says to it, by `host/path?query`."""

    endpoint: Endpoint
    target: str
    files: Mapping[str, str]
    told: dict[str, Told] = field(default_factory=dict)
    data: Record = field(default_factory=dict)

    def learn(self, slug: str, asked: str) -> Told:
        """The upstream's good answer: a recording, or what the stand-in says."""
        place = asked.partition("?")[0]
        file = file_for(self.files, place)
        if file is not None:
            self.told[asked] = as_sent(slug, file)
        elif asked not in self.told:
            self.told[asked] = Told(404) if self.files else from_stand_in(asked)
        return self.told[asked]

    @property
    def odd_ones(self) -> list[str]:
        """The upstream requests whose answers may be changed."""
        return sorted(asked for asked, told in self.told.items() if told.status == 200 and SIGN_IN not in asked)


def from_stand_in(asked: str) -> Told:
    """The sandbox's answer to `host/path?query`."""
    place, _, query = asked.partition("?")
    host, _, path = place.partition("/")
    values = dict(parse_qsl(query, keep_blank_values=True))
    reply = site.answer(ROUTES, site.SandboxRequest(host, f"/{path}", values, json=SESSION))
    return Told(reply.status, orjson.dumps(reply.body), {"content-type": "application/json", **reply.headers})


def questions_of(platform: Platform) -> Iterator[Question]:
    """Every recorded exchange of the platform that is a good one, and the examples of endpoints that have none."""
    recorded = [case for case in cases_of(platform) if case.refused is None and not case.credentials]
    endpoints = {endpoint.resource: endpoint for endpoint in platform.endpoints}
    asked_for: Iterable[tuple[str, Mapping[str, object], Mapping[str, str]]] = (
        *((case.resource, case.params, case.answers) for case in recorded),
        *(
            (name, example_values(one), {})
            for name, one in endpoints.items()
            if name not in {c.resource for c in recorded}
        ),
    )
    for resource, values, files in asked_for:
        yield Question(endpoints[resource], f"/v1/{platform.slug}/{resource}?{urlencode(values)}", files)


@dataclass(slots=True)
class Bench:
    """A node before one platform, the questions that it answers well, and what it was paid for them."""

    node: OpenNode
    platform: Platform
    questions: list[Question]
    credits_used: int = 0

    async def ask(self, question: Question) -> Answered:
        """The node's answer, in time."""
        with trio.fail_after(10):
            answer = await self.node.get(question.target)
        self.credits_used += answer.json["credits_used"]
        return answer

    async def learn(self) -> None:
        """Ask every question while the upstream answers well."""
        for question in self.questions:
            self.node.upstream.script = partial(question.learn, self.platform.slug)
            answer = await self.ask(question)
            assert answer.status == 200, (question.target, answer.json)
            check_envelope(question, answer)
            question.data = answer.json["data"]

    async def ask_with(self, question: Question, odd: str, told: Told) -> Answered:
        """The node's answer where the upstream's to `odd` is this one; pages beyond those known are like these."""
        places = {asked.partition("?")[0]: good for asked, good in question.told.items()}

        def script(asked: str) -> Told:
            return told if asked == odd else question.told.get(asked) or places.get(asked.partition("?")[0], Told(404))

        self.node.upstream.script = script
        return await self.ask(question)

    async def assert_sound(self) -> None:
        """A request that was not answered is refunded: the balance is as it was, less the costs that answers name."""
        await self.node.assert_sound()
        assert await self.node.money() == (CREDITS - self.credits_used, 0)


@asynccontextmanager
async def open_bench(platform: Platform, folder: Path) -> AsyncIterator[Bench]:
    """A node that has learnt the good answers; it proves its books when the block ends."""
    recordings_dir()
    upstreams = {"defaults": {"retries": 0}, **CREDENTIALS}
    async with open_test_node(folder, environ=ENVIRON, upstreams=upstreams, **NO_LIMITS) as node:
        bench = Bench(node, platform, list(questions_of(platform)))
        await bench.learn()
        yield bench
        assert node.log_events("request_failed") == []
        await bench.assert_sound()


def check_envelope(question: Question, answer: Answered) -> None:
    """The answer keeps every promise: of a success, of nothing, or of a failure."""
    body = answer.json
    assert body["request_id"] == answer.headers["x-request-id"]
    if answer.status != 200:
        assert (answer.status, answer.code) in {(404, "RESOURCE_NOT_FOUND"), (502, "UPSTREAM_ERROR")}, body
        assert body["credits_used"] == 0
        return
    endpoint = question.endpoint
    assert body["success"] is True
    assert body["cached"] is False
    pages_or_legs = endpoint.collect is not None or "legs" in body["data"]  # billed by what came of them
    assert pages_or_legs or body["credits_used"] == COST[endpoint.tier]
    check_data(endpoint.archetype.name, body["data"])
    if endpoint.archetype.many:
        page = body["pagination"]
        assert page["page_size"] == len(body["data"]["items"])
        assert page["has_more"] is (page["next_cursor"] is not None)
    else:
        key = endpoint.archetype.key
        assert not key or key == "article" or body["data"][key]["id"] is not None
