"""Suppliers on a whole node: faults, fallbacks, costs, and the rule that customers never learn anything about them.

The suppliers have invented names, keys, hosts and words, all of which contain `SECRET`. Their bodies contain the
operator's balance, `BALANCE`. Neither may occur in anything that a customer can read.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin.operations import OperationRefused
from gateway.node.serve import open_sandbox
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer, open_app
from tests.platforms.tiktok.cases import account, video, videos
from tests.scheduler.stored import kept_data
from upstreams.sandbox.app import Behaviour
from upstreams.suppliers import interface_names

(INTERFACE,) = interface_names()
SECRET, BALANCE = "zq7", 987_654_321
MAIN, BACKUP = f"{SECRET}-main", f"{SECRET}-backup"
KEYS = {"MAIN_KEY": f"{SECRET}-key-1", "BACKUP_KEY": f"{SECRET}-key-2"}
HIDDEN = (SECRET, INTERFACE, str(BALANCE))
PROFILE, VIDEOS = "/v1/tiktok/profile", "/v1/tiktok/profile/videos?limit=3&handle"
FULL, LOOKUP = "/v1/tiktok/profile/full?handle", "/v1/prism/lookup?url=https://www.tiktok.com/@"
WORDS = {"success": False, "message": f"{SECRET} words", "credits_remaining": BALANCE}
ODD = json_answer([f"{SECRET} words"])
"""The supplier answers, so the failure is not its own."""
FAULTS: Mapping[str, tuple[ScriptedAnswer, int, str]] = {
    "key refused": (json_answer(WORDS, 401), 503, "SERVICE_UNAVAILABLE"),
    "unpaid": (json_answer(WORDS, 402), 503, "SERVICE_UNAVAILABLE"),
    "throttled": (json_answer(WORDS, 429, retry_after="7"), 503, "SERVICE_UNAVAILABLE"),
    "success is false": (json_answer(WORDS), 502, "UPSTREAM_ERROR"),
    "not found": (json_answer({**WORDS, "message": f"{SECRET}: account not found"}), 404, "RESOURCE_NOT_FOUND"),
    "no such path": (json_answer(WORDS, 404), 404, "RESOURCE_NOT_FOUND"),
    "refused": (json_answer(WORDS, 422), 502, "UPSTREAM_ERROR"),
    "broken": (json_answer(WORDS, 500), 502, "UPSTREAM_ERROR"),
    "slow": (replace(json_answer(WORDS), delay_s=3.0), 502, "UPSTREAM_ERROR"),
    "redirect": (ScriptedAnswer(302, b"", {"location": f"https://{SECRET}.example/"}), 502, "UPSTREAM_ERROR"),
    "a page": (ScriptedAnswer(200, f"<p>{SECRET}".encode(), {"content-type": "text/html"}), 502, "UPSTREAM_ERROR"),
    "cut off": (replace(json_answer({**account(), "more": f"{SECRET} " * 99}), ending="cut"), 502, "UPSTREAM_ERROR"),
    "other JSON": (ODD, 502, "UPSTREAM_ERROR"),
}


def suppliers(*, backup: bool = False, **main: Any) -> dict[str, Any]:
    """Return the `[suppliers]` tables. With `backup`, the second supplier is the fallback of the first."""
    usual = {"interface": INTERFACE, "timeout_s": 2, "retries": 0}
    made = {INTERFACE: {"key_env": "NONE", "enabled": False}}
    made[MAIN] = {**usual, "key_env": "MAIN_KEY", "base_url": f"https://{SECRET}-1.example", **main}
    if backup:
        made[MAIN]["fallback"] = BACKUP
        made[BACKUP] = {**usual, "key_env": "BACKUP_KEY", "base_url": f"https://{SECRET}-2.example/base"}
    return made


@asynccontextmanager
async def open_supplied(folder: Path, **more: Any) -> AsyncIterator[OpenNode]:
    """Open a node whose TikTok is served by the invented suppliers."""
    breaker = {"failures": 1_000}
    tables = {"suppliers": suppliers(**more), "breaker": breaker, "webhooks": {"allow_insecure_targets": True}}
    async with open_test_node(folder, environ=KEYS, **tables) as node:
        yield node


def cost(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body of the supplier with the operator's balance."""
    return {**body, "credits_remaining": BALANCE, "credits_charged": 2}


