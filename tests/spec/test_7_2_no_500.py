"""Section 7.2: INTERNAL_ERROR is for unexpected faults; no request alone causes it."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.raw import raw_request
from tests.spec.rows import CREDENTIALS, ROWS, Row, Rows, check_each, every_platform
from upstreams.model.params import Param
from upstreams.model.refusals import Bucket

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
WHOLE = "SLUICE_TEST_WHOLE"
"""If set, each parameter is tried with each value. Otherwise parameters of one kind share the values."""
SHARES = 4
"""Maximum number of parts that the values are divided into."""
PATIENT = {"limits": {"requests_per_minute": 100_000}, "breaker": {"failures": 100_000}}
STATUSES = {200, 400, 401, 404, 405, 414, 431}


@every_platform
async def test_no_parameter_value_causes_an_internal_error(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: every free text and URL parameter with unusual values, without pacing; the others as in the example."""
    monkeypatch.setattr(Bucket, "wait_s", lambda _bucket, _path, _now: 0.0)
    upstreams = {"defaults": {"retries": 0}, **CREDENTIALS}
    await check_each(rows, _unusual_values, tmp_path, upstreams=upstreams, **PATIENT)


async def _unusual_values(node: OpenNode, row: Row) -> None:
    for param in free_params(row):
        for value in nasty_for(row, param):
            answer = await node.get(with_value(row, param, value))
            assert answer.status in STATUSES, (param.name, value, answer.body)
    assert node.log_events("request_failed") == []
    await node.assert_sound()


def free_params(row: Row) -> list[Param]:
    """Return the parameters that accept any text or URL."""
    return [param for param in row.endpoint.params if param.type in {"string", "url"} and not param.choices]


def nasty_for(row: Row, param: Param) -> tuple[str, ...]:
    """Return the values for this parameter. Free parameters of one type on a platform share all values."""
    if os.environ.get(WHOLE):
        return NASTY
    alike = [
        (other.id, one.name)
        for other in ROWS
        if other.platform is row.platform
        for one in free_params(other)
        if one.type == param.type
    ]
    shares = min(SHARES, len(alike))
    return NASTY[alike.index((row.id, param.name)) % shares :: shares]


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


async def test_no_target_or_header_causes_an_internal_error(tmp_path: Path) -> None:
    """Method: random requests made of meaningful pieces, from a fixed seed, so that failures are reproducible."""
    async with open_test_node(tmp_path, **PATIENT) as node:
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
