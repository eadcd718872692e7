"""The owner's operations on a webhook: rotate its secret, resume it, redeliver, and read the delivery log."""

import hashlib
import json
import warnings
from collections.abc import Awaitable, Callable

import pytest
import trio

from scheduler.errors import MonitorUnknown
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.webhooks import ATTEMPTS_MAX, PREVIOUS_S
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.errors import DeliveryUnknown, RedeliveryRefused, SignatureRefused, WebhookUnknown
from scheduler.webhooks.signature import verify
from scheduler.webhooks.targets.hook_rows import remove_webhook
from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.webhooks.office import BROKEN, GONE, OK, URL, Office, Receivers, Sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # both packages are third-party code
    import standardwebhooks
    import stripe

OLD = "whsec_c2VjcmV0"


async def test_both_secrets_sign_during_a_rotation(office: Office) -> None:
    """Goal: our verifier and both packages accept either secret, over exactly the received bytes."""
    account = await office.desk.account()
    monitor = await office.monitor(account)
    rotated = await office.webhooks.rotate(account, monitor.id)
    assert rotated.previous_until == pytest.approx(office.now() + PREVIOUS_S, abs=30)
    receivers = Receivers()
    async with office.open(receivers):
        await office.queue(monitor, body=b'{"n": 1}')
        await office.settled()
        await office.store.write(lambda tx: tx.run("UPDATE webhooks SET previous_until = ?", (office.now() - 1,)))
        await office.queue(monitor, body=b'{"n": 2}')
        await office.settled()
    both, new_alone = receivers.sent
    for secret in (OLD, rotated.secret):
        verify(secret, both.signature, both.body, now=office.now())
        stripe.WebhookSignature.verify_header(both.body.decode(), both.signature, secret)  # type: ignore[no-untyped-call]
        assert standardwebhooks.Webhook(secret).verify(both.body, dict(both.headers)) == json.loads(both.body)
    verify(rotated.secret, new_alone.signature, new_alone.body, now=office.now())
    with pytest.raises(SignatureRefused):
        verify(OLD, new_alone.signature, new_alone.body, now=office.now())
    assert both.signature.count("v1=") == 2
    with pytest.raises(SignatureRefused):  # the previous secret's signature is last
        verify(OLD, both.signature.rpartition(",")[0], both.body, now=office.now())


@VIRTUALLY
async def test_resumed_webhook_delivers_with_a_reset_failure_count(virtual: Office) -> None:
    account = await virtual.desk.account()
    monitor = await virtual.monitor(account)
    receivers = Receivers(GONE, OK)
    async with virtual.open(receivers):
        await virtual.queue(monitor)
        await trio.sleep(1)
        assert (await virtual.webhook(monitor)).status == "paused"
        webhook, url, _ = await virtual.webhooks.resume(account, monitor.id)
        assert (webhook.status, webhook.failures, url) == ("active", 0, URL)
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(1)
    assert (await virtual.delivery(id_)).status == "delivered"


@VIRTUALLY
async def test_redelivery_is_a_new_series_with_the_same_bytes(virtual: Office) -> None:
    account = await virtual.desk.account()
    monitor = await virtual.monitor(account)
    receivers = Receivers(*[BROKEN] * 6, BROKEN, BROKEN, OK)
    async with virtual.open(receivers):
        (id_,) = await virtual.queue(monitor, body=b'{"same": true}')
        await trio.sleep(86_400)
        assert (await virtual.delivery(id_)).fail_reason == "attempts_used_up"
        asked_at = trio.current_time()
        logged = await virtual.webhooks.redeliver(account, monitor.id, id_)
        assert (logged.delivery.status, len(logged.attempts)) == ("queued", 6)
        await trio.sleep(86_400)
    delivery = await virtual.delivery(id_)
    assert (delivery.status, delivery.attempts, delivery.failed_at) == ("delivered", 9, None)
    assert [one.number for one in await virtual.attempts(id_)] == list(range(1, 10))
    assert {(sent.id, hashlib.sha256(sent.body).digest()) for sent in receivers.sent} == {
        (id_, hashlib.sha256(b'{"same": true}').digest())
    }
    waits = [sent.at - asked_at for sent in receivers.sent[6:]]
    assert waits[0] == pytest.approx(0, abs=1e-3)
    assert 4 <= waits[1] <= 6


