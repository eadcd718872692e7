"""Suspended and deleted accounts on a whole node: the responses to their callers, and their data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import trio

from gateway.admin.erasure import erase_all
from tests.fakes.calling import Answered
from tests.fakes.feeding import polling, post
from tests.fakes.monitoring import HOOKED, MONITORS, made
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import until
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.spec.refusals import assert_refused
from tests.spec.test_4_5_monitors import finished

PROFILE = "/v1/github/profile?handle=octocat"
SUSPENDED = {"reason": "account_suspended"}
OCTOCAT = json_answer({"id": 1, "login": "octocat"})
RUNNING = 99
"""One of the client's hundred connections is kept free for a late caller."""
WIDE = {"limits": {"concurrent_requests": 200}}
Asking = Callable[[OpenNode], Any]
ASKS: Mapping[str, Asking] = {
    "a billed call": lambda node: node.get("/v1/github/profile?handle=torvalds"),
    "a cached response": lambda node: node.get(PROFILE),
    "a repeated request": lambda node: node.get(PROFILE, headers={"idempotency-key": "once"}),
    "a bearer token": lambda node: node.get(PROFILE, key=None, headers={"authorization": f"Bearer {node.key}"}),
    "a free list": lambda node: node.get("/v1/credits/transactions"),
    "the feed": lambda node: node.get("/v1/events"),
    "monitors": lambda node: node.get(MONITORS),
    "a new monitor": lambda node: post(node, MONITORS, HOOKED),
    "no such path": lambda node: node.get("/v1/nowhere"),
}


