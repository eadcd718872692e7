"""`/v1/webhooks` over HTTP: the routes on an in-memory database, without a server (decisions 22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.admin.erasure import REMOVES
from gateway.api.routes.webhooks.account import WebhookRoutes
from gateway.http.request import Reply
from scheduler.account_webhooks.rows import forget_webhooks_of
from scheduler.account_webhooks.service import WEBHOOKS_MAX
from tests.gateway.api.routes.webhooks.routed import SIGNER, body_of, reply_of
from tests.scheduler.account_webhooks.hooked import Hooked
from tests.scheduler.webhooks.office import BROKEN, URL, Receivers, quick_office

WEBHOOKS = "/v1/webhooks"
BODY = {"url": URL, "types": ["key.revoked"]}


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    office = quick_office()
    yield Hooked(office)
    office.store.close()


async def _ask(hooked: Hooked, account: str, method: str, path: str, sent: Any = None, **more: Any) -> Reply:
    service, webhooks = hooked.service, hooked.webhooks
    return await reply_of(
        hooked.office.desk,
        lambda replies, changes: (
            WebhookRoutes(service, webhooks, signer=SIGNER, replies=replies, changes=changes).routes
        ),
        account,
        method,
        path,
        sent,
        **more,
    )


async def _data(hooked: Hooked, account: str, method: str, path: str, sent: Any = None, **more: Any) -> Any:
    reply = await _ask(hooked, account, method, path, sent, **more)
    assert reply.status in {200, 201, 202}, reply.body
    return body_of(reply)["data"]


async def _refused(hooked: Hooked, account: str, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    reply = await _ask(hooked, account, method, path, sent)
    return reply.status, body_of(reply)["error"]


async def test_webhook_can_be_created_read_changed_and_deleted(hooked: Hooked) -> None:
    account = await hooked.office.desk.account()
    reply = await _ask(hooked, account, "POST", WEBHOOKS, {**BODY, "description": "on call"})
    made = body_of(reply)["data"]
    id_ = made["webhook"]["id"]
    assert (reply.status, id_[:3], made["secret"][:6]) == (201, "wh_", "whsec_")
    assert (b"location", f"{WEBHOOKS}/{id_}".encode()) in list(zip(*reply.headers, strict=True))
    assert made["webhook"] == {
        "id": id_,
        "url": URL,
        "types": ["key.revoked"],
        "description": "on call",
        "status": "active",
        "failure_count": 0,
        "last_delivery_at": None,
        "created_at": made["webhook"]["created_at"],
        "updated_at": made["webhook"]["created_at"],
    }
    assert (await _data(hooked, account, "GET", f"{WEBHOOKS}/{id_}"))["webhook"] == made["webhook"]
    assert (await _data(hooked, account, "GET", WEBHOOKS))["items"] == [made["webhook"]]
    changed = await _data(
        hooked, account, "PATCH", f"{WEBHOOKS}/{id_}", {"types": ["*", "*"], "url": "https://other.example.com/in"}
    )
    assert (changed["webhook"]["types"], changed["webhook"]["url"]) == (["*"], "https://other.example.com/in")
    assert "secret" not in changed
    kept = await hooked.store.read(lambda tx: tx.all("SELECT url, secret FROM webhooks"))
    assert all("other.example" not in url and made["secret"] not in secret for url, secret in kept), (
        "the URL or the secret is stored in plain text"
    )
    assert (await _ask(hooked, account, "DELETE", f"{WEBHOOKS}/{id_}")).status == 204
    status, error = await _refused(hooked, account, "GET", f"{WEBHOOKS}/{id_}")
    assert (status, error["details"]["reason"]) == (404, "unknown_webhook")
    assert "GET /v1/webhooks lists all" in error["message"]


INVALID: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"types": ["monitor.run_complete"]}, "types[0]", "monitor.run_completed"),
    ({"types": ["*", "credit.*"]}, "types[1]", "credits.*"),
    ({"types": "monitor.*"}, "types", "an array"),
    ({"types": ["key.revoked,credits.low"]}, "types[0]", "a single name"),
    ({"types": None}, "types", "is required"),
    ({"url": "http://example.com/"}, "url", "cannot be called"),
    ({"url": "https://127.0.0.1/"}, "url", "cannot be called"),
    ({"url": "https://user@example.com/"}, "url", "cannot be called"),
    ({"description": "two\nlines"}, "description", "printable"),
)


async def test_rejection_names_invalid_field_and_its_problem(hooked: Hooked) -> None:
    account = await hooked.office.desk.account()
    for change, param, problem in INVALID:
        status, error = await _refused(hooked, account, "POST", WEBHOOKS, {**BODY, **change})
        assert (status, error["type"], error["details"]["param"]) == (400, "INVALID_REQUEST", param)
        assert problem in f"{error['message']} {error['details']}"
    assert (await _data(hooked, account, "GET", WEBHOOKS))["items"] == []
    id_ = await hooked.make(account)
    for body in ({}, {"types": ["x"]}):
        assert (await _refused(hooked, account, "PATCH", f"{WEBHOOKS}/{id_}", body))[0] == 400


async def test_webhooks_are_limited_and_listed_newest_first(hooked: Hooked) -> None:
    account = await hooked.office.desk.account()
    made = [await hooked.make(account) for _ in range(WEBHOOKS_MAX)]
    status, error = await _refused(hooked, account, "POST", WEBHOOKS, BODY)
    assert (status, error["details"]["reason"]) == (400, "webhook_limit_reached")
    await hooked.make(await hooked.office.desk.account())
    seen: list[str] = []
    query = "limit=3"
    while True:
        page = body_of(await _ask(hooked, account, "GET", WEBHOOKS, query=query))
        seen += [one["id"] for one in page["data"]["items"]]
        if not page["pagination"]["has_more"]:
            break
        query = f"limit=3&cursor={page['pagination']['next_cursor']}"
    assert seen == made[::-1]


async def test_idempotency_key_applies_each_change_once_and_hides_secrets(
    hooked: Hooked, autojump_clock: MockClock
) -> None:
    account = await hooked.office.desk.account()
    made, repeated = [await _data(hooked, account, "POST", WEBHOOKS, BODY, key=b"one") for _ in range(2)]
    assert made["webhook"] == repeated["webhook"]
    assert (made["secret"] is None, repeated["secret"]) == (False, None)
    place = f"{WEBHOOKS}/{made['webhook']['id']}"
    rotated, replayed = [await _data(hooked, account, "POST", f"{place}/rotate-secret", key=b"two") for _ in range(2)]
    assert rotated["secret"] != made["secret"]
    assert replayed == {"secret": None, "previous_secret_valid_until": rotated["previous_secret_valid_until"]}
    tests = [await _data(hooked, account, "POST", f"{place}/test", key=b"three") for _ in range(2)]
    assert tests[0]["delivery"]["id"] == tests[1]["delivery"]["id"]


async def test_log_shows_attempts_and_failed_batch_is_redelivered(hooked: Hooked, autojump_clock: MockClock) -> None:
    account, receivers = await hooked.office.desk.account(), Receivers(BROKEN)
    id_ = await hooked.make(account)
    path = f"{WEBHOOKS}/{id_}/deliveries"
    async with hooked.open(receivers, backoff_s=()):
        await hooked.happen(account)
        await trio.sleep(2)
        (item,) = (await _data(hooked, account, "GET", path))["items"]
        assert (item["status"], item["batch_id"], "run_id" in item) == ("failed", f"whb_{item['id'][4:]}", False)
        assert [attempt["status"] for attempt in item["attempts"]] == [500]
        assert (await _data(hooked, account, "GET", f"{path}/{item['id']}"))["delivery"] == item
        again = await _ask(hooked, account, "POST", f"{path}/{item['id']}/redeliver")
        await trio.sleep(2)
        assert again.status == 202
    assert len({one.body for one in receivers.sent}) == 1
    assert len(receivers.sent) == 2


async def test_delivery_of_another_webhook_is_unknown(hooked: Hooked, autojump_clock: MockClock) -> None:
    """Method: the id of another account's delivery below an own webhook. `test_isolation` tests all other routes."""
    account, stranger = await hooked.office.desk.account(), await hooked.office.desk.account()
    id_, mine = await hooked.make(account), await hooked.make(stranger)
    monitor = await hooked.office.monitor(account)
    async with hooked.open(Receivers()):
        await hooked.happen(account)
        await trio.sleep(2)
    (logged,) = (await hooked.webhooks.deliveries(account, id_, before=None, limit=5)).entries
    delivery = f"{WEBHOOKS}/{mine}/deliveries/{logged.delivery.id}"
    for caller, method, path in (
        (stranger, "GET", delivery),
        (stranger, "POST", f"{delivery}/redeliver"),
        (account, "GET", f"{WEBHOOKS}/{monitor.id}"),  # a monitor's webhook is not an account webhook
    ):
        assert (await _refused(hooked, caller, method, path))[0] == 404, path


async def test_deleted_account_leaves_no_webhook(hooked: Hooked) -> None:
    desk = hooked.office.desk
    account = await desk.account()
    for number in range(2):
        await hooked.make(account)
        await hooked.happen(account, first=number)
    for (id_,) in await hooked.store.read(lambda tx: tx.all("SELECT id FROM account_webhooks")):
        await hooked.store.write(lambda tx, id_=id_: hooked.batches.feed(tx, id_))
    assert forget_webhooks_of in REMOVES
    while await hooked.store.write(lambda tx: forget_webhooks_of(tx, account)):
        pass
    for table in ("account_webhooks", "webhooks", "deliveries"):
        assert await hooked.store.read(lambda tx, table=table: tx.one(f"SELECT COUNT(*) FROM {table}")) == (0,), table