@pytest.mark.parametrize("answer", [OK, BROKEN])
@VIRTUALLY
async def test_redelivery_never_changes_the_failure_count(virtual: Office, answer: Attempt) -> None:
    account = await virtual.desk.account()
    monitor = await virtual.monitor(account)
    receivers = Receivers(BROKEN)
    async with virtual.open(receivers, backoff_s=()):
        ids = await virtual.queue(monitor, 9)
        await trio.sleep(1)
        receivers.script = _always(answer)
        for _ in range(3):
            await virtual.webhooks.redeliver(account, monitor.id, ids[0])
            await trio.sleep(1)
    webhook = await virtual.webhook(monitor)
    assert (webhook.failures, webhook.status) == (9, "active")
    assert (await virtual.delivery(ids[0])).attempts == 4


@VIRTUALLY
async def test_waiting_delivery_can_be_sent_immediately(virtual: Office) -> None:
    account = await virtual.desk.account()
    monitor = await virtual.monitor(account)
    receivers = Receivers(BROKEN, BROKEN, OK)
    async with virtual.open(receivers):
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(30)
        assert len(receivers.sent) == 2
        await virtual.webhooks.redeliver(account, monitor.id, id_)
        await trio.sleep(1)
    assert (await virtual.delivery(id_)).status == "delivered"


@VIRTUALLY
async def test_redelivery_does_not_start_a_second_attempt(virtual: Office) -> None:
    account = await virtual.desk.account()
    monitor = await virtual.monitor(account)
    receivers = Receivers()

    async def slow(_sent: Sent) -> Attempt:
        await trio.sleep(5)
        return OK

    receivers.script = slow
    async with virtual.open(receivers):
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(1)
        logged = await virtual.webhooks.redeliver(account, monitor.id, id_)
        assert logged.delivery.redelivered_after is None
        await trio.sleep(20)
    assert len(receivers.sent) == 1


async def test_redelivery_is_rejected_while_paused_and_after_60_attempts(office: Office) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    (id_,) = await office.queue(monitor)
    await office.store.write(lambda tx: tx.run("UPDATE webhooks SET status = 'paused'"))
    with pytest.raises(RedeliveryRefused) as paused:
        await office.webhooks.redeliver(account, monitor.id, id_)
    assert paused.value.reason == "webhook_paused"
    await office.webhooks.resume(account, monitor.id)
    await office.store.write(lambda tx: tx.run("UPDATE deliveries SET attempts = ?", (ATTEMPTS_MAX,)))
    with pytest.raises(RedeliveryRefused) as endless:
        await office.webhooks.redeliver(account, monitor.id, id_)
    assert endless.value.reason == "attempts_limit_reached"
    assert (await office.delivery(id_)).redelivered_after is None


async def test_monitors_and_deliveries_of_others_are_unknown(office: Office) -> None:
    account, stranger = await office.desk.account(), await office.desk.account()
    monitor, other = await office.monitor(account), await office.monitor(account)
    bare: Monitor = await office.desk.monitor(account, status="paused")
    (id_,) = await office.queue(monitor)
    webhooks = office.webhooks
    for refused in (
        webhooks.rotate(stranger, monitor.id),
        webhooks.resume(stranger, monitor.id),
        webhooks.redeliver(stranger, monitor.id, id_),
        webhooks.deliveries(stranger, monitor.id, before=None, limit=1),
    ):
        with pytest.raises(MonitorUnknown):
            await refused
    for unknown in (webhooks.redeliver(account, other.id, id_), webhooks.redeliver(account, monitor.id, "whd_none")):
        with pytest.raises(DeliveryUnknown):
            await unknown
    await office.store.write(lambda tx: remove_webhook(tx, monitor.id, at=office.now()))
    for without in (
        webhooks.rotate(account, bare.id),
        webhooks.resume(account, bare.id),
        webhooks.redeliver(account, monitor.id, id_),
    ):
        with pytest.raises(WebhookUnknown):
            await without


async def test_delivery_log_pages_are_newest_first(office: Office) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    receivers = Receivers()
    ids = []
    async with office.open(receivers):
        for _ in range(3):
            ids += await office.queue(monitor, 2)
            await office.settled()
    pages, before = [], None
    for _ in range(3):
        page, has_more = await office.webhooks.deliveries(account, monitor.id, before=before, limit=2)
        assert has_more is (len(pages) < 4)
        pages += [one.delivery.id for one in page]
        assert all([attempt.status for attempt in one.attempts] == [200] for one in page)
        before = page[-1].delivery.created_at, page[-1].delivery.id
    assert pages == sorted(ids, reverse=True)
    assert await office.webhooks.deliveries(account, monitor.id, before=before, limit=2) == ([], False)


def _always(answer: Attempt) -> Callable[[Sent], Awaitable[Attempt]]:
    async def script(_sent: Sent) -> Attempt:
        await trio.lowlevel.checkpoint()
        return answer

    return script
