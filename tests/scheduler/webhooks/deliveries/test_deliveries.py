"""Deliveries from the queue to their receivers: retries, counts and pauses, in virtual time and on both engines."""

from dataclasses import replace

import pytest
import trio

from scheduler.webhooks.deliveries.rows import POSTPONED_S
from scheduler.webhooks.deliveries.schedule import BACKOFF_S
from scheduler.webhooks.deliveries.sender import Attempt
from scheduler.webhooks.deliveries.service import CHECK_ALONE_S
from scheduler.webhooks.signature import verify
from scheduler.webhooks.targets.hook_rows import remove_webhook, save_url
from scheduler.webhooks.targets.urls import host_in, seal_url
from storage.errors import StoreUnavailable
from tests.fakes.patient_clock import VIRTUALLY
from tests.fakes.upstream_server import until
from tests.scheduler.webhooks.office import BROKEN, GONE, OK, SILENT, URL, Office, Receivers, Sent

HOUR_S = 3_600.0
DEFAULT = "whsec_c2VjcmV0"


class _Draws:
    """Replaces random numbers with the middle of their range, which means no jitter."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


async def test_delivery_is_sent_signed_and_logged(office: Office) -> None:
    monitor = await office.monitor(await office.desk.account())
    receivers = Receivers()
    async with office.open(receivers):
        (id_,) = await office.queue(monitor, body=b'{"a": 1}')
        await office.settled()
    (sent,) = receivers.sent
    assert (sent.url, sent.body, sent.id) == (URL, b'{"a": 1}', id_)
    verify(DEFAULT, sent.signature, sent.body, now=office.now())
    delivery = await office.delivery(id_)
    assert (delivery.status, delivery.attempts, delivery.last_status) == ("delivered", 1, 200)
    assert (delivery.next_at, delivery.node, delivery.lease_until, delivery.fail_reason) == (None, None, None, None)
    (attempt,) = await office.attempts(id_)
    assert (attempt.number, attempt.status, attempt.error, attempt.answer) == (1, 200, None, "thanks")
    webhook = await office.webhook(monitor)
    assert webhook.last_delivery_at == delivery.delivered_at is not None


@VIRTUALLY
async def test_six_attempts_follow_the_schedule(virtual: Office) -> None:
    virtual.rng = _Draws()  # type: ignore[assignment]
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers(BROKEN)
    async with virtual.open(receivers):
        began_at = trio.current_time()
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(10 * HOUR_S)
    gaps = [sent.at - began_at for sent in receivers.sent]
    assert gaps == pytest.approx([sum(BACKOFF_S[:number]) for number in range(6)], abs=1e-3)
    delivery = await virtual.delivery(id_)
    assert (delivery.status, delivery.attempts, delivery.fail_reason) == ("failed", 6, "attempts_used_up")
    assert delivery.failed_at == pytest.approx(virtual.desk.starts_at + began_at + sum(BACKOFF_S), abs=1e-3)
    assert [one.number for one in await virtual.attempts(id_)] == [1, 2, 3, 4, 5, 6]
    assert (await virtual.webhook(monitor)).failures == 1
    assert {sent.id for sent in receivers.sent} == {id_}


@pytest.mark.parametrize(("draw", "factor"), [(0.0, 0.8), (1 - 1e-12, 1.2)])
@VIRTUALLY
async def test_jitter_changes_a_step_by_at_most_a_fifth(virtual: Office, draw: float, factor: float) -> None:
    virtual.rng = _Draws(draw)  # type: ignore[assignment]
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers(BROKEN)
    async with virtual.open(receivers):
        await virtual.queue(monitor)
        await trio.sleep(10 * HOUR_S)
    gaps = [after.at - before.at for before, after in zip(receivers.sent, receivers.sent[1:], strict=False)]
    assert gaps == pytest.approx([step * factor for step in BACKOFF_S], abs=1e-3)


@pytest.mark.parametrize(("asked_s", "waited_s"), [(3.0, 5.0), (8.0, 8.0), (3_600.0, 10.0)])
@VIRTUALLY
async def test_retry_after_is_honored_up_to_twice_the_step(virtual: Office, asked_s: float, waited_s: float) -> None:
    virtual.rng = _Draws()  # type: ignore[assignment]
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers(replace(BROKEN, status=429, retry_after_s=asked_s), OK)
    async with virtual.open(receivers):
        await virtual.queue(monitor)
        await trio.sleep(60)
    first, second = receivers.sent
    assert second.at - first.at == pytest.approx(waited_s, abs=1e-3)


@VIRTUALLY
async def test_unresponsive_receiver_times_out(virtual: Office) -> None:
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers()
    receivers.script = _never
    async with virtual.open(receivers, timeout_s=15.0, backoff_s=(5.0,)):
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(100)
    assert [one.latency_ms for one in await virtual.attempts(id_)] == [15_000, 15_000]
    assert [one.error for one in await virtual.attempts(id_)] == ["timed_out: no answer came"] * 2
    assert (await virtual.delivery(id_)).last_status is None


@VIRTUALLY
async def test_queued_delivery_wakes_the_service(virtual: Office) -> None:
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers()
    async with virtual.open(receivers):
        await trio.sleep(7.123)
        await virtual.queue(monitor)
        await trio.sleep(20)
    assert receivers.sent[0].at == pytest.approx(7.123, abs=1e-3)


async def test_ten_consecutive_failed_deliveries_pause_a_webhook_once(office: Office) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    receivers = Receivers(BROKEN)
    async with office.open(receivers, backoff_s=()):
        for _ in range(9):
            await office.queue(monitor)
            await office.settled()
        assert (await office.webhook(monitor)).status == "active"
        (last,) = await office.queue(monitor)
        await office.settled()
        (more,) = await office.queue(monitor)
        await office.settled()
    webhook = await office.webhook(monitor)
    assert (webhook.status, webhook.failures, len(receivers.sent)) == ("paused", 10, 10)
    (event,) = [one for one in await office.desk.events(account) if one["type"] == "monitor.webhook_paused"]
    assert event["data"] == {"monitor_id": monitor.id, "delivery_id": last, "failures_in_a_row": 10}
    assert event["subject"] == {"kind": "monitor", "id": monitor.id, "name": "My monitor"}
    dropped = await office.delivery(more)
    assert (dropped.status, dropped.attempts, dropped.fail_reason) == ("failed", 0, "webhook_paused")


@VIRTUALLY
async def test_queued_deliveries_end_when_the_webhook_pauses(virtual: Office) -> None:
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers(BROKEN, GONE)
    async with virtual.open(receivers):
        (waits,) = await virtual.queue(monitor)
        await trio.sleep(1)
        (gone,) = await virtual.queue(monitor)
        await trio.sleep(1)
    assert (await virtual.delivery(waits)).fail_reason == "webhook_paused"
    assert (await virtual.delivery(gone)).fail_reason == "gone"
    assert (await virtual.webhook(monitor)).status == "paused"
    assert (await virtual.webhook(monitor)).failures == 1


async def test_success_resets_the_failure_count(office: Office) -> None:
    monitor = await office.monitor(await office.desk.account())
    receivers = Receivers(*[BROKEN] * 9, OK, BROKEN)
    async with office.open(receivers, backoff_s=()):
        for _ in range(11):
            await office.queue(monitor)
            await office.settled()
    webhook = await office.webhook(monitor)
    assert (webhook.status, webhook.failures) == ("active", 1)


async def test_attempts_ending_together_are_each_counted(office: Office) -> None:
    """Goal: every end is counted when one writer batch contains many ends of one webhook, or ends of many webhooks."""
    account = await office.desk.account()
    monitors = [await office.monitor(account) for _ in range(5)]
    receivers = Receivers()
    gate = trio.Event()

    async def script(_sent: Sent) -> Attempt:
        await gate.wait()
        return BROKEN

    receivers.script = script
    async with office.open(receivers, backoff_s=()):
        for monitor in [*monitors, monitors[0], monitors[0]]:
            await office.queue(monitor)
        await until(lambda: len(receivers.sent) == 7)
        gate.set()
        await office.settled()
    assert [(await office.webhook(one)).failures for one in monitors] == [3, 1, 1, 1, 1]


@VIRTUALLY
async def test_deliveries_use_the_current_url(virtual: Office) -> None:
    """Method: the URL changes during an attempt at the old URL, which then returns 410."""
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers()
    new = "https://other.example.com/in"

    async def script(sent: Sent) -> Attempt:
        await trio.sleep(2)
        return GONE if sent.url == URL else OK

    receivers.script = script
    async with virtual.open(receivers):
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(1)
        await virtual.store.write(
            lambda tx: save_url(tx, monitor.id, seal_url(virtual.cipher, monitor.id, new), host_in(new))
        )
        await trio.sleep(60)
    assert [sent.url for sent in receivers.sent] == [URL, new]
    assert (await virtual.delivery(id_)).status == "delivered"
    assert (await virtual.webhook(monitor)).status == "active"


async def test_exception_in_one_attempt_does_not_affect_others(office: Office) -> None:
    account = await office.desk.account()
    bad, good = await office.monitor(account, "https://bad.example.com/"), await office.monitor(account)
    receivers = Receivers()

    async def script(sent: Sent) -> Attempt:
        await trio.lowlevel.checkpoint()
        if "bad" in sent.url:
            raise ValueError("a bug")
        return OK

    receivers.script = script
    async with office.open(receivers, backoff_s=()):
        ((first,), (second,)) = await office.queue(bad), await office.queue(good)
        await office.settled()
    assert (await office.delivery(first)).status == "failed"
    assert (await office.attempts(first))[0].error == "internal_error: an unexpected error of this server"
    assert (await office.delivery(second)).status == "delivered"
    assert [name for name, _ in office.desk.log.events] == ["delivery_failed"]


async def test_unreadable_secret_fails_only_its_attempt(office: Office) -> None:
    monitor = await office.monitor(await office.desk.account())
    await office.store.write(lambda tx: tx.run("UPDATE webhooks SET secret = 'c2VjcmV0'"))
    receivers = Receivers()
    async with office.open(receivers, backoff_s=()):
        (id_,) = await office.queue(monitor)
        await office.settled()
    assert receivers.sent == []
    assert (await office.delivery(id_)).fail_reason == "attempts_used_up"


async def test_deleted_monitor_deletes_its_deliveries(office: Office) -> None:
    """Method: one attempt is in progress and another delivery waits for its second."""
    account = await office.desk.account()
    monitor, other = await office.monitor(account), await office.monitor(account)
    receivers = Receivers()
    under_way, go_on = trio.Event(), trio.Event()

    async def script(_sent: Sent) -> Attempt:
        if len(receivers.sent) == 1:
            await trio.lowlevel.checkpoint()
            return SILENT
        if len(receivers.sent) == 2:
            under_way.set()
            await go_on.wait()
        return OK

    receivers.script = script
    async with office.open(receivers) as service:
        await office.queue(monitor)
        await until(lambda: len(receivers.sent) == 1 and not service.in_flight())
        await office.queue(monitor)
        await under_way.wait()
        await office.store.write(lambda tx: tx.run("DELETE FROM monitors WHERE id = ?", (monitor.id,)))
        go_on.set()
        (id_,) = await office.queue(other)
        await office.settled()
    assert (await office.delivery(id_)).status == "delivered"
    assert (await office.store.read(lambda tx: tx.one("SELECT COUNT(*) FROM deliveries")))[0] == 1
    assert ("delivery_was_anothers") in [name for name, _ in office.desk.log.events]


@VIRTUALLY
async def test_removed_webhook_ends_queued_deliveries(virtual: Office) -> None:
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers(BROKEN)
    async with virtual.open(receivers):
        (first,) = await virtual.queue(monitor)
        await trio.sleep(1)
        await virtual.store.write(lambda tx: remove_webhook(tx, monitor.id, at=virtual.now()))
        (second,) = await virtual.queue(monitor)
        await trio.sleep(1)
    assert [(await virtual.delivery(id_)).fail_reason for id_ in (first, second)] == ["webhook_removed"] * 2
    assert len(receivers.sent) == 1


@VIRTUALLY
async def test_stop_waits_briefly_for_attempts_in_progress(virtual: Office) -> None:
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers()

    async def script(sent: Sent) -> Attempt:
        await trio.sleep(1 if sent.at < 0.5 else 100)
        return OK

    receivers.script = script
    async with virtual.open(receivers):
        (short,) = await virtual.queue(monitor)
        await trio.sleep(0.6)
        (long,) = await virtual.queue(monitor)
        await trio.sleep(0.2)
    assert trio.current_time() == pytest.approx(3.8, abs=0.01)
    assert (await virtual.delivery(short)).status == "delivered"
    cut = await virtual.delivery(long)
    assert (cut.status, cut.attempts, cut.lease_until) == ("queued", 0, None)
    assert cut.next_at == pytest.approx(virtual.now())


@VIRTUALLY
async def test_store_failure_loses_no_delivery(virtual: Office) -> None:
    """Goal: an attempt whose end cannot be stored is repeated after its lease has expired."""
    monitor = await virtual.monitor(await virtual.desk.account())
    receivers = Receivers()

    async def script(_sent: Sent) -> Attempt:
        await trio.sleep(1)
        return OK

    receivers.script = script
    async with virtual.open(receivers):
        (id_,) = await virtual.queue(monitor)
        await trio.sleep(0.5)
        virtual.store.failing = StoreUnavailable("disk full")
        await trio.sleep(60)
        virtual.store.failing = None
        await trio.sleep(60)
    assert (await virtual.delivery(id_)).status == "delivered"
    assert len(receivers.sent) == 2
    assert {name for name, _ in virtual.desk.log.events} == {"delivery_not_settled", "deliveries_wait"}


async def _never(_sent: Sent) -> Attempt:
    await trio.sleep_forever()
    raise AssertionError("the service slept forever")


@VIRTUALLY
async def test_deliveries_of_a_suspended_account_wait_until_it_is_resumed(virtual: Office) -> None:
    """No attempt is used up in the meantime, and no other account's delivery waits."""
    accounts = [await virtual.desk.account() for _ in range(2)]
    waiting, other = [await virtual.monitor(account) for account in accounts]
    receivers = Receivers()
    async with virtual.open(receivers):
        await virtual.desk.lifecycle.suspend(accounts[0])
        ids = await virtual.queue(waiting, 10)
        (sent,) = await virtual.queue(other)
        await trio.sleep(10 * POSTPONED_S)
        assert [one.id for one in receivers.sent] == [sent]
        resumed_at = trio.current_time()
        await virtual.desk.lifecycle.resume(accounts[0])
        await trio.sleep(POSTPONED_S + CHECK_ALONE_S)
        assert sorted(one.id for one in receivers.sent) == sorted((sent, *ids))
    assert receivers.sent[-1].at - resumed_at <= POSTPONED_S + 1
    assert [(await virtual.delivery(id_)).attempts for id_ in ids] == [1] * 10
