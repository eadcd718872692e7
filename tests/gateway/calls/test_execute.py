"""Billed calls: each is charged at most once, whatever happens. A too costly page is the only failure with a price."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from gateway.server.asgi import Send, SendMessage
from gateway.server.errors import ClientGone
from storage.store import Tx
from tests.fakes.calling import Answered
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import until

PROFILE = "/v1/github/profile?handle=octocat"
ROOMY = {"limits": {"requests_per_minute": 100_000}, "breaker": {"failures": 1000}}
NO_CACHE = {"cache-control": "no-cache"}


async def ignore_message(_message: SendMessage) -> None:
    await trio.lowlevel.checkpoint()


async def ask_in_this_task(
    node: OpenNode,
    target: str,
    *more: tuple[bytes, bytes],
    send: Send = ignore_message,
    body: bytes | None = None,
    extensions: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Send a request to the app as a server does: a POST of a body, or else a GET that refreshes."""
    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if body is None else "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*{b"x-api-key": node.key.encode(), b"cache-control": b"no-cache", **dict(more)}.items()],
        "client": None,
        "server": None,
        "extensions": extensions,
    }
    pieces = [] if body is None else [body]

    async def receive() -> Any:
        if not pieces:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": pieces.pop(), "more_body": False}

    await node.node.api(scope, receive, send)  # type: ignore[arg-type]


async def assert_nothing_runs(node: OpenNode) -> None:
    """Check that no lease is held, and that no call is in progress."""
    metrics = (await node.client.get(f"{node.admin_url}/metrics")).text.splitlines()
    assert {"sluice_lease_keys 0.0", "sluice_calls_leading 0.0"} <= set(metrics)


def legs_that_succeed(*numbers: int) -> Any:
    """Return a script in which only the legs with these numbers succeed."""
    return lambda asked: (
        json_answer({}) if asked.removeprefix("odd.test/leg/") in map(str, numbers) else json_answer({}, 400)
    )


CALLS = {
    "a success": (PROFILE, lambda _asked: None, 1),
    "a refusal": (PROFILE, lambda _asked: json_answer({}, 404), 0),
    "a failure": (PROFILE, lambda _asked: json_answer({}, 500), 0),
    "a response that is not JSON": (PROFILE, lambda _asked: ScriptedAnswer(200, b"<html>"), 0),
    "a composite with one of four legs": ("/v1/odd/legs", legs_that_succeed(2), 2),
    "a whole composite": ("/v1/odd/legs", legs_that_succeed(0, 1, 2, 3), 5),
    "a bug": ("/v1/odd/bug", lambda _asked: json_answer({}), 0),
    "a refusal before the charge": ("/v1/github/profile", lambda _asked: None, 0),
    "a free read": ("/v1/credits/balance", lambda _asked: None, 0),
}


@pytest.mark.parametrize(("target", "script", "cost"), CALLS.values(), ids=CALLS.keys())
async def test_cancelled_request_is_recorded_completely_or_not_at_all(
    target: str, script: Any, cost: int, tmp_path: Path
) -> None:
    """Goal: conservation. Method: cancel the request at each checkpoint, and check the ledger each time."""
    defaults = {"defaults": {"retries": 0}}
    async with open_test_node(tmp_path, platforms=(ODD,), upstreams=defaults, **ROOMY) as node:
        node.upstream.script = script
        outcomes = []

        async def check(got_through: bool) -> None:
            balance, held = await node.money()
            spent = before[0] - balance
            assert held == 0
            assert spent in ({cost} if got_through else {0, cost})
            assert node.node.stores.billing.charges.unfinished() == 0
            await assert_nothing_runs(node)
            before[0] = balance
            outcomes.append(spent)

        before = [(await node.money())[0]]
        waits = await cancel_everywhere(partial(ask_in_this_task, node, target), check)
        assert waits >= (1 if cost == 0 and not node.upstream.requests else 3)
        assert outcomes[0] == 0, "nothing happens before the first checkpoint"
        await node.assert_sound()


