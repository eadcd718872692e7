"""Section 7.5: upstream failures are refunded; each row is a response of the upstream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import PIECE, ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.shared_node import check_cases

PROFILE = "/v1/github/profile?handle=octocat"
HTML = ScriptedAnswer(200, b"<html>Welcome</html>", {"content-type": "text/html"})
FAILED = json_answer({}, 503)
QUICK = {"upstreams": {"defaults": {"retries": 0, "timeout_s": 0.3}}}


@dataclass(frozen=True, slots=True)
class Wrong:
    """The response of the upstream and the result. `tries` is the number of requests with two retries."""

    answer: ScriptedAnswer
    code: str
    status: int
    tries: int = 1
    retry_after: str | None = None


ROWS = {
    "500": Wrong(json_answer({}, 500), "UPSTREAM_ERROR", 502, tries=3),
    "502 with HTML": Wrong(ScriptedAnswer(502, HTML.body, HTML.headers), "UPSTREAM_ERROR", 502, tries=3),
    "503": Wrong(json_answer({}, 503), "UPSTREAM_ERROR", 502, tries=3),
    "504 without a body": Wrong(ScriptedAnswer(504, b""), "UPSTREAM_ERROR", 502, tries=3),
    "501": Wrong(json_answer({}, 501), "UPSTREAM_ERROR", 502),
    "401": Wrong(json_answer({}, 401), "UPSTREAM_ERROR", 502),
    "429": Wrong(json_answer({}, 429), "SERVICE_UNAVAILABLE", 503, retry_after="30"),
    "429 with a wait time": Wrong(json_answer({}, 429, retry_after="7"), "SERVICE_UNAVAILABLE", 503, retry_after="7"),
    "503 with a wait time": Wrong(json_answer({}, 503, retry_after="9"), "SERVICE_UNAVAILABLE", 503, retry_after="9"),
    "404": Wrong(json_answer({}, 404), "RESOURCE_NOT_FOUND", 404),
    "410 with HTML": Wrong(ScriptedAnswer(410, HTML.body, HTML.headers), "RESOURCE_NOT_FOUND", 404),
    "200 without a body": Wrong(ScriptedAnswer(200, b""), "RESOURCE_NOT_FOUND", 404),
    "204": Wrong(ScriptedAnswer(204, b""), "RESOURCE_NOT_FOUND", 404),
    "200 with null": Wrong(ScriptedAnswer(200, b"null"), "RESOURCE_NOT_FOUND", 404),
    "200 with an empty object": Wrong(json_answer({}), "RESOURCE_NOT_FOUND", 404),
    "HTML instead of JSON": Wrong(HTML, "UPSTREAM_ERROR", 502, tries=3),
    "a list instead of an object": Wrong(json_answer([1]), "UPSTREAM_ERROR", 502),
    "truncated JSON": Wrong(ScriptedAnswer(200, b'{"login": "octo'), "UPSTREAM_ERROR", 502, tries=3),
    "bytes that are not text": Wrong(ScriptedAnswer(200, b"\xff\xfe\x00"), "UPSTREAM_ERROR", 502, tries=3),
    "a truncated body": Wrong(
        ScriptedAnswer(200, b'{"login": "octocat"}', ending="cut"), "UPSTREAM_ERROR", 502, tries=3
    ),
    "a redirect to another host": Wrong(
        json_answer({}, 302, location="https://elsewhere.test/x"), "UPSTREAM_ERROR", 502
    ),
    "too many redirects": Wrong(
        json_answer({}, 302, location="https://api.github.com/users/octocat"), "UPSTREAM_ERROR", 502, tries=4
    ),
    "a body nested too deeply": Wrong(ScriptedAnswer(200, b"[" * 5000 + b"]" * 5000), "UPSTREAM_ERROR", 502, tries=3),
}


ALONE = tuple(name for name, wrong in ROWS.items() if wrong.tries == 3 or wrong.retry_after)
"""Answers that use up the source's retries, or pause the source, so that each needs a node of its own."""
NO_CIRCUIT = {"breaker": {"failures": 1_000}}


async def test_upstream_errors_are_refunded(tmp_path: Path) -> None:
    cases = {name: wrong for name, wrong in ROWS.items() if name not in ALONE}
    await check_cases(cases, _upstream_error_is_refunded, tmp_path, **NO_CIRCUIT)


@pytest.mark.parametrize("name", ALONE)
async def test_retried_error_and_throttling_are_refunded(name: str, tmp_path: Path) -> None:
    await check_cases({name: ROWS[name]}, _upstream_error_is_refunded, tmp_path)


