"""Deliveries over HTTP: the routes on an in-memory database, without a server."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from billing.keys.cache import Key
from gateway.api.changes import Changes
from gateway.api.responses import Replies
from gateway.api.routes.webhooks.deliveries import DeliveryRoutes
from gateway.calls.idempotency import Claims
from gateway.http.errors import Refused, refusal_of
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Routes
from gateway.server.asgi import ReceiveMessage
from scheduler.errors import SchedulerError
from scheduler.webhooks.deliveries.rows import add_attempts
from scheduler.webhooks.deliveries.sender import ANSWER_CHARACTERS_KEPT
from scheduler.webhooks.records import AttemptRow
from scheduler.webhooks.signature import SECRET_PREFIX
from tests.scheduler.webhooks.office import BROKEN, GONE, Office, Receivers, quick_office
from upstreams.model.cursors import CursorSigner


@pytest.fixture
def office() -> Iterator[Office]:
    opened = quick_office()
    yield opened
    opened.store.close()


async def _ask(
    office: Office, account: str, method: str, path: str, query: str = "", *, body: bytes = b"", key: bytes = b""
) -> Reply:
    desk, replies = office.desk, Replies(office.desk.balances, "https://api.example.com")
    changes = Changes(Claims(desk.store, desk.charges, now=desk.now), replies)
    signer = CursorSigner(bytes(32))
    routes = Routes(DeliveryRoutes(office.webhooks, signer=signer, replies=replies, changes=changes).routes)

    async def receive() -> ReceiveMessage:  # noqa: ASYNC124 - has ASGI's signature
        return {"type": "http.request", "body": body, "more_body": False}

    headers = {b"idempotency-key": key} if key else {}
    request = Request(desk.make_id("req_"), method, path, query.encode(), headers, 0.0, receive=receive)
    caller = request.caller = Caller(Key("key_1", account, "mine", None))
    try:
        return await routes.find(request).handle(request, caller)
    except SchedulerError as exc:
        return await replies.refusal(request, exc)


async def _data(office: Office, account: str, method: str, path: str, query: str = "") -> Any:
    reply = await _ask(office, account, method, path, query)
    assert reply.status in {200, 202}, reply.body
    return orjson.loads(reply.body)["data"]


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
    reply = await _ask(office, account, "GET", path, "limit=1")
    page = orjson.loads(reply.body)
    (item,) = page["data"]["items"]
    assert page["platform"] == "account"
    assert page["pagination"]["has_more"]
    assert (item["id"], item["status"], item["fail_reason"]) == (second, "failed", "gone")
    assert item["last_status"] == 410
    (attempt,) = item["attempts"]
    assert attempt == {
        "number": 1,
        "at": attempt["at"],
        "status": 410,
        "error": None,
        "latency_ms": 0,
        "answer": "",
    }
    rest = await _data(office, account, "GET", path, f"limit=1&cursor={page['pagination']['next_cursor']}")
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
        reply = await _ask(office, account, "GET", f"/v1/monitors/{monitor.id}/deliveries", query)
        assert isinstance(reply.pieces, tuple), "a body of this size is not copied for each reader"
        body = b"".join(reply.pieces)
        assert len(body) < 8_000_000
        page = orjson.loads(body)
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
        await trio.sleep(1)
        refused = orjson.loads((await _ask(office, account, "POST", f"{path}/deliveries/{id_}/redeliver")).body)
        assert refused["error"]["details"]["reason"] == "webhook_paused"
        resumed = await _data(office, account, "POST", f"{path}/webhook/resume")
        assert resumed["webhook"] == {
            "url": "https://hooks.example.com/in",
            "status": "active",
            "failure_count": 0,
            "last_delivery_at": None,
        }
        assert (await _data(office, account, "GET", f"{path}/deliveries/{id_}"))["delivery"]["status"] == "failed"
        again = await _ask(office, account, "POST", f"{path}/deliveries/{id_}/redeliver", key=b"one")
        assert again.status == 202
        body = orjson.loads(again.body)["data"]["delivery"]
        assert (body["id"], body["status"], body["redelivered"], body["failed_at"]) == (id_, "queued", True, None)
        await trio.sleep(1)
        tried = (await _data(office, account, "GET", f"{path}/deliveries/{id_}"))["delivery"]
        assert len(tried["attempts"]) == 2
        repeated = await _ask(office, account, "POST", f"{path}/deliveries/{id_}/redeliver", key=b"one")
        replay = orjson.loads(repeated.body)
        assert (replay["data"]["delivery"], replay["replayed"]) == (tried, True)
        await trio.sleep(1)
        assert (await _data(office, account, "GET", f"{path}/deliveries/{id_}"))["delivery"] == tried, (
            "the delivery was sent again"
        )


async def test_rotation_returns_new_secret_and_expiry_of_the_old(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    body = await _data(office, account, "POST", f"/v1/monitors/{monitor.id}/webhook/rotate-secret")
    assert body["webhook_secret"].startswith(SECRET_PREFIX)
    assert body["previous_secret_valid_until"] == "2027-01-16T08:00:00.000Z"


async def test_rotation_accepts_given_secret_and_is_idempotent(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor = await office.monitor(account)
    path = f"/v1/monitors/{monitor.id}/webhook/rotate-secret"
    own = b'{"webhook_secret":"a secret of my own"}'
    body = orjson.loads((await _ask(office, account, "POST", path, body=own, key=b"one")).body)
    assert (body["data"]["webhook_secret"], "replayed" in body) == ("a secret of my own", False)
    made = orjson.loads((await _ask(office, account, "POST", path, key=b"two")).body)["data"]["webhook_secret"]
    replay = orjson.loads((await _ask(office, account, "POST", path, key=b"two")).body)
    assert (replay["data"]["webhook_secret"], replay["replayed"]) == (None, True)
    assert (await office.webhooks.webhook(account, monitor.id)).secret == made, (
        "the repetition rotated the secret again"
    )
    kept = await office.desk.store.read(lambda tx: tx.all("SELECT body FROM replies"))
    assert made not in str(kept)
    refused = await _ask(office, account, "POST", path, body=b'{"webhook_secret":"short"}')
    assert (refused.status, orjson.loads(refused.body)["error"]["details"]["param"]) == (400, "webhook_secret")


@pytest.mark.parametrize("rest", ["deliveries/whd_1/redeliver", "webhook/rotate-secret", "webhook/resume"])
async def test_undeclared_body_field_is_rejected(office: Office, autojump_clock: MockClock, rest: str) -> None:
    with pytest.raises(Refused) as refused:
        await _ask(office, "acc_1", "POST", f"/v1/monitors/mon_1/{rest}", body=b'{"zzz":1}')
    assert (refused.value.details or {})["param"] == "zzz"


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("GET", "deliveries"),
        ("GET", "deliveries/whd_1"),
        ("POST", "deliveries/whd_1/redeliver"),
        ("POST", "webhook/rotate-secret"),
        ("POST", "webhook/resume"),
    ],
)
async def test_other_accounts_monitor_is_unknown(
    office: Office, autojump_clock: MockClock, method: str, rest: str
) -> None:
    monitor = await office.monitor(await office.desk.account())
    stranger = await office.desk.account()
    reply = await _ask(office, stranger, method, f"/v1/monitors/{monitor.id}/{rest}")
    assert (reply.status, reply.code) == (404, "RESOURCE_NOT_FOUND")
    assert orjson.loads(reply.body)["error"]["details"]["reason"] == "unknown_monitor"


async def test_unknown_delivery_or_webhook_is_404_with_its_reason(office: Office, autojump_clock: MockClock) -> None:
    account = await office.desk.account()
    monitor, bare = await office.monitor(account), await office.desk.monitor(account, status="paused")
    for path, reason in (
        (f"{monitor.id}/deliveries/whd_none/redeliver", "unknown_delivery"),
        (f"{bare.id}/webhook/resume", "unknown_webhook"),
    ):
        reply = await _ask(office, account, "POST", f"/v1/monitors/{path}")
        assert reply.status == 404
        assert orjson.loads(reply.body)["error"]["details"]["reason"] == reason


async def test_unknown_parameters_are_rejected(office: Office, autojump_clock: MockClock) -> None:
    with pytest.raises(Refused) as refused:
        await _ask(office, "acc_1", "GET", "/v1/monitors/mon_1/deliveries", "sort=x")
    assert refusal_of(refused.value).code.status == 400
