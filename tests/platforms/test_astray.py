"""No value from a caller leads an adapter to another host or path, whichever parameter or cursor contains it.

For each parameter, a plain word is sent first. Wherever the word occurs in the upstream request, other values may occur
too. Then hostile values are sent. Each must be refused for free, and the error must name the parameter. Otherwise, it
must occur at exactly the same positions and change nothing else. Requests are compared as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import orjson
import pytest
import trio

from gateway.http.errors import Refused, refusal_of
from gateway.http.params import declared_by
from gateway.http.request import query_of
from tests.fakes.scripted_exchange import LONG_S, source_over
from tests.gate.changed import changed_platforms
from tests.gate.matrix import sample, sample_platforms
from tests.platforms.credentials import known_of
from tests.platforms.drive import address_at
from tests.simulation.scheduling import run_seeded
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, UpstreamError
from upstreams.model.params import Args, Param, State
from upstreams.model.steps import Call
from upstreams.platforms import load_platforms
from upstreams.sandbox.rehearse import example_values
from upstreams.sandbox.site import answer, request_of
from upstreams.sandbox.stand_ins import load_routes
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.pooled import header_lines, request_bytes

ROUTES = load_routes()

PLAIN = ("zq7x", "73517")
"""Words that occur nowhere else. Numbers are included, because some parameters accept only numbers."""
PIECES = (
    *("..", ".", "/", "\\", "a", "b1", "/../", "..\\", "..;/", "%2e", "%2E%2E", "%252e%252e", "%2f", "%252F", "%5c"),
    *("\uff0e", "\u2025", "\uff0f", "\uff3c", "\u3002", "\u0663", "\uff17", "é", "😀", "\ufeff", "\u202e"),
    *("user@evil.test", "user:pw@", "@", ":", "://", "//evil.test", "http://evil.test/", "#", "?", ";", "&", "=", "+"),
    *(" ", "\t", "\r\n", "\n", "\r\nHost: evil\r\n", "\0", "\x7f", "~", "*", ".git", ".json", "x" * 300, "%", "%zz"),
    *("did:plc:", ",", "(", '"', "<"),
)
COMBINED = tuple("".join(chance.choices(PIECES, k=chance.randint(1, 5))) for chance in map(Random, range(25)))
LISTED = ("..", ".", "%2e%2e", "%252e%252e", "../..", "a/../../user", "..\\..", "\uff0e\uff0e", "@", "x" * 5_000)
HOSTILE = (*LISTED, *(put for put in COMBINED if put.strip()))
"""Listed values, and combinations of pieces that are the same in every run. `test_spellings.py` sends blank values."""
SOME_HOSTILE = (*LISTED, *sample(HOSTILE[len(LISTED) :], share=3))
"""The values for platforms that the change does not touch: the listed ones, and some of the combinations."""
SOME_HOST = "feeds.npr.org"
Sent = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], str]
"""A request, parsed from its bytes: host, path segments and query, all decoded, and the body."""


@dataclass(frozen=True, eq=False)
class Place:
    """A place for a caller's value: a parameter, a segment of a URL in a parameter, or the cursor (`param` is None)."""

    platform: Platform
    endpoint: Endpoint
    param: Param | None
    piece: int = -1
    failing: int = 0
    """How many sources fail before a fallback answers."""

    def __str__(self) -> str:
        name = "cursor" if self.param is None else self.param.name
        return f"{self.platform.slug}/{self.endpoint.resource} {name} {self.piece} {self.failing}"

    @property
    def name(self) -> str:
        return "cursor" if self.param is None else self.param.name

    def value(self, put: str) -> str:
        """Return the parameter's value, with `put` inserted at this place."""
        assert self.param is not None
        if self.piece < 0:
            return put
        pieces = self.param.example.split("/")
        pieces[self.piece] = put.replace("/", "%2F").replace("?", "%3F").replace("#", "%23")  # always one segment
        return "/".join(pieces)


