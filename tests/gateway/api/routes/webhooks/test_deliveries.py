"""Deliveries over HTTP: the routes on an in-memory database, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.api.routes.webhooks.deliveries import DeliveryRoutes
from gateway.http.request import Reply
from scheduler.webhooks.deliveries.rows import add_attempts
from scheduler.webhooks.deliveries.sender import ANSWER_CHARACTERS_KEPT
from scheduler.webhooks.records import AttemptRow
from scheduler.webhooks.signature import SECRET_PREFIX
from tests.gateway.api.routes.webhooks.routed import SIGNER, body_of, reply_of
from tests.scheduler.webhooks.office import BROKEN, GONE, Office, Receivers, quick_office


@pytest.fixture
def office() -> Iterator[Office]:
    opened = quick_office()
    yield opened
    opened.store.close()


async def _ask(office: Office, account: str, method: str, path: str, sent: Any = None, **more: Any) -> Reply:
    return await reply_of(
        office.desk,
        lambda replies, changes: (
            DeliveryRoutes(office.webhooks, signer=SIGNER, replies=replies, changes=changes).routes
        ),
        account,
        method,
        path,
        sent,
        **more,
    )


async def _body(office: Office, account: str, method: str, path: str, sent: Any = None, **more: Any) -> Any:
    """Return the envelope of a successful reply."""
    reply = await _ask(office, account, method, path, sent, **more)
    assert reply.status in {200, 202}, reply.body
    return body_of(reply)


async def _data(office: Office, account: str, method: str, path: str, **more: Any) -> Any:
    return (await _body(office, account, method, path, **more))["data"]


async def _refused(office: Office, account: str, method: str, path: str, sent: Any = None, **more: Any) -> Any:
    """Return the status and the details of a rejection."""
    reply = await _ask(office, account, method, path, sent, **more)
    return reply.status, body_of(reply)["error"]["details"]


async def test_log_returns_deliveries_and_attempts_in_pages(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    path = f"/v1/monitors/{monitor.id}/deliveries"
    async with office.open(Receivers(BROKEN, GONE)):
        (first,) = await office.queue(monitor)
        await trio.sleep(1)
        waiting = (await _data(office, account, "GET", path))["items"][0]
        assert (waiting["id"], waiting["status"], waiting["attempt_under_way"]) == (first, "queued", False)
        assert waiting["next_attempt_at"] > waiting["created_at"]
        (second,) = await office.queue(monitor)
        await trio.sleep(1)
    page = await _body(office, account, "GET", path, query="limit=1")
    (item,) = page["data"]["items"]
    assert page["platform"] == "account"
    assert page["pagination"]["has_more"]
    assert (item["id"], item["status"], item["fail_reason"]) == (second, "failed", "gone")
    assert item["last_status"] == 410
    (attempt,) = item["attempts"]
    ended = {"number": 1, "status": 410, "error": None, "latency_ms": 0, "answer": ""}
    assert attempt == {**ended, "at": attempt["at"]}
    rest = await _data(office, account, "GET", path, query=f"limit=1&cursor={page['pagination']['next_cursor']}")
    assert [(one["id"], one["fail_reason"]) for one in rest["items"]] == [(first, "webhook_paused")]
    assert rest["items"][0]["attempts"][0]["answer"] == "no"


async def test_page_ends_early_after_long_receiver_responses(office: Office) -> None:
    """Method: 25 deliveries, each with twelve attempts whose responses have the maximum length in four-byte characters.

    One page with all of them would have 24 MB, or five times as much if each had been resent as often as allowed.
    """
    account = await office.desk.account()
    monitor = await office.monitor(account)
    ids = await office.queue(monitor, 25)
    answer = "\N{OWL}" * ANSWER_CHARACTERS_KEPT
    attempts = [AttemptRow(id_, number, 0.0, 500, None, 1, answer) for id_ in ids for number in range(1, 13)]
    await office.store.write(lambda tx: add_attempts(tx, attempts))
    seen: list[str] = []
    query = "limit=25"
    while True:
        reply = await _ask(office, account, "GET", f"/v1/monitors/{monitor.id}/deliveries", query=query)
        assert isinstance(reply.pieces, tuple), "a body of this size is not copied for each reader"
        assert sum(map(len, reply.pieces)) < 8_000_000
        page = body_of(reply)
        assert all(len(one["attempts"]) == 12 for one in page["data"]["items"])
        seen += [one["id"] for one in page["data"]["items"]]
        if not page["pagination"]["has_more"]:
            break
        query = f"limit=25&cursor={page['pagination']['next_cursor']}"
    assert (len(seen), set(seen)) == (25, set(ids))


async def test_webhook_is_resumed_and_delivery_resent(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    path = f"/v1/monitors/{monitor.id}"
    async with office.open(Receivers(GONE, BROKEN)):
        (id_,) = await office.queue(monitor)
        delivery, resend = f"{path}/deliveries/{id_}", f"{path}/deliveries/{id_}/redeliver"
        await trio.sleep(1)
        _, details = await _refused(office, account, "POST", resend)
        assert details["reason"] == "webhook_paused"
        resumed = (await _data(office, account, "POST", f"{path}/webhook/resume"))["webhook"]
        active = {"status": "active", "failure_count": 0, "last_delivery_at": None}
        assert resumed == {"url": "https://hooks.example.com/in", **active}
        assert (await _data(office, account, "GET", delivery))["delivery"]["status"] == "failed"
        again = (await _data(office, account, "POST", resend, key=b"one"))["delivery"]
        assert (again["id"], again["status"], again["redelivered"], again["failed_at"]) == (id_, "queued", True, None)
        await trio.sleep(1)
        tried = (await _data(office, account, "GET", delivery))["delivery"]
        assert len(tried["attempts"]) == 2
        replay = await _body(office, account, "POST", resend, key=b"one")
        assert (replay["data"]["delivery"], replay["replayed"]) == (tried, True)
        await trio.sleep(1)
        assert (await _data(office, account, "GET", delivery))["delivery"] == tried, "the delivery was sent again"


async def test_rotation_returns_new_or_given_secret_once(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    path = f"/v1/monitors/{monitor.id}/webhook/rotate-secret"
    given = await _body(office, account, "POST", path, {"webhook_secret": "a secret of my own"}, key=b"one")
    assert (given["data"]["webhook_secret"], "replayed" in given) == ("a secret of my own", False)
    made, replay = [await _body(office, account, "POST", path, key=b"two") for _ in range(2)]
    secret = made["data"]["webhook_secret"]
    assert secret.startswith(SECRET_PREFIX)
    assert made["data"]["previous_secret_valid_until"] == "2027-01-16T08:00:00.000Z"
    assert (replay["data"]["webhook_secret"], replay["replayed"]) == (None, True)
    assert (await office.webhooks.webhook(account, monitor.id)).secret == secret, "the repetition rotated it again"
    kept = await office.desk.store.read(lambda tx: tx.all("SELECT body FROM replies"))
    assert secret not in str(kept)
    status, details = await _refused(office, account, "POST", path, {"webhook_secret": "short"})
    assert (status, details["param"]) == (400, "webhook_secret")


CHANGES = ("deliveries/whd_1/redeliver", "webhook/rotate-secret", "webhook/resume")


async def test_undeclared_fields_and_parameters_are_rejected(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    for rest in CHANGES:
        status, details = await _refused(office, account, "POST", f"/v1/monitors/mon_1/{rest}", {"zzz": 1})
        assert (status, details["param"]) == (400, "zzz"), rest
    status, _ = await _refused(office, account, "GET", "/v1/monitors/mon_1/deliveries", query="sort=x")
    assert status == 400


async def test_unknown_monitor_delivery_or_webhook_is_404_with_its_reason(
    office: Office, autojump_clock: MockClock
) -> None:
    account, stranger = await office.desk.account(), await office.desk.account()
    monitor, bare = await office.monitor(account), await office.desk.monitor(account, status="paused")
    calls = [(stranger, "POST", f"{monitor.id}/{rest}", "unknown_monitor") for rest in CHANGES]
    calls += [
        (stranger, "GET", f"{monitor.id}/{rest}", "unknown_monitor") for rest in ("deliveries", "deliveries/whd_1")
    ]
    calls += [(account, "POST", f"{monitor.id}/deliveries/whd_none/redeliver", "unknown_delivery")]
    calls += [(account, "POST", f"{bare.id}/webhook/resume", "unknown_webhook")]
    for caller, method, path, reason in calls:
        status, details = await _refused(office, caller, method, f"/v1/monitors/{path}")
        assert (status, details["reason"]) == (404, reason), path