async def _upstream_error_is_refunded(node: OpenNode, wrong: Wrong) -> None:
    node.upstream.always(wrong.answer)
    answer = await node.get(PROFILE)
    assert_refused(answer, wrong.code, wrong.status)
    assert answer.headers.get("retry-after") == wrong.retry_after
    assert len(node.upstream.requests) == wrong.tries
    await assert_refunded(node, answer)
    assert_secretive(answer)


async def assert_refunded(node: OpenNode, answer: Answered) -> None:
    """Check for one deduction and one refund of the same amount, and that nothing was cached."""
    entries = await node.entries(answer.json["request_id"])
    assert [(entry["type"], entry["amount"]) for entry in entries] == [("refund", 1), ("deduction", -1)]
    assert entries[0]["balance_after"] == answer.json["credits_remaining"] == 100_000
    await assert_free(node, answer)
    await node.assert_sound()


def assert_secretive(answer: Answered) -> None:
    """Check that neither the upstream's URL nor our code is revealed."""
    for word in (b"127.0.0.1", b"Traceback", b"line "):
        assert word not in answer.body.replace(answer.json["error"]["doc_url"].encode(), b"")


SLOW = {
    "silence": ScriptedAnswer(delay_s=60),
    "an endless body": ScriptedAnswer(200, PIECE, ending="endless"),
}


async def test_endless_upstream_is_abandoned_and_refunded(tmp_path: Path) -> None:
    await check_cases(SLOW, _endless_upstream_is_abandoned_and_refunded, tmp_path, **QUICK)


async def _endless_upstream_is_abandoned_and_refunded(node: OpenNode, answer: ScriptedAnswer) -> None:
    node.upstream.always(answer)
    refusal = await node.get(PROFILE)
    assert_refused(refusal, "UPSTREAM_ERROR", 502)
    await assert_refunded(node, refusal)


async def test_request_deadline_ends_every_attempt(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, server={"request_timeout_s": 0.3}) as node:
        node.upstream.always(ScriptedAnswer(delay_s=60))
        answer = await node.get(PROFILE)
        assert_refused(answer, "UPSTREAM_ERROR", 502)
        assert len(node.upstream.requests) == 1, "there is no time for another attempt"
        await assert_refunded(node, answer)


async def test_refused_connection_is_an_upstream_error(tmp_path: Path) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    async with open_test_node(tmp_path, egress=f"http://127.0.0.1:{port}", **QUICK) as node:
        answer = await node.get(PROFILE)
        assert_refused(answer, "UPSTREAM_ERROR", 502)
        await assert_refunded(node, answer)


async def test_open_circuit_is_refunded_and_one_probe_closes_it(tmp_path: Path) -> None:
    tables = {"breaker": {"failures": 2, "open_s": 0.5}, **QUICK}
    async with open_test_node(tmp_path, **tables) as node:
        node.upstream.always(json_answer({}, 500))
        for _ in range(2):
            assert_refused(await node.get(PROFILE), "UPSTREAM_ERROR", 502)
        answer = await node.get(PROFILE)
        assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
        assert answer.headers["retry-after"] == "1"
        assert len(node.upstream.requests) == 2
        await assert_refunded(node, answer)
        assert (await status_of_github(node)) == ("degraded", "open")
        node.upstream.always(None)
        await trio.sleep(0.51)
        assert (await status_of_github(node)) == ("degraded", "half_open")
        assert (await node.get(PROFILE)).status == 200
        assert (await status_of_github(node)) == ("operational", "closed")


async def status_of_github(node: OpenNode) -> tuple[str, str]:
    """Return the state of GitHub on the status page. Only one of its two sources is affected here."""
    told_ = (await node.get("/v1/status", key=None)).json["data"]["platforms"]["github"]
    return told_["status"], told_["circuit"]


async def test_not_found_never_opens_the_circuit(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, breaker={"failures": 1}) as node:
        for number in range(4):
            assert (await node.get(f"/v1/github/profile?handle=missing{number}")).status == 404
        assert (await status_of_github(node)) == ("operational", "closed")


RETRY_AFTER = {
    "a minute": ("60", 60, 60),
    "nothing": ("0", 30, 30),
    "a date": ("Wed, 21 Oct 2015 07:28:00 GMT", 30, 30),
    "half a day": ("46472", 46_472, 3_600),
    "forever": ("99999999999", 86_400, 3_600),
    "beyond all numbers": ("9" * 400, 86_400, 3_600),
}