@pytest.mark.parametrize("end", [None, ClientGone()], ids=["takes it", "hangs up"])
async def test_used_credits_are_settled_after_the_response(end: Exception | None, node: OpenNode) -> None:
    """Until the response is sent, the charge is open: it costs nothing if the node dies (decisions 6)."""
    seen = []

    async def send(message: SendMessage) -> None:
        seen.append((message["type"], await node.money()))
        if end is not None:
            raise end

    with nullcontext() if end is None else pytest.raises(ClientGone):
        await ask_in_this_task(node, PROFILE, send=send)
    assert seen[0] == ("http.response.start", (99_999, 1))
    assert all(money == (99_999, 1) for _, money in seen)
    assert await node.money() == (99_999, 0)
    await node.assert_sound()


async def test_call_of_disconnected_client_is_charged_and_holds_nothing(node: OpenNode) -> None:
    """Over a socket: a short request is finished even if its client left (architecture 3)."""
    node.upstream.behaviour.latency_s = 0.1
    async with trio.open_nursery() as client:
        client.start_soon(node.get, PROFILE)
        await until(lambda: node.upstream.requests)
        client.cancel_scope.cancel()
    assert not node.log_events("request"), "the request ended before its client left"
    await until(lambda: node.log_events("request"))
    assert await node.money() == (99_999, 0)
    assert await node.gauge("sluice_lease_keys") == 0
    node.upstream.behaviour.latency_s = 0
    assert (await node.get(PROFILE)).json["cached"] is True


async def test_refresh_is_billed_and_stored_unless_it_fails(node: OpenNode) -> None:
    node.upstream.always(json_answer({"id": 1, "login": "old"}))
    assert username(await node.get(PROFILE)) == "old"
    node.upstream.always(json_answer({"id": 1, "login": "new"}))
    assert username(await node.get(PROFILE)) == "old"
    assert username(await node.get(PROFILE, headers=NO_CACHE)) == "new"
    node.upstream.always(json_answer({}, 404))
    assert (await node.get(PROFILE, headers=NO_CACHE)).status == 404
    answer = await node.get(PROFILE)
    assert (username(answer), answer.json["cached"]) == ("new", True)
    assert await node.money() == (99_998, 0)


def username(answer: Answered) -> str:
    name: str = answer.json["data"]["author"]["username"]
    return name


LEGS = {(0, 2, 3): [2, 0, 2, 1], (1, 2): [0, 3, 2, 0], (3,): [0, 0, 0, 2], (): [0, 0, 0, 0]}


async def test_composite_cost_depends_on_successful_legs(tmp_path: Path) -> None:
    """Decisions 14: coverage 0 refunds all, below half refunds half; the successful legs share the rest equally.

    A cached response shows the original cost of its legs, but costs nothing itself.
    """
    async with open_test_node(tmp_path, platforms=(ODD,), **ROOMY) as node:
        left = 100_000
        for successful, costs in LEGS.items():
            cost, came = sum(costs), [number in successful for number in range(4)]
            left -= cost
            node.upstream.script = legs_that_succeed(*successful)
            body = (await node.get("/v1/odd/legs", headers=NO_CACHE)).json
            legs = body["data"]["legs"]
            assert body["data"]["parts"] == came
            assert [leg["status"] for leg in legs] == ["ok" if one else "failed" for one in came]
            assert [leg["credits_used"] for leg in legs] == costs
            assert body["credits_used"] == cost == await node.net(body["request_id"])
            assert body["credits_remaining"] == left
        assert (await node.get("/v1/odd/legs")).json["cached"] is False, "only a complete composite is cached"
        node.upstream.script = legs_that_succeed(0, 1, 2, 3)
        whole, again = [(await node.get("/v1/odd/legs")).json for _ in range(2)]
        assert (again["cached"], again["credits_used"]) == (True, 0)
        assert again["data"]["legs"] == whole["data"]["legs"]
        await node.assert_sound()