def places() -> Iterator[Place]:
    for platform in load_platforms():
        for endpoint in platform.endpoints:
            for failing in range(len(endpoint.fallbacks) + 1):
                for param in endpoint.params:
                    if param.type in ("string", "url") and not param.choices and not param.is_host:
                        depth = len(param.example.split("/")) if param.type == "url" else 0
                        pieces = (-1, *range(3, depth))
                        yield from (Place(platform, endpoint, param, piece, failing) for piece in pieces)
                if endpoint.archetype.many:
                    yield Place(platform, endpoint, None, failing=failing)


PLACES = tuple(places())
SOME = sample_platforms(PLACES, lambda place: place.platform.slug)


def few_rows(endpoint: Endpoint) -> dict[str, int]:
    """Return a page size with few rows."""
    return {"limit": 3} if any(param.name == "limit" for param in endpoint.params) else {}


def read_values(place: Place, put: str) -> tuple[dict[str, Any], State | None]:
    """Return the values that the gateway reads from a query string.

    Raises:
        Refused: The gateway does not accept the query string.
    """
    values = {**example_values(place.endpoint), **few_rows(place.endpoint)}
    if place.param is None:
        return values, {"c": put, "m": put}
    for group in place.endpoint.one_of:
        if place.param.name in group:
            values = {name: value for name, value in values.items() if name not in group}
    pairs = {**{name: str(value) for name, value in values.items()}, place.param.name: place.value(put)}
    read = declared_by(place.endpoint).read(query_of(urlencode(pairs).encode()))
    return {name: value for name, value in read.items() if name not in ("cursor", "dry_run")}, None


def sent_by(place: Place, put: str, answers: list[HttpAnswer]) -> list[Sent]:
    """Return the upstream requests that a value causes. First `answers` are used, and then the stand-in's answers.

    Raises:
        Refused, InvalidArgument: The value was refused.
    """
    values, cursor = read_values(place, put)
    credentials = {**known_of(place.platform), **{name: f"{name}.test" for name in place.platform.partners}}
    sent: list[Sent] = []

    async def exchange(call: HttpCall, deadline_at: float) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        headers = header_lines(call.origin.authority, call.headers)
        sent.append(as_sent(request_bytes(call, target=call.target, headers=headers)))
        if len(sent) > len(answers):
            is_away = sum(one.status == 503 for one in answers) < place.failing and call.method == "GET"
            answers.append(HttpAnswer(503, {}, b"") if is_away else answer_to(call))
        return answers[len(sent) - 1]

    def begin() -> Any:
        examples = example_values(place.endpoint)
        sources = {
            name: source_over(
                exchange,
                name=name,
                base_url=base_of(place.platform, name, examples),
                judge=place.platform.judge,
                rules=Rules(retries=0),
                rng=Random(0),
            )
            for name in place.platform.sources
        }
        site = Site(place.platform, sources, credentials=credentials, user_agent="sluice/1")
        return plan(site, place.endpoint, Args(values, cursor, credentials, 1_735_689_600.0))

    async def run() -> None:
        planned = begin()
        try:
            await fetch(planned, trio.current_time() + LONG_S)
        except UpstreamError:
            assert sent, "a refusal before the first call must happen when planning"

    run_seeded(run, 0)  # calls of one round are made in the same order for every value
    return sent


def base_of(platform: Platform, source: str, values: Mapping[str, Any]) -> str:
    """Return a source's base URL. If its host comes from a caller or an answer, use any host."""
    param = platform.host_of(source)
    call = Call("", source=source, host="" if param is None or param in values else SOME_HOST)
    return address_at(platform, call, values)