async def test_temporary_failure_is_retried_and_billed_once(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for fails in (1, 2):
            await node.renew()
            node.upstream.script = lambda _asked, fails=fails: FAILED if len(node.upstream.requests) <= fails else None
            answer = await node.get(PROFILE)
            assert answer.status == 200
            assert len(node.upstream.requests) == fails + 1
            assert await node.net(answer.json["request_id"]) == answer.json["credits_used"] == 1


async def test_refund_rejected_by_store_is_reported_and_retried(tmp_path: Path) -> None:
    """7.1: in that case `credits_used` is not 0, and the refund is pending."""
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({}, 404))
        async with node.store_refusing("refund"):
            answer = await node.get(PROFILE)
            assert_refused(answer, "RESOURCE_NOT_FOUND", 404)
            assert (answer.json["credits_used"], answer.json["credits_remaining"]) == (1, None)
            assert answer.headers["x-credits-used"] == "1"
            assert "x-credits-remaining" not in answer.headers
            assert node.node.stores.billing.charges.unfinished() == 1
        await until(lambda: not node.node.stores.billing.charges.unfinished())
        assert await node.net(answer.json["request_id"]) == 0
        assert await node.money() == (100_000, 0)
        await node.assert_sound()


async def test_search_without_results_is_a_free_response(tmp_path: Path) -> None:
    """7.3 and 2.4: empty `items` for a valid query are not an error, and an empty result is refunded."""
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({"total_count": 0, "incomplete_results": False, "items": []}))
        answer = await node.get("/v1/github/search?query=nothing")
        assert (answer.status, answer.json["data"]["items"], answer.json["credits_used"]) == (200, [], 0)
        assert answer.json["pagination"] == {"next_cursor": None, "has_more": False, "page_size": 0}


async def test_responses_and_ledger_agree_under_load_and_failure(tmp_path: Path) -> None:
    """Decisions 6: `credits_used` is the request's net amount in the ledger. Method: 300 requests, half fail."""
    answers: list[Answered] = []
    tables = {"breaker": {"failures": 20, "open_s": 0.02}, "upstreams": {"defaults": {"retries": 1}}}
    async with open_test_node(tmp_path, **tables) as node:
        node.upstream.behaviour.failure_rate = 0.5

        async def client(number: int) -> None:
            for turn in range(15):
                handle = f"user{number}-{turn}" if turn % 3 else f"missing{turn}"
                answers.append(await node.get(f"/v1/github/profile?handle={handle}"))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(client, number)
        used = sum(answer.json["credits_used"] for answer in answers)
        assert await node.money() == (100_000 - used, 0)
        assert {answer.status for answer in answers} >= {200, 404, 502}
        for answer in answers[::10]:
            assert await node.net(answer.json["request_id"]) == answer.json["credits_used"]
        await node.assert_sound()


async def test_balance_is_spent_to_the_last_credit_and_never_below(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=10) as node:
        statuses: list[int] = []

        async def client(number: int) -> None:
            statuses.append((await node.get(f"/v1/github/profile?handle=user{number}")).status)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(client, number)
        assert statuses.count(200) == 10
        assert statuses.count(402) + statuses.count(429) == 30, "429 while calls in progress hold the last credits"
        assert await node.money() == (0, 0)
        await node.assert_sound()


async def test_backoff_pauses_only_its_method_for_at_most_an_hour(tmp_path: Path) -> None:
    """Stack Exchange's `backoff` applies to one method. However large it is, it is honored for at most an hour."""
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({"items": [], "has_more": False, "backoff": 10**18}))
        assert (await node.get("/v1/stackexchange/questions?tagged=trio")).status == 200
        held = await node.get("/v1/stackexchange/questions?tagged=python")
        assert_refused(held, "SERVICE_UNAVAILABLE", 503)
        assert 3_590 <= int(held.headers["retry-after"]) <= 3_600
        await assert_free(node, held)
        assert (await node.get("/v1/stackexchange/search?query=trio")).status == 200


@pytest.mark.parametrize(("said", "told_first", "held"), RETRY_AFTER.values(), ids=RETRY_AFTER.keys())
async def test_throttling_pauses_an_upstream_for_at_most_an_hour(
    said: str, told_first: int, held: int, tmp_path: Path
) -> None:
    """The upstream can request up to a day; at most an hour is respected."""
    async with open_test_node(tmp_path) as node:
        node.upstream.always(json_answer({}, 429, retry_after=said))
        for due in (told_first, held):
            answer = await node.get(PROFILE)
            assert_refused(answer, "SERVICE_UNAVAILABLE", 503)
            assert due - 5 <= int(answer.headers["retry-after"]) <= due
            await assert_refunded(node, answer)
        assert len(node.upstream.requests) == 1