def works(asked: str) -> ScriptedAnswer:
    """Return the supplier's answer to a request."""
    if "/profile/videos" in asked:
        rows = (video(aweme_id=f"{number}") for number in range(100, 105))
        return json_answer(cost(videos(*rows)))
    return json_answer(cost(account()))


def shown(answer: Answered) -> str:
    """Return everything that a customer can read in a response, also the contents of its cursors."""
    text = f"{answer.status} {answer.headers} {answer.body.decode()}"
    return " ".join((text, *_tokens(text)))


def _tokens(text: str) -> Iterator[str]:
    for token in re.findall(r"[A-Za-z0-9_-]{24,}", text):
        yield urlsafe_b64decode(token[: len(token) // 4 * 4]).decode("latin-1")


def assert_hidden(answer: Answered) -> None:
    """Check that a response contains nothing about a supplier."""
    text = shown(answer)
    assert [one for one in HIDDEN if one in text] == [], answer.body


async def send(node: OpenNode, method: str, target: str, body: Any) -> Answered:
    """Send a call with a JSON body."""
    answer = await node.client.request(
        method, node.url + target, content=orjson.dumps(body), headers={"x-api-key": node.key}
    )
    return Answered(answer.status_code, dict(answer.headers), answer.content)


@pytest.mark.parametrize(("fault", "status", "code"), FAULTS.values(), ids=FAULTS.keys())
async def test_fault_of_the_supplier_is_free_and_hidden(
    tmp_path: Path, fault: ScriptedAnswer, status: int, code: str
) -> None:
    async with open_supplied(tmp_path) as node:
        node.upstream.always(fault)
        answers = [await node.get(f"{PROFILE}?handle=ada")]
        assert (answers[0].status, answers[0].code) == (status, code)
        assert answers[0].json["credits_used"] == 0
        assert ("retry-after" in answers[0].headers) == (status == 503)
        await node.operate("supplier.reset", supplier=MAIN)
        answers += [await node.get(target) for target in (f"{VIDEOS}=ada", f"{FULL}=ada", f"{LOOKUP}ada")]
        await node.operate("supplier.reset", supplier=MAIN)
        stream = {"accept": "text/event-stream"}
        answers += [await node.get(f"{VIDEOS}=bob", headers=stream), await node.get("/v1/status")]
        items = {"items": [{"platform": "tiktok", "handle": "ada"}, {"platform": "tiktok", "handle": "bob"}]}
        answers.append(await send(node, "POST", "/v1/prism/profiles", items))
        for answer in answers:
            assert_hidden(answer)
        (state,) = [one for one in await node.operate("supplier.list") if one["supplier"] == MAIN]
        failed = node.log_events("supplier_failed")
        assert bool(failed) == (status != 404 and fault is not ODD)
        assert all(one["supplier"] == MAIN for one in failed)
        assert state["state"] in ("closed", "key_refused", "unpaid")
        assert await node.net(answers[0].headers["x-request-id"]) == 0
        await node.assert_sound()
    for line in node.log.getvalue().splitlines():
        event = orjson.loads(line)
        assert event["event"].startswith("supplier_") or SECRET not in line.decode(), event


async def test_operator_reads_the_suppliers_words(tmp_path: Path) -> None:
    async with open_supplied(tmp_path) as node:
        node.upstream.always(json_answer(WORDS, 422))
        await node.get(f"{PROFILE}?handle=ada")
        (event,) = node.log_events("supplier_failed")
    assert (event["platform"], event["said"]) == ("tiktok", f"status 422, {SECRET} words")


async def test_success_contains_nothing_about_the_supplier(tmp_path: Path) -> None:
    """Method: reads, a Monitor that keeps whole bodies, its events, and every page of the documentation."""
    async with open_supplied(tmp_path) as node:
        node.upstream.script = works
        targets = (f"{PROFILE}?handle=ada", f"{VIDEOS}=ada", f"{FULL}=bob", f"{LOOKUP}ada", "/v1/prism/lookup?url=x")
        answers = [await node.get(target) for target in targets]
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 400]
        assert answers[1].json["pagination"]["next_cursor"] is not None
        assert {leg["source"] for leg in answers[2].json["data"]["legs"]} == {"partner"}
        watch = {"recipe": "tiktok/profile", "params": {"handle": "eve"}, "cadence": "weekly"}
        watch |= {"name": "eve", "webhook_url": "http://127.0.0.1:9/hook"}
        made = await send(node, "POST", "/v1/monitors", watch)
        assert made.status == 201, made.body
        monitor = made.json["monitor"]["id"]
        await node.operate("monitor.run", monitor=monitor, slot="2026-01-01T06:00:00Z")
        runs = await node.get(f"/v1/monitors/{monitor}/runs")
        run = runs.json["data"]["items"][0]["run_id"]
        result = await node.get(f"/v1/monitors/{monitor}/runs/{run}")
        kept = await node.node.stores.store.read(lambda tx: kept_data(tx, run))
        body = orjson.loads(kept.result or b"")
        assert body["user"]["uniqueId"] == "ada", "a Monitor without metrics keeps the original body"
        assert {"success", "credits_charged", "credits_remaining"}.isdisjoint(body)
        answers += [made, runs, result, await node.get(f"/v1/monitors/{monitor}/deliveries")]
        assert answers[-1].status == 200
        pages = ("/v1/status", "/v1/utility/endpoints", "/v1/events", "/v1/openapi.json", "/llms.txt", "/docs")
        docs = ("/docs/tiktok", "/docs/tiktok/profile", "/docs/errors", "/docs/operating", "/docs/platforms")
        described = [await node.get(target) for target in (*pages, *docs)]
        assert [one.status for one in described] == [200] * len(described)
        answers += described
        guide = await node.get("/v1/utility/endpoint?id=tiktok/profile/videos")
        assert guide.status == 200
        for answer in (*answers, guide):
            assert_hidden(answer)


async def test_fallback_of_the_supplier_answers(tmp_path: Path) -> None:
    async with open_supplied(tmp_path, backup=True) as node:
        node.upstream.script = lambda asked: (
            json_answer(WORDS, 402) if asked.startswith(f"{SECRET}-1.example/") else works(asked)
        )
        answer = await node.get(f"{PROFILE}?handle=ada")
        assert (answer.status, answer.json["credits_used"]) == (200, 1)
        assert node.upstream.requests == [
            f"{SECRET}-{at}{PROFILE}?handle=ada" for at in ("1.example", "2.example/base")
        ]
        assert (await node.get(f"{PROFILE}?handle=bob")).status == 200
        assert len(node.upstream.requests) == 3, "a supplier without credits is not called again"
        states = {one["supplier"]: one["state"] for one in await node.operate("supplier.list")}
        assert states == {INTERFACE: "disabled", MAIN: "unpaid", BACKUP: "closed"}


async def test_costs_are_stored_with_what_customers_paid(tmp_path: Path) -> None:
    async with open_supplied(tmp_path, prices={"unit": 0.5, "currency": "eur"}) as node:
        node.upstream.script = works
        for handle in ("ada", "bob", "ada"):
            assert (await node.get(f"{PROFILE}?handle={handle}")).status == 200
        node.upstream.always(json_answer(WORDS, 500))
        await node.get(f"{PROFILE}?handle=eve")
        await node.node.suppliers.store_all()
        (row,) = await node.operate("supplier.costs")
        assert row == {
            "group": "tiktok/profile",
            "supplier": MAIN,
            "calls": 3,
            "failed": 1,
            "units": 4,
            "units_per_call": 1.33,
            "cost": 2.0,
            "currency": "eur",
            "paid_credits": 2,
        }
        (by_platform,) = await node.operate("supplier.costs", by="platform", days=1)
        assert (by_platform["group"], by_platform["units"]) == ("tiktok", 4)
        assert await node.gauge(f'sluice_supplier_units_total{{platform="tiktok",supplier="{MAIN}"}}') == 4
        assert await node.gauge(f'sluice_supplier_balance{{supplier="{MAIN}"}}') == BALANCE


async def test_used_budget_is_a_503_and_survives_a_restart(tmp_path: Path) -> None:
    async with open_supplied(tmp_path, daily_budget=2) as node:
        node.upstream.script = works
        assert (await node.get(f"{PROFILE}?handle=ada")).status == 200
    async with open_supplied(tmp_path, daily_budget=2) as node:
        node.upstream.script = works
        answer = await node.get(f"{PROFILE}?handle=bob")
        assert (answer.status, answer.code) == (503, "SERVICE_UNAVAILABLE")
        assert 0 < int(answer.headers["retry-after"]) <= 3_600
        assert_hidden(answer)
        assert node.upstream.requests == []
        await node.node.suppliers.store_all()
        assert [(one["supplier"], one["kind"]) for one in await node.operate("supplier.alerts")] == [
            (MAIN, "budget_used")
        ]


async def test_alert_is_sent_once_an_hour(tmp_path: Path) -> None:
    received: list[dict[str, Any]] = []

    async def receive_alert(scope: Any, receive: Any, send: Any) -> None:
        assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/alerts", b"to=me")
        received.append(orjson.loads((await receive())["body"]))
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with (
        open_app(receive_alert, change="alert_url") as address,
        open_supplied(tmp_path, alert_url=f"{address}/alerts?to=me") as node,
    ):
        node.upstream.always(json_answer(WORDS, 401))
        await node.get(f"{PROFILE}?handle=ada")
        for _ in range(2):
            await node.operate("supplier.reset", supplier=MAIN)
            await node.get(f"{PROFILE}?handle=bob")
            await node.node.suppliers.store_all()
        (alert,) = await node.operate("supplier.alerts")
        assert received == [{"event": "supplier_alert", **alert}]
        assert (alert["supplier"], alert["kind"]) == (MAIN, "key_refused")
        assert node.log_events("supplier_alert_not_sent") == []


async def test_alert_that_cannot_be_sent_is_logged(tmp_path: Path) -> None:
    async with open_supplied(tmp_path, alert_url="http://127.0.0.1:9/") as node:
        node.upstream.always(json_answer(WORDS, 402))
        await node.get(f"{PROFILE}?handle=ada")
        await node.node.suppliers.store_all()
        assert len(node.log_events("supplier_alert_not_sent")) == 1
        assert len(await node.operate("supplier.alerts")) == 1


async def test_budget_and_time_limit_change_with_a_reload(tmp_path: Path) -> None:
    async with open_supplied(tmp_path, daily_budget=2) as node:
        node.upstream.script = works
        assert [(await node.get(f"{PROFILE}?handle={one}")).status for one in ("ada", "bob")] == [200, 503]
        file = tmp_path / "config.toml"
        file.write_text(file.read_text().replace("daily_budget = 2", "daily_budget = 200"))
        assert node.node.reload.run() == {"applied": [f"suppliers.{MAIN}.daily_budget"], "needs_restart": []}
        assert (await node.get(f"{PROFILE}?handle=bob")).status == 200


async def test_sandbox_serves_the_endpoints_of_suppliers(tmp_path: Path) -> None:
    async with open_sandbox(Behaviour()) as address, open_test_node(tmp_path, sandbox=address) as node:
        answer = await node.get(f"{VIDEOS}=ada")
        assert (answer.status, len(answer.json["data"]["items"])) == (200, 3)


async def test_endpoints_are_unavailable_without_a_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, suppliers=suppliers(key_env="NOT_SET")) as node:
        answer = await node.get(f"{PROFILE}?handle=ada")
        assert (answer.status, "retry-after" in answer.headers) == (503, False)
        assert [one["state"] for one in await node.operate("supplier.list")] == ["disabled", "no key"]
        guide = await node.get("/v1/utility/endpoint?id=tiktok/profile")
        assert guide.json["data"]["availability"]["available"] is False
        assert_hidden(guide)
        with pytest.raises(OperationRefused, match="it uses: none"):
            await node.operate("supplier.reset", supplier=MAIN)
