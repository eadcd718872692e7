"""The API on the native server and on Hypercorn: the same requests get the same responses."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

REQUESTS = (
    ("GET", "/v1/github/profile?handle=octocat"),
    ("GET", "/v1/github/profile?handle=octocat"),
    ("HEAD", "/v1/github/profile?handle=octocat"),
    ("HEAD", "/v1/github/profile?handle=hubot"),
    ("POST", "/v1/github/profile?handle=octocat"),
    ("OPTIONS", "/v1/github/profile"),
    ("PUT", "/v1/credits/balance"),
    ("GET", "/v1/github/search?query=structured+concurrency&limit=3"),
    ("GET", "/v1/github/search?query=caf%C3%A9%20%F0%9F%8C%8A&limit=2"),
    ("GET", "/v1/github/search?query=a&page=2"),
    ("GET", "/v1/github/search?query=a&limit=ten"),
    ("GET", "/v1/github/search?query=%FF"),
    ("GET", "/v1/github/search?query=a%2520b"),
    ("GET", "/v1/github/profile"),
    ("HEAD", "/v1/github/profile"),
    ("GET", "/v1/github/profile?handle=missing"),
    ("GET", "/v1/github/profile?handle=throttled"),
    ("GET", "/v1/bluesky/profile?handle=broken.test"),
    ("GET", "/v1/bluesky/user/posts?handle=ada.test&limit=5&filter=posts_no_replies"),
    ("GET", "/v1/bluesky/search?query=a"),
    ("GET", "/v1/git%68ub/profile?handle=octocat"),
    ("GET", "/v1/github%2Fprofile?handle=octocat"),
    ("GET", "/v1/github/profile/?handle=octocat"),
    ("GET", "/v1/nowhere/at-all"),
    ("GET", "/v1/"),
    ("GET", "/"),
    ("GET", "/docs/errors"),
    ("GET", "/docs/errors.md"),
    ("HEAD", "/docs/errors.md"),
    ("GET", "/llms.txt"),
    ("GET", "/schemas/Author.json"),
    ("GET", "/schemas/Nothing.json"),
    ("GET", "/v1/status"),
    ("GET", "/v1/utility/endpoints?platform=github&search=repo"),
    ("GET", "/v1/utility/endpoint?id=github/profile"),
    ("GET", "/v1/credits/balance"),
    ("GET", "/v1/credits/transactions?limit=100"),
    ("GET", "/v1/credits/balance?x=1"),
)
OF_THE_ENGINE = {"date", "server", "connection", "transfer-encoding"}
VARYING = {"x-request-id", "x-sluice-overhead-ms", "ratelimit", "x-ratelimit-reset", "retry-after"}
_IDS = re.compile(rb"\b(req|key|acc)_[0-9a-f]{32}\b|\btxn_[0-9]+\b|\d{4}-\d\d-\d\dT[0-9:.]+Z(?=\")")
TABLES = {
    "upstreams": {"defaults": {"retries": 0}},
    "server": {"base_url": "https://api.example.com", "port": 0, "drain_s": 1},
}


async def answers_of(folder: Path, engine: str) -> list[Answered]:
    """Return the response to every request, in order, from a node on this engine."""
    tables = {**TABLES, "server": {**TABLES["server"], "engine": engine}}
    async with open_test_node(folder, **tables) as node:  # type: ignore[arg-type]
        plain = {"accept-encoding": "identity"}  # masked ids would have different lengths after compression
        answers = [await node.get(target, method=method, headers=plain) for method, target in REQUESTS]
        answers += [await node.get("/v1/credits/balance", key=key) for key in (None, "nonsense", "sl_" + "a" * 43)]
        answers += await odd_answers(node)
        await node.assert_sound()
    return answers


async def odd_answers(node: OpenNode) -> list[Answered]:
    """Return responses that depend on the upstream, and responses to requests with an unexpected body."""
    answers = []
    for script in (
        json_answer({}, 404),
        ScriptedAnswer(200, b"<html>"),
        json_answer({"id": 1, "login": "x" * 100_000}),
    ):
        node.upstream.always(script)
        answers.append(await node.get("/v1/bluesky/profile?handle=a.test", headers={"cache-control": "no-cache"}))
    for method in ("GET", "POST"):
        own = {"x-api-key": node.key}
        for size in (3, 70_000):
            target = f"{node.url}/v1/credits/balance"
            answer = await node.client.request(method, target, content=b"x" * size, headers=own)
            answers.append(Answered(answer.status_code, dict(answer.headers), answer.content))
    return answers


def comparable(answer: Answered) -> tuple[int, dict[str, str], dict[str, bool], bytes]:
    """Return what both engines must agree on.

    Ids and timestamps are masked; of headers whose values vary, only the presence counts.
    """
    headers = {name: value for name, value in answer.headers.items() if name not in OF_THE_ENGINE | VARYING}
    there = {name: True for name in answer.headers if name in VARYING}
    return answer.status, headers, there, _IDS.sub(b"masked", answer.body)


async def test_both_engines_return_the_same_api_responses(tmp_path: Path) -> None:
    native = await answers_of(tmp_path / "native", "native")
    hypercorn = await answers_of(tmp_path / "hypercorn", "hypercorn")
    assert len(native) == len(hypercorn) > 40
    for number, (one, other) in enumerate(zip(native, hypercorn, strict=True)):
        asked = REQUESTS[number] if number < len(REQUESTS) else number
        assert comparable(one) == comparable(other), asked
    for answer in (*native, *hypercorn):
        if answer.headers["content-type"] == "application/json" and answer.body:
            body = orjson.loads(answer.body)
            assert body.get("request_id", answer.headers["x-request-id"]) == answer.headers["x-request-id"]
    assert {answer.status for answer in native} >= {200, 400, 401, 404, 405, 502, 503}
