"""Section 7.2: INTERNAL_ERROR is for unexpected faults; no request alone causes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from urllib.parse import quote

import pytest

from tests.fakes.node import OpenNode
from tests.gate.matrix import SHARE, by_platform
from tests.spec.raw import raw_request
from tests.spec.rows import CREDENTIALS, ROWS, Row
from upstreams.model.params import Param

NASTY = (
    "\0",
    ".",
    "../../etc/passwd",
    "%",
    "%00",
    "a/b",
    "?",
    "&=",
    "'\"`",
    "\r\nx: y",
    "-1",
    "0",
    "٣",
    "9" * 19,
    "9" * 400,
    "{}",
    "did:",
    "did:plc:",
    "at://",
    "https://[",
    "https://[::1",
    "https://github.com/",
    "https://github.com/a",
    "https://github.com/a/b/issues/",
    "https://github.com/a/b/issues/x",
    "https://github.com:99999/a/b",
    "https://bsky.app/profile/",
    "https://bsky.app/profile/a/post/",
    "https://user:pass@github.com/a/b",
    "github.com/a/b",
    "a/b/c/d",
    "2024-13-45",
    "2024-02-30T25:61:61Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01",
    "é" * 300,
    "🌊",
)
PATIENT = {"limits": {"requests_per_minute": 100_000}, "breaker": {"failures": 100_000}}
STATUSES = {200, 400, 401, 404, 405, 414, 431}

Odd = tuple[Row, Param, str]


def odd_requests() -> Iterator[Odd]:
    """Return every endpoint's free text and URL parameters with each unusual value."""
    for row in ROWS:
        for param in row.endpoint.params:
            if param.type in {"string", "url"} and not param.choices:
                yield from ((row, param, value) for value in NASTY)


PIECE = 200
"""Requests of one test. A test has limited time, and a whole matrix has thousands of requests for one platform."""


def chosen_of(*, are_composites: bool, share: int) -> dict[str, tuple[Odd, ...]]:
    odd = (one for one in odd_requests() if (not one[0].platform.sources) is are_composites)
    found = by_platform(odd, lambda one: one[0].platform.slug, share)
    return {
        f"{slug} {start}" if start else slug: chosen[start : start + PIECE]
        for slug, chosen in found.items()
        for start in range(0, len(chosen), PIECE)
    }


CHOSEN = chosen_of(are_composites=False, share=6 * SHARE) | chosen_of(are_composites=True, share=16 * SHARE)
"""One in 36 requests by platform, because all parameters of a type share their checks; see `tests.gate.matrix`.

Of the composites, it is one in 96, because their requests call many platforms.
"""
NODE = {"upstreams": {"defaults": {"retries": 0}, **CREDENTIALS}, "credits": 10_000_000, **PATIENT}


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
async def test_no_parameter_value_causes_an_internal_error(chosen: Sequence[Odd], node: OpenNode) -> None:
    """Method: one parameter has an unusual value, and the others are as in the example."""
    for row, param, value in chosen:
        answer = await node.get(with_value(row, param, value))
        assert answer.status in STATUSES, (row.id, param.name, value, answer.body)
    assert node.log_events("request_failed") == []


def with_value(row: Row, param: Param, value: str) -> str:
    """Return the example request with another value. Of a group of parameters, only this one is sent."""
    others = {name: None for group in row.endpoint.one_of if param.name in group for name in group}
    base = row.target(**{**others, param.name: None})
    return f"{base}{'&' if '?' in base else '?'}{param.name}={quote(value, safe='')}"


PIECES = (
    "/",
    "//",
    "/v1",
    "/v1/",
    "/github",
    "/profile",
    "/credits/balance",
    "/utility/endpoint",
    "/schemas/",
    ".json",
    "/docs/errors",
    "/..",
    "/%2e%2e",
    "%",
    "%FF",
    "%00",
    "%C3%A9",
    "?",
    "?handle=octocat",
    "&",
    "&id=github/profile",
    "&id=",
    "&url=https://[",
    "&cursor=cur_AAAA",
    "&limit=--1",
    "&%FF=%FF",
    "=",
    ";",
    "\x80",
    "\xff",
    "{}",
    "|",
    "a" * 300,
)
HEADERS = (
    "cache-control: no-cache",
    "cache-control: \xff",
    "accept: text/event-stream",
    "content-length: 0",
    "x-api-key:",
    "x-api-key: \xff\xfe",
    "cookie: a=b",
    "if-none-match: *",
    "range: bytes=0-1",
    "expect: 100-continue",
    "upgrade: websocket",
    "idempotency-key: \xe9",
)


async def test_no_target_or_header_causes_an_internal_error(node: OpenNode) -> None:
    """Method: random requests made of meaningful pieces, from a fixed seed, so that failures are reproducible."""
    rng = Random(20_240_131)
    for _ in range(400):
        lines = random_head(node, rng)
        answer = await raw_request(node.url, lines)
        assert answer.status in STATUSES | {304, 501, 505}, (lines, answer.body)
    assert node.log_events("request_failed") == []


def random_head(node: OpenNode, rng: Random) -> tuple[str, ...]:
    method = rng.choice(("GET", "GET", "GET", "POST", "DELETE", "BREW"))
    target = rng.choice(("/v1/", "/v1/github/profile", "/v1/utility/endpoint", "")) + "".join(
        rng.choices(PIECES, k=rng.randint(0, 4))
    )
    headers = rng.sample(HEADERS, rng.randint(0, 3))
    return (f"{method} {target or '/'} HTTP/1.1", f"x-api-key: {node.key}", *headers)
