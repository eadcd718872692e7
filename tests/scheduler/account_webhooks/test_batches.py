"""Events arrive in batches and in order, each in exactly one batch, and no crash loses one (decisions 22)."""

from __future__ import annotations

import base64
import json

import pytest
import standardwebhooks
import trio

from events.positions import Position
from gateway.feed.tokens import FeedTokens
from scheduler.account_webhooks import rows
from scheduler.account_webhooks.feeder import open_feeder
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.errors import RedeliveryRefused
from scheduler.webhooks.signature import verify
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.account_webhooks.hooked import SECRET, SIGNER, Hooked, bodies, subjects
from tests.scheduler.webhooks.office import BROKEN, GONE, HEADER, OK, SILENT, Office, Receivers, Sent


async def test_batch_has_at_most_100_events_in_feed_order(office: Office) -> None:
    hooked, account, receivers = Hooked(office), await office.desk.account(), Receivers()
    other = await office.desk.account()
    await hooked.happen(account, 3, first=900)  # these events precede the webhook
    await hooked.make(account)
    async with hooked.open(receivers):
        ids = await hooked.happen(account, 250)
        await hooked.happen(other, 5, first=500)
        await hooked.fed()
    assert sorted(len(body["events"]) for body in bodies(receivers.sent)) == [50, 100, 100]
    queued = sorted(receivers.sent, key=lambda one: one.id)
    assert subjects(queued) == ids
    first = bodies(queued)[0]
    assert first["id"] == f"whb_{queued[0].id.removeprefix('whd_')}"
    assert set(first) == {"id", "api_version", "events"}
    event = first["events"][0]
    assert set(event) == {"id", "type", "api_version", "created_at", "subject", "data", "links", "cursor"}
    assert FeedTokens(SIGNER, account).open(event["cursor"]).pos == 4, "the feed continues after the event"


async def test_batch_is_signed_with_both_schemes(office: Office) -> None:
    hooked, account, receivers = Hooked(office), await office.desk.account(), Receivers()
    await hooked.make(account)
    async with hooked.open(receivers):
        await hooked.happen(account)
        await hooked.fed()
    (sent,) = receivers.sent
    verify(SECRET, sent.signature, sent.body, now=office.now())
    theirs = "whsec_" + base64.b64encode(SECRET.encode()).decode()
    assert standardwebhooks.Webhook(theirs).verify(sent.body, dict(sent.headers)) == json.loads(sent.body)
    assert HEADER in dict(sent.headers)


@VIRTUALLY
async def test_webhook_receives_only_its_types(virtual: Office) -> None:
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers()
    id_ = await hooked.make(account, "credits.*")
    async with hooked.open(receivers):
        await hooked.happen(account, 3)
        await hooked.run_out(account)
        await hooked.fed()
        assert [event["type"] for body in bodies(receivers.sent) for event in body["events"]] == ["credits.exhausted"]
        await hooked.patch(account, id_, types=["key.revoked"])
        await hooked.run_out(account)
        await hooked.happen(account, 1, first=7)
        await hooked.fed()
    assert subjects(receivers.sent)[1:] == ["key_7"]


@VIRTUALLY
async def test_events_stay_in_the_feed_while_the_receiver_is_down(virtual: Office) -> None:
    """Goal: at most eight deliveries wait at a time, and every event still arrives."""
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers(SILENT)
    id_ = await hooked.make(account)
    async with hooked.open(receivers, backoff_s=(60.0,) * 5):
        for number in range(40):
            await hooked.happen(account, first=number)
            await trio.sleep(1)
        assert await virtual.store.read(lambda tx: rows.count_queued(tx, id_)) == rows.QUEUED_MAX
        receivers.script = _ok
        receivers.sent.clear()
        await trio.sleep(400)
        await hooked.fed()
    delivered = sorted(receivers.sent, key=lambda one: one.id)
    assert subjects(delivered) == [f"key_{number}" for number in range(40)]
    assert len(delivered) == rows.QUEUED_MAX + 1, "the later events were gathered into one batch"


@VIRTUALLY
async def test_ten_failures_pause_a_webhook_and_saving_its_url_resumes_at_the_same_position(virtual: Office) -> None:
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers(BROKEN)
    id_ = await hooked.make(account, "key.*")
    async with hooked.open(receivers, backoff_s=()):
        for number in range(10):
            await hooked.happen(account, first=number)
            await trio.sleep(2)
        state = await hooked.service.get(account, id_)
        assert (state.target.status, state.target.failures) == ("paused", 10)
        paused = await virtual.store.read(lambda tx: tx.all("SELECT body FROM events WHERE type = 'webhook.paused'"))
        assert [json.loads(body)["data"]["webhook_id"] for (body,) in paused] == [id_]
        receivers.script = _ok
        receivers.sent.clear()
        missed = await hooked.happen(account, 3, first=50)
        await trio.sleep(60)
        assert receivers.sent == [], "a paused webhook receives nothing"
        resumed = await hooked.patch(account, id_, url="https://hooks.example.com/in")
        assert (resumed["status"], resumed["failure_count"]) == ("active", 0)
        await hooked.fed()
    assert subjects(receivers.sent) == missed, "no event that is still in the feed is skipped"


