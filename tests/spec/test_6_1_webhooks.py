"""Sections 2.7, 5.3 and 6.1 on a whole node: the signed deliveries of a monitor's runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson

from scheduler.webhooks.signature import verify
from tests.fakes.feeding import post
from tests.fakes.monitoring import HOOKED, listed, made, patch
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.upstream_server import always, open_upstream_server, reply, until
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.spec.monitor_life import MONITORS, SLOTS, STORIES, WEEKS, Life, open_life, send
from tests.spec.refusals import assert_refused
from tests.spec.test_3_monitor_life_ordinary import PROFILE, user

SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


def delivered(request: bytes) -> tuple[dict[str, str], Any]:
    """Return the headers, and the body after verifying its signature."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0].startswith("POST /hook ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    verify(SECRET, headers["x-sluice-signature"], body, now=time.time())
    return headers, orjson.loads(body)


async def deliveries(life: Life) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await life.data("/deliveries"))["items"]
    return items


async def attempts(node: OpenNode, monitor_id: str) -> list[dict[str, Any]]:
    items = (await node.get(f"{MONITORS}/{monitor_id}/deliveries")).json["data"]["items"]
    return [attempt for delivery in items for attempt in delivery["attempts"]]


async def paused(node: OpenNode) -> list[str]:
    events = (await node.get("/v1/events?types=monitor.webhook_paused")).json["data"]["items"]
    return [event["subject"]["id"] for event in events]


async def test_run_is_delivered_with_result_changes_and_signature(tmp_path: Path) -> None:
    async with open_upstream_server(always(reply(b"thanks"))) as receiver:
        body = {**PROFILE, "webhook_url": f"{receiver.url}/hook", "webhook_secret": SECRET}
        async with open_life(tmp_path, {**body, "suppress_webhook_unless_alert": False}, credits=10) as life:
            for slot, answer in zip(SLOTS, (user(40, 10), json_answer({}, status=500), user(50, 10)), strict=False):
                life.node.upstream.always(answer)
                await life.run(slot)
            await until(lambda: len(receiver.requests) == 2)
            (_, first), (headers, third) = (delivered(request) for request in receiver.requests)
            assert [first["run_id"], third["run_id"]] == [life.runs[0]["run_id"], life.runs[2]["run_id"]]
            assert first.keys() == third.keys() == {
                "monitor_id", "run_id", "recipe", "status", "scheduled_for", "alerts_fired", "result", "deltas"
            }  # fmt: skip
            assert (first["deltas"], third["deltas"]["followers"]) == ({}, 10)
            assert third["result"]["followers"] == 50
            assert [alert["metric"] for alert in third["alerts_fired"]] == ["followers"]
            assert headers["webhook-id"] == (await deliveries(life))[0]["id"]
            assert [one["status"] for one in await deliveries(life)] == ["delivered", "delivered"]


async def test_rows_format_is_delivered_on_request(tmp_path: Path) -> None:
    async with open_upstream_server(always(reply())) as receiver:
        own = {"webhook_url": f"{receiver.url}/hook", "webhook_secret": SECRET, "webhook_format": "rows"}
        async with open_life(tmp_path, {**STORIES, **own}) as life:
            for slot, week in zip(SLOTS[:2], WEEKS, strict=False):
                life.node.upstream.script = week.answer
                await life.run(slot)
            await until(lambda: len(receiver.requests) == 2)
            _, payload = delivered(receiver.requests[1])
            assert payload.keys() == {
                "monitor_id", "run_id", "recipe", "status", "scheduled_for", "alerts_fired", "rows"
            }  # fmt: skip
            row = next(row for row in payload["rows"] if row["row_id"] == "8863" and row["metric"].endswith("likes"))
            assert row | {"t": ""} == {
                "t": "", "row_id": "8863", "metric": row["metric"], "value": 130, "prev": 104, "abs_change": 26,
                "pct_change": 25.0,
            }  # fmt: skip


async def test_receiver_that_returns_410_pauses_its_webhook_until_resumed(tmp_path: Path) -> None:
    async with open_upstream_server(always(reply(status="410 Gone"))) as receiver:
        body = {**PROFILE, "webhook_url": f"{receiver.url}/hook", "webhook_secret": SECRET}
        async with open_life(tmp_path, {**body, "suppress_webhook_unless_alert": False}, credits=10) as life:
            life.node.upstream.always(user(40, 10))
            await life.run(SLOTS[0])
            await until(lambda: receiver.requests)
            while not await paused(life.node):
                pass
            assert await paused(life.node) == [life.id]
            shown = (await life.data(""))["monitor"]
            assert (shown["webhook"]["status"], shown["status"]) == ("paused", "active")
            assert any("was paused because its receiver returned 410" in warning for warning in shown["warnings"])
            await life.run(SLOTS[1])
            assert [one["status"] for one in await deliveries(life)] == ["failed"], (
                "the paused webhook receives nothing"
            )
            path, failed = f"/v1/monitors/{life.id}", (await deliveries(life))[0]["id"]
            assert (await send(life.node, "POST", f"{path}/webhook/resume")).status == 200
            assert (await send(life.node, "POST", f"{path}/deliveries/{failed}/redeliver")).status == 202
            await until(lambda: len(receiver.requests) == 2)
            assert receiver.requests[1].partition(b"\r\n\r\n")[2] == receiver.requests[0].partition(b"\r\n\r\n")[2]


NOT_PUBLIC = ("http://example.com/", "https://2130706433/", "https://[::ffff:10.0.0.1]/")
"""One target of each kind. `tests/scheduler/monitors/model/test_fields.py` has all of them."""


async def test_non_public_target_is_rejected_at_registration(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, resolve=Resolver([PUBLIC])) as node:
        id_ = await made(node, HOOKED)
        for url in NOT_PUBLIC:
            for answer in (
                await post(node, MONITORS, {**HOOKED, "webhook_url": url}),
                await post(node, f"{MONITORS}?dry_run=1", {**HOOKED, "webhook_url": url}),
                await patch(node, id_, webhook_url=url),
            ):
                assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == "webhook_url", url
        assert await listed(node) == [id_]


async def test_all_addresses_of_a_host_name_are_checked_at_each_attempt(tmp_path: Path) -> None:
    """Goal: no host name ever leads to a private address. Method: first a public address, later mixed addresses."""
    resolver = Resolver([PUBLIC], [PUBLIC, "169.254.169.254"])
    async with open_test_node(tmp_path, resolve=resolver) as node:
        id_ = await made(node, HOOKED)
        for answer in (
            await post(node, MONITORS, HOOKED),
            await patch(node, id_, webhook_url="https://b.example.com/"),
        ):
            details = assert_refused(answer, "INVALID_REQUEST", 400)
            assert (details["param"], details["reason"]) == ("webhook_url", "invalid_param")
            assert "an address that is not public" in answer.json["error"]["message"]
        await node.operate("monitor.run", monitor=id_, slot=SLOTS[0])
        while not (tried := await attempts(node, id_)):
            pass
        (attempt,) = tried
        assert (attempt["status"], attempt["error"].partition(":")[0]) == (None, "target_refused")
        assert resolver.asked == [("example.com", 443)] * 2 + [("b.example.com", 443), ("example.com", 443)]