async def test_unencodable_response_is_refunded_and_logged(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        answer = await node.get("/v1/odd/unwritable")
        assert (answer.code, answer.json["credits_used"]) == ("INTERNAL_ERROR", 0)
        assert await node.money() == (100_000, 0)
        (failure,) = node.log_events("request_failed")
        assert failure["request_id"] == answer.json["request_id"]
        assert "TypeError" in failure["error"]


def lose_charges(tx: Tx) -> int:
    lost = tx.run("DELETE FROM charges")
    tx.run("UPDATE keys SET used = 0")
    tx.run("UPDATE accounts SET balance = balance + held, held = 0, place = place - 1, version = version + 1")
    return lost


async def lose_the_next_charge(node: OpenNode) -> None:
    """Delete the charge of the call that waits for its upstream, then let the upstream respond."""
    with node.upstream.holding():
        while not node.upstream.requests:  # noqa: ASYNC110 - the upstream sets no event
            await trio.sleep(0.01)
        assert await node.node.stores.store.write(lose_charges) == 1


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "once"}])
async def test_upstream_error_with_lost_charge_is_still_returned(tmp_path: Path, headers: dict[str, str]) -> None:
    async with open_test_node(tmp_path) as node, trio.open_nursery() as nursery:
        node.upstream.always(json_answer({"message": "Not Found"}, status=404))
        nursery.start_soon(lose_the_next_charge, node)
        await trio.testing.wait_all_tasks_blocked()
        answered = await node.get(PROFILE, headers=headers)
        assert (answered.status, answered.json["credits_used"]) == (404, 0)
        assert await node.gauge("sluice_charges_lost_total") == 1
        await node.assert_sound()


def assert_too_costly(answer: Answered, cost: int) -> None:
    error = answer.json["error"]
    assert (answer.status, error["type"]) == (404, "RESOURCE_NOT_FOUND")
    assert error["details"]["reason"] == "page_too_costly"
    assert answer.json["credits_used"] == cost


async def test_too_costly_page_is_charged_as_one_page(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        left = 100_000
        for path, cost, amounts in (("costly", 5, [-5]), ("costly/metered", 2, [5, -7])):
            answer = await node.get(f"/v1/odd/{path}")
            assert_too_costly(answer, cost)
            left -= cost
            entries = await node.entries(answer.json["request_id"])
            assert [entry["amount"] for entry in entries] == amounts
            assert (answer.json["credits_remaining"], await node.money()) == (left, (left, 0))
        claimed = {"idempotency-key": "one-costly-page"}
        assert_too_costly(await node.get("/v1/odd/costly", headers=claimed), 5)
        node.upstream.requests.clear()
        assert_too_costly(await node.get("/v1/odd/costly", headers=claimed), 0)
        assert (node.upstream.requests, await node.money()) == ([], (left - 5, 0))
        await node.assert_sound()


async def test_monitor_run_is_charged_for_a_too_costly_page(tmp_path: Path) -> None:
    """The run fails and costs the price of a page, without the credit for scheduling."""
    async with open_test_node(tmp_path, platforms=(ODD,)) as node:
        node.upstream.always(json_answer({}))
        body = {"recipe": "odd/costly", "cadence": "daily", "run_now": True, "webhook_url": "https://example.com/hook"}
        made = await node.client.post(f"{node.url}/v1/monitors", json=body, headers={"x-api-key": node.key})
        assert made.status_code == 201, made.text
        run = await _ended_run(node, made.json()["monitor"]["id"])
        assert (run["status"], run["credits_used"]) == ("failed", 5)
        assert [(leg["status"], leg["credits_used"]) for leg in run["legs"]] == [("failed", 5)]
        assert await node.money() == (99_995, 0)
        await node.assert_sound()


async def _ended_run(node: OpenNode, monitor: str) -> dict[str, Any]:
    """Return the monitor's run after it has ended."""
    while True:
        answer = await node.get(f"/v1/monitors/{monitor}/runs")
        assert answer.status == 200, answer.json
        runs = answer.json["data"]["items"]
        ended: list[dict[str, Any]] = [run for run in runs if run["finished_at"]]
        if ended:
            return ended[0]
        await trio.sleep(0.1)


async def test_call_for_which_the_workers_have_no_room_is_refused_before_its_charge(
    node: OpenNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upstreams.workers.line.FULL_S", -1.0)
    refused = await node.get("/v1/web/scrape?url=https://www.iana.org/")
    assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
    assert "nothing was charged" in refused.json["error"]["message"]
    assert refused.headers["retry-after"]
    assert node.upstream.requests == []
    assert await node.entries(refused.json["request_id"]) == []