@VIRTUALLY
async def test_delivery_ended_by_410_is_redelivered_after_resume(virtual: Office) -> None:
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers(GONE, OK)
    id_ = await hooked.make(account)
    async with hooked.open(receivers):
        await hooked.happen(account)
        await trio.sleep(2)
        (logged,) = (await hooked.webhooks.deliveries(account, id_, before=None, limit=5)).entries
        assert (logged.delivery.status, logged.delivery.fail_reason) == ("failed", "gone")
        with pytest.raises(RedeliveryRefused) as refused:
            await hooked.webhooks.redeliver(account, id_, logged.delivery.id)
        assert f"PATCH /v1/webhooks/{id_} with its url" in refused.value.next_step
        await hooked.patch(account, id_, url="https://hooks.example.com/in")
        await hooked.webhooks.redeliver(account, id_, logged.delivery.id)
        await hooked.fed()
    first, second, third = receivers.sent
    assert second.body == first.body or third.body == first.body, "the redelivery has the same bytes"


@VIRTUALLY
async def test_test_event_is_not_in_the_feed_and_never_counts_as_failure(virtual: Office) -> None:
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers(BROKEN)
    id_ = await hooked.make(account, "credits.low")
    async with hooked.open(receivers, backoff_s=()):
        await hooked.service.test(account, id_)
        await trio.sleep(2)
    ((event,),) = [body["events"] for body in bodies(receivers.sent)]
    assert (event["type"], event["data"]) == ("webhook.test", {"webhook_id": id_})
    assert FeedTokens(SIGNER, account).open(event["cursor"]).pos == 0, "the cursor is the end of the feed"
    assert (await hooked.service.get(account, id_)).target.failures == 0


async def test_deleted_webhook_receives_nothing_and_leaves_no_rows(office: Office) -> None:
    hooked, account, receivers = Hooked(office), await office.desk.account(), Receivers()
    id_ = await hooked.make(account)
    async with hooked.open(receivers):
        await hooked.happen(account)
        await hooked.fed()
        await hooked.service.delete(account, id_)
        await hooked.happen(account, first=5)
        await hooked.office.settled()
    assert len(receivers.sent) == 1
    for table in ("account_webhooks", "webhooks", "deliveries", "attempts"):
        counted = await office.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}"))
        assert counted == (0,), table


@VIRTUALLY
async def test_feeder_stopped_at_any_step_queues_each_event_once(virtual: Office) -> None:
    """Goal: each event is in exactly one batch, in order, wherever the node is interrupted."""
    hooked, account, receivers = Hooked(virtual), await virtual.desk.account(), Receivers()
    await hooked.make(account)
    happened: list[str] = []

    async def once() -> None:
        async with open_feeder(hooked.feeder):
            happened.extend(await hooked.happen(account, 120, first=len(happened)))
            await trio.sleep(2)

    async def check(_got_through: bool) -> None:
        known = await virtual.store.read(lambda tx: tx.all("SELECT subject_id FROM events ORDER BY pos"))
        happened[:] = [id_ for (id_,) in known]
        async with hooked.open(receivers):
            hooked.feeder.wake()
            await hooked.fed()
        bodies_ = await virtual.store.read(lambda tx: tx.all("SELECT body FROM deliveries ORDER BY id"))
        queued = [event["subject"]["id"] for (body,) in bodies_ for event in json.loads(body)["events"]]
        assert queued == happened

    waits = await cancel_everywhere(once, check)
    assert waits > 3


async def test_webhook_continues_after_events_removed_by_retention(office: Office) -> None:
    hooked, account, receivers = Hooked(office), await office.desk.account(), Receivers()
    await hooked.make(account)
    await hooked.happen(account, 10)
    jump = "UPDATE feeds SET first_pos = 6 WHERE account_id = ?"
    await office.store.write(lambda tx: tx.run(jump, (account,)))
    async with hooked.open(receivers):
        await hooked.fed()
    assert subjects(receivers.sent) == [f"key_{number}" for number in range(5, 10)]


async def test_event_cursor_equals_the_feed_cursor(office: Office) -> None:
    """Goal: the cursor of an event in a batch is identical to the feed's cursor."""
    hooked, account, receivers = Hooked(office), await office.desk.account(), Receivers()
    await hooked.make(account)
    async with hooked.open(receivers):
        await hooked.happen(account)
        await hooked.fed()
    ((pos, at),) = await office.store.read(lambda tx: tx.all("SELECT pos, created_at FROM events"))
    (event,) = bodies(receivers.sent)[0]["events"]
    assert event["cursor"] == FeedTokens(SIGNER, account).seal(Position(pos, at))


async def _ok(_sent: Sent) -> Attempt:
    await trio.lowlevel.checkpoint()
    return OK