async def test_suspended_account_gets_unbilled_errors_with_its_reason(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(OCTOCAT)
        assert (await node.get(PROFILE, headers={"idempotency-key": "once"})).status == 200
        money, upstream = await node.money(), len(node.upstream.requests)
        await node.operate("account.suspend", account=node.account)
        for name, ask in ASKS.items():
            answer = await ask(node)
            assert assert_refused(answer, "INVALID_API_KEY", 401) == SUSPENDED, name
            assert answer.json["credits_used"] == 0
        assert (await node.money(), len(node.upstream.requests)) == (money, upstream)
        await node.operate("account.resume", account=node.account)
        repeated = await node.get(PROFILE, headers={"idempotency-key": "once"})
        assert (repeated.status, repeated.json["idempotent_replay"]) == (200, True)
        items = (await node.get("/v1/events?types=account.*")).json["data"]["items"]
        assert [event["type"] for event in items] == ["account.suspended", "account.resumed"]
        assert items[0]["subject"] == {"kind": "account", "id": node.account}


@pytest.mark.parametrize("end", ["suspend", "delete"])
async def test_running_calls_of_suspended_account_finish_and_no_new_ones_start(end: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **WIDE) as node:
        node.upstream.always(OCTOCAT)
        answers: list[Answered] = []

        async def ask(number: int) -> None:
            answers.append(await node.get(f"/v1/github/profile?handle=user{number}"))

        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                for number in range(RUNNING):
                    nursery.start_soon(ask, number)
                while (await node.money())[1] < RUNNING:
                    pass
                ended = await node.operate(f"account.{end}", account=node.account)
                late = await node.get("/v1/github/profile?handle=late")
        assert [(one.status, one.json["credits_used"]) for one in answers] == [(200, 1)] * RUNNING
        assert assert_refused(late, "INVALID_API_KEY", 401) == (SUSPENDED if end == "suspend" else {})
        assert len(node.upstream.requests) == RUNNING
        assert ended["balance"] == 100_000 - RUNNING
        assert await node.money() == (100_000 - RUNNING, 0)
        await node.assert_sound()


async def test_waiting_poll_of_ended_account_returns_immediately(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for reader, end in product(("cursor=now", "consumer=mine"), ("suspend", "delete")):
            await node.renew()
            async with polling(node, f"{reader}&types=credits.low&wait_s=25") as answer:
                with trio.fail_after(10):
                    await node.operate(f"account.{end}", account=node.account)
                    refused = await answer()
            assert assert_refused(refused, "INVALID_API_KEY", 401) == (SUSPENDED if end == "suspend" else {})


@asynccontextmanager
async def streaming(node: OpenNode) -> AsyncIterator[httpx.Response]:
    headers = {"x-api-key": node.key, "accept": "text/event-stream"}
    async with node.client.stream("GET", f"{node.url}/v1/events?cursor=now&types=credits.low", headers=headers) as sent:
        yield sent


async def test_stream_ends_with_suspension_and_reason(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node, streaming(node) as stream:
        await until(node.node.feed.hub.parked)
        await node.operate("account.suspend", account=node.account)
        text = (await stream.aread()).decode()
        data = text.rpartition("event: error\ndata: ")[2]
        assert orjson.loads(data)["error"]["details"] == SUSPENDED


async def test_slots_of_suspended_account_are_skipped_and_monitors_resume(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node)
        await node.operate("account.suspend", account=node.account)
        money = await node.money()
        await node.operate("monitor.run", monitor=id_, slot="2031-01-01T00:00:00Z")
        await until_ended(node)
        assert await node.money() == money
        await node.operate("account.resume", account=node.account)
        run = await finished(node, id_)
        assert (run["status"], run["skip_reason"], run["credits_used"]) == ("skipped", "account_suspended", 0)
        await node.operate("monitor.run", monitor=id_, slot="2031-01-02T00:00:00Z")
        await until_ended(node)
        assert (await finished(node, id_))["status"] == "ok"


async def until_ended(node: OpenNode) -> None:
    """Wait until no run is in progress."""
    sql = "SELECT COUNT(*) FROM runs WHERE finished_at IS NULL"
    while (await node.node.stores.store.read(lambda tx: tx.all(sql)))[0][0]:
        pass


NAMES = ("Erika Mustermann", "her laptop", "her monitor", "erikas-hook.example.com", "her-consumer")
OF_MONITORS = ("monitors", "webhooks", "runs", "run_data", "deliveries", "attempts")
OF_FEEDS = ("events", "feeds", "consumers")


async def kept(node: OpenNode) -> str:
    """Return all stored data as one text, without sealed and packed data."""
    tables = ("accounts", "keys", "operations", *OF_MONITORS, *OF_FEEDS, "replies", "notes")
    return repr([await table_of(node, table) for table in tables])


async def table_of(node: OpenNode, table: str) -> list[Any]:
    return list(await node.node.stores.store.read(lambda tx: tx.all(f"SELECT * FROM {table}")))


async def test_deleted_account_leaves_only_its_ledger_without_names(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, resolve=Resolver([PUBLIC])) as node:
        account = (await node.operate("account.create", name=NAMES[0], operation_id="op_erikas_account"))["id"]
        key, key_id = await node.new_key(account, name=NAMES[1])
        await node.operate("key.update", key=key_id, credit_limit=90, operation_id="op_erikas_key")
        hook = {"name": NAMES[2], "webhook_url": f"https://{NAMES[3]}/hook"}
        monitor = await made(node, {**HOOKED, **hook}, key=key)
        with node.upstream.holding():  # a run is in progress when the account is deleted
            await node.operate("monitor.run", monitor=monitor)
            await node.get(f"/v1/events?consumer={NAMES[4]}", key=key)
            await until(lambda: node.upstream.requests)
            before = await kept(node)
            assert all(name in before for name in (*NAMES[:3], NAMES[4]))
            deleted = await node.operate("account.delete", account=account)
        assert (deleted["state"], deleted["name"]) == ("deleting", ""), "a charge is still open"
        while (await node.money(account))[1]:
            pass
        while await node.node.stores.store.read(lambda tx: tx.all("SELECT 1 FROM charges")):
            pass
        assert await erase_all(node.node.stores.store, node.node.stores.cancel_jobs) == 1
        after = await kept(node)
        assert [name for name in NAMES if name in after] == []
        for table in (
            "monitors",
            "webhooks",
            "runs",
            "run_data",
            "deliveries",
            "events",
            "feeds",
            "consumers",
            "replies",
        ):
            assert await table_of(node, table) == [], table
        listed = {one["id"]: one for one in await node.operate("account.list")}
        assert (listed[account]["state"], listed[account]["balance"], listed[account]["held"]) == ("deleted", 100, 0)
        assert await node.operate("account.transactions", account=account)
        await node.assert_sound()
        assert await erase_all(node.node.stores.store, node.node.stores.cancel_jobs) == 0