def as_sent(request: bytes) -> Sent:
    """Parse a request strictly: it must be one request line and one head, and must end after its body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, version = first.split(b" ")
    assert (method in (b"GET", b"POST"), version) == (True, b"HTTP/1.1")
    hosts = [line for line in lines if line.lower().startswith(b"host:")]
    assert len(hosts) == 1
    assert not any(byte < 0x21 or byte > 0x7E for byte in target)
    assert b"#" not in target
    path, _, query = target.decode().partition("?")
    assert ".." not in unquote(unquote(path)).replace("\\", "/").split("/")
    segments = tuple(unquote(segment, errors="strict") for segment in path.split("/"))
    pairs = tuple(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"))
    lengths = [int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")]
    assert lengths == ([len(body)] if body or method == b"POST" else [])
    return hosts[0].decode(), segments, pairs, body.decode()


def answer_to(call: HttpCall) -> HttpAnswer:
    reply = answer(ROUTES, request_of(call.method, call.origin.host, call.target, call.body))
    body = reply.body.encode() if isinstance(reply.body, str) else orjson.dumps(reply.body)
    return HttpAnswer(reply.status, {"content-type": "application/json"}, body)


@cache
def plain_of(place: Place) -> tuple[str, list[Sent], list[HttpAnswer]] | None:
    """Return the requests for a plain word at this place, and the answers. None if plain words are refused."""
    for word in PLAIN:
        answers: list[HttpAnswer] = []
        try:
            return word, sent_by(place, word, answers), answers
        except (Refused, InvalidArgument):
            continue
    return None


def with_value(sent: Sent, word: str, value: str) -> Sent:
    host, segments, pairs, body = sent
    in_json = orjson.dumps(value).decode()[1:-1]
    return (
        host,
        tuple(segment.replace(word, value) for segment in segments),
        tuple((name, text.replace(word, value)) for name, text in pairs),
        body.replace(word, in_json),
    )


def readings(place: Place, put: str) -> set[str]:
    """Return the value in every form into which an adapter may convert it."""
    found = {put}
    if place.param is not None and place.piece >= 0:
        found.add(unquote(place.value(put).split("/")[place.piece]))
    if place.param is not None:
        with suppress(InvalidArgument):
            found.add(place.param.canonical(place.value(put)))
    found |= {one.strip() for one in found}
    found |= {one.removesuffix(".git") for one in found}
    found |= {one.removeprefix("@") for one in found} | {one.removeprefix("did:") for one in found}
    return found | {one.lower() for one in found}


def check(place: Place, put: str) -> None:
    """Method: every request receives the same answers as the plain word's, so requests can differ only by the value."""
    plain = plain_of(place)
    try:
        sent = sent_by(place, put, [] if plain is None else list(plain[2]))
    except (Refused, InvalidArgument) as exc:
        refused = refusal_of(exc)
        told = (refused.code.name, refused.code.status, (refused.details or {}).get("param"))
        assert told == ("INVALID_REQUEST", 400, place.name), refused
    else:
        assert sent
        if plain is None:  # The value was converted, as dates are, so the request does not contain it.
            values = example_values(place.endpoint)
            bases = [base_of(place.platform, name, values) for name in place.platform.sources]
            assert {host for host, *_ in sent} <= {f"Host: {urlsplit(base).netloc}" for base in bases}
            return
        word, expected, _ = plain
        allowed = [with_value(one, word, value) for value in readings(place, put) for one in expected]
        for one in (sent[0], *(one for one in sent[1:] if one not in expected)):
            assert one in allowed, (one, expected)


@pytest.mark.parametrize("place", SOME, ids=str)
def test_hostile_value_is_refused_or_stays_in_its_place(place: Place) -> None:
    for put in HOSTILE if place.platform.slug in changed_platforms() else SOME_HOSTILE:
        check(place, put)


def test_every_platform_and_kind_of_value_is_covered() -> None:
    assert {place.platform.slug for place in PLACES} == {platform.slug for platform in load_platforms()}
    assert any(place.failing for place in PLACES)
    assert sum(plain_of(place) is None for place in SOME) <= len(SOME) / 2
