"""Events, deliveries and stream messages match the OpenAPI document, each type with its own data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from billing.packs.payments import Paid, PaymentChange
from billing.packs.records import Pack, Payment
from events.log.kinds import KINDS
from tests.fakes.feeding import FEED, ack, append, append_some, checked, discovered, drop_before, hook_paused, page
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import Peer, open_upstream_server, reply, until
from tests.gateway.api.test_walks_streamed import events_of
from tests.gateway.docs.openapi.judging import document_of, flaws
from tests.gateway.feed.feed_client import talking
from tests.gateway.feed.test_streams import SSE, streaming
from tests.spec.monitor_life import CREDITS, SLOTS, STORIES, WEEKS, Life, open_life, send

GONE = 2
"""Number of deliveries that the receiver accepts before it goes offline."""
DISCOVER = [name for name in KINDS if name.startswith("discover.")]


EVENT = {"$ref": "#/components/schemas/EventItem"}


async def take_some(peer: Peer) -> None:
    """Accept the first deliveries, then go offline."""
    while True:
        request = await peer.request()
        response = reply() if peer._server.requests.index(request) < GONE else reply(status="410 Gone")
        await peer.send(response)


async def live(life: Life) -> None:
    """Everything that can happen to a monitor, with runs delivered in full, then as rows, then to no receiver."""
    for number, (slot, week) in enumerate(zip(SLOTS, WEEKS, strict=True)):
        life.node.upstream.script = week.answer
        if slot == SLOTS[-1]:
            assert (await life.node.get("/v1/hackernews/search?query=pear&limit=1")).status == 200
        await life.run(slot)
        if number == 0:
            assert (await send(life.node, "PATCH", life.path, {"webhook_format": "rows"})).status == 200


async def buy_and_refund(node: OpenNode) -> None:
    """Pay a pack, then reverse its payment."""
    packs, payments = node.node.stores.billing.packs, node.node.stores.billing.payments
    packs.on_sale["starter"] = Pack("starter", 10, 900, "usd", "starter")
    purchase = await packs.begin(node.account, "starter")
    for id_, event in (
        ("evt_1", Paid(purchase.id, 900, "usd", "pi_1")),
        ("evt_2", PaymentChange("pi_1", Payment(900))),
    ):
        await payments.count(id_, "of.a.test", event)


async def test_events_and_deliveries_match_document(tmp_path: Path) -> None:
    """Goal: stored and sent data match their description. Method: an account to which everything happens."""
    async with open_upstream_server(take_some) as receiver:
        own = {"webhook_url": f"{receiver.url}/hook", "suppress_webhook_unless_alert": False}
        async with open_life(tmp_path, {**STORIES, **own}, credits=CREDITS) as life:
            node = life.node
            document = await document_of(node)
            await live(life)
            for query in ("plum", "fig"):  # spends the last credits
                assert (await node.get(f"/v1/hackernews/search?query={query}&limit=1")).status == 200
            await append(node, *(discovered(node.account, node.key_id, type_) for type_ in DISCOVER))
            await append(node, *checked(node.account, node.key_id), hook_paused(node.account))
            await node.operate("key.revoke", key=(await node.new_key(node.account))[1])
            for change in ("account.suspend", "account.resume"):
                await node.operate(change, account=node.account)
            await buy_and_refund(node)
            found: dict[str, Any] = {}
            while found.keys() != KINDS.keys():
                items = (await page(node, "limit=500"))["data"]["items"]
                found = {item["type"]: item for item in items}
            await until(lambda: len(receiver.requests) > GONE)
    assert [(type_, flaws(document, EVENT, event)) for type_, event in found.items()] == [(one, []) for one in found]
    whole, rows, *_ = [orjson.loads(request.partition(b"\r\n\r\n")[2]) for request in receiver.requests]
    forms = document["webhooks"]["monitorRun"]["post"]["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert [flaws(document, form, body) for form, body in zip(forms, (whole, rows), strict=True)] == [[], []]
    assert flaws(document, forms[0], rows)


def data_of(stream: Any, name: str) -> list[Any]:
    """Return the data of all events with this name so far."""
    blocks = [block for block in stream.blocks if "data" in block and block.get("event", "message") == name]
    return [orjson.loads(block["data"]) for block in blocks]


async def test_feed_server_sent_events_match_document(node: OpenNode) -> None:
    document = await document_of(node)
    content = document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]
    described = content["text/event-stream"]["x-events"]
    await append_some(node, 3)
    await ack(node, "late", (await page(node, "consumer=late&limit=1"))["pagination"]["next_cursor"])
    await drop_before(node, 3)
    assert (await node.get(f"{FEED}?consumer=late", headers=SSE)).status == 410
    async with streaming(node, "consumer=late") as stream:
        while not data_of(stream, "message"):
            await stream.block()
        for name, schema in described.items():
            assert [flaws(document, schema, data) for data in data_of(stream, name)] == [[]], name


async def test_socket_messages_match_document(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        document = await document_of(node)
        described = document["paths"]["/v1/events/ws"]["get"]["responses"]["101"]["x-websocket"]
        sends, takes = described["sends"], described["takes"]
        await append_some(node, 1)
        with trio.move_on_after(5):
            async with talking(node, "consumer=one") as talk:
                first = await talk.next()
                sent = {"type": "ack", "cursor": first["next_cursor"]}
                assert [flaws(document, one, sent) for one in takes] == [[]]
                await talk.say(sent)
                messages = [first, await talk.next()]
                await talk.say({"type": "nack"})
                messages.append(await talk.next())
                node.node.draining.set()
                messages.append(await talk.next())
    assert [one["type"] for one in messages] == ["events", "acked", "error", "end"]
    names = ["SocketEvents", "SocketAcked", "SocketError", "SocketEnding"]
    for name, message in zip(names, messages, strict=True):
        schema = {"$ref": f"#/components/schemas/{name}"}
        assert schema in sends
        assert flaws(document, schema, message) == []


async def test_walk_progress_matches_document(node: OpenNode) -> None:
    document = await document_of(node)
    answer = await node.get("/v1/hackernews/search?query=trio&limit=150", headers=SSE)
    success = document["paths"]["/v1/hackernews/search"]["get"]["responses"]["200"]["$ref"].rpartition("/")[2]
    described = document["components"]["responses"][success]["content"]["text/event-stream"]["x-events"]
    found = events_of(answer.body)
    assert [event.name for event in found][-1] == "result"
    assert len(found) > 1
    for event in found:
        assert flaws(document, described[event.name], event.data) == [], event.name


@pytest.mark.parametrize("change", [{"type": "credits.low"}, {"data": {"key_id": "key_1"}}, {"type": "key.lost"}])
async def test_event_whose_data_does_not_match_its_type_is_detected(change: dict[str, Any], node: OpenNode) -> None:
    document = await document_of(node)
    await append_some(node, 1)
    (event,) = (await page(node))["data"]["items"]
    assert flaws(document, EVENT, event) == []
    assert flaws(document, EVENT, {**event, **change})
