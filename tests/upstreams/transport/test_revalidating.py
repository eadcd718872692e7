"""Conditional requests: an answer comes from the cache only if the upstream says that it is unchanged."""

from __future__ import annotations

import gc
import math
import tracemalloc

import pytest

from tests.fakes.scripted_exchange import OK, ScriptedExchange, asking, http_answer
from upstreams.transport.http import HttpAnswer
from upstreams.transport.revalidating import ANSWER_BYTES_MAX, Revalidating, _Asked, _bytes_of

TAGGED = http_answer({"n": 1}, etag='"one"', x_left="9", content_type="application/json")
UNCHANGED = HttpAnswer(304, {"etag": '"one"', "x-left": "9", "date": "now", "content-length": "0"}, b"")


def tag_of(exchange: ScriptedExchange) -> str | None:
    return dict(exchange.calls[-1].headers).get("if-none-match")


async def test_unchanged_answer_has_cached_body_and_new_headers() -> None:
    exchange = ScriptedExchange(TAGGED, UNCHANGED)
    revalidating = Revalidating(exchange)
    assert await revalidating(asking(), math.inf) == TAGGED
    assert tag_of(exchange) is None
    for _ in range(2):
        answer = await revalidating(asking(), math.inf)
        assert tag_of(exchange) == '"one"'
        assert (answer.status, answer.body) == (200, TAGGED.body)
        assert answer.headers == {**TAGGED.headers, "x-left": "9", "date": "now"}


async def test_new_answer_replaces_the_cached_one() -> None:
    exchange = ScriptedExchange(TAGGED, http_answer({"n": 2}, etag='"two"'), UNCHANGED)
    revalidating = Revalidating(exchange)
    for _ in range(2):
        await revalidating(asking(), math.inf)
    assert (await revalidating(asking(), math.inf)).body == b'{"n":2}'
    assert tag_of(exchange) == '"two"'


async def test_only_the_same_call_is_revalidated() -> None:
    exchange = ScriptedExchange(TAGGED)
    revalidating = Revalidating(exchange)
    await revalidating(asking(headers={"authorization": "a"}), math.inf)
    for other in (
        asking(),
        asking(headers={"authorization": "b"}),
        asking("/v1/y", headers={"authorization": "a"}),
        asking(method="POST", headers={"authorization": "a"}, body=b"{}"),
    ):
        await revalidating(other, math.inf)
        assert tag_of(exchange) is None


async def test_untagged_failed_or_long_answers_are_not_cached() -> None:
    for answer in (
        OK,
        http_answer({}, 404, etag='"x"'),
        http_answer(b"x" * (ANSWER_BYTES_MAX + 1), etag='"x"'),
        http_answer({}, etag=""),
    ):
        exchange = ScriptedExchange(answer)
        revalidating = Revalidating(exchange)
        for _ in range(2):
            assert await revalidating(asking(), math.inf) == answer
            assert tag_of(exchange) is None


async def test_unexpected_304_is_returned_unchanged() -> None:
    assert await Revalidating(ScriptedExchange(UNCHANGED))(asking(), math.inf) == UNCHANGED


async def test_cache_is_bounded_and_keeps_the_last_used() -> None:
    exchange = ScriptedExchange(script=lambda call: UNCHANGED if "if-none-match" in dict(call.headers) else TAGGED)
    key = _Asked(asking("/a").origin, "/a", asking("/a").headers)
    revalidating = Revalidating(exchange, bytes_max=3 * _bytes_of(key, TAGGED))
    for target in ("/a", "/b", "/c", "/a", "/d"):
        await revalidating(asking(target), math.inf)
    tags = {}
    for target in ("/a", "/c", "/d", "/b"):
        await revalidating(asking(target), math.inf)
        tags[target] = tag_of(exchange)
    assert tags == {"/a": '"one"', "/c": '"one"', "/d": '"one"', "/b": None}


@pytest.mark.critical
async def test_headers_and_targets_count_toward_the_bound() -> None:
    """Goal: an upstream cannot fill the memory with many small headers, each of which is a separate object."""
    many = {f"x-{number}": "v" * (number % 50) for number in range(200)}
    revalidating = Revalidating(ScriptedExchange(TAGGED), bytes_max=1_000_000)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(400):
            call = asking(f"/{number}{'t' * 4_000}")
            headers = {f"{name}-{number}": f"{value}{number}" for name, value in many.items()}
            answer = HttpAnswer(200, {"etag": '"one"', **headers}, b"{}")
            revalidating._keep(_Asked(call.origin, call.target, call.headers), answer)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert revalidating._kept
    assert taken <= 1_000_000
