"""Section 7.1: an id on every response, and the envelope on every error, including errors of the HTTP edge."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.fakes.calling import Answered
from tests.fakes.node import open_test_node

ENGINES = ("native", "hypercorn")
TARGETS = (
    "/v1/status",
    "/docs/errors",
    "/docs/errors.md",
    "/llms.txt",
    "/schemas/Author.json",
    "/schemas/Nothing.json",
    "/",
    "/v1",
    "/v1/",
    "/healthz",
    "/v1/github/profile?handle=octocat",
)
REFUSED = (
    ("GET", "/v1/github/profile?handle=missing", 404),
    ("GET", "/v1/github/profile", 400),
    ("GET", "/v1/nowhere/at-all", 404),
    ("POST", "/v1/github/profile", 405),
)


def assert_has_id(answer: Answered) -> str:
    request_id = answer.headers["x-request-id"]
    assert request_id.startswith("req_")
    if answer.body and answer.headers["content-type"] == "application/json":
        body = answer.json
        assert body.get("request_id", request_id) == request_id
    return request_id


@pytest.mark.parametrize("engine", ENGINES)
async def test_every_response_has_its_own_id(engine: str, tmp_path: Path) -> None:
    """With and without a key: every path and method, including paths outside the API."""
    async with open_test_node(tmp_path, server={"port": 0, "drain_s": 1, "engine": engine}) as node:
        ways = product(TARGETS, ("GET", "HEAD", "POST", "OPTIONS"), ("", None))
        ids = [assert_has_id(await node.get(target, method=method, key=key)) for target, method, key in ways]
        assert len(set(ids)) == len(ids)


async def test_error_contains_balance_of_the_caller(tmp_path: Path) -> None:
    """`credits_remaining` and its header agree on every error of a known account, and are current."""
    async with open_test_node(tmp_path, credits=10) as node:
        for number, (method, target, status) in enumerate(REFUSED):
            assert (await node.get(f"/v1/github/profile?handle=user{number}")).status == 200
            refused = await node.get(target, method=method)
            assert refused.status == status
            assert refused.json["credits_remaining"] == 9 - number
            assert refused.headers["x-credits-remaining"] == str(9 - number)
