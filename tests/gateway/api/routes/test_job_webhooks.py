"""Job webhooks over HTTP, on a whole node with a receiver on loopback (decisions 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from scheduler.webhooks.signature import verify
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.upstream_server import UpstreamServer, always, open_upstream_server, reply
from tests.gateway.api.routes.test_jobs import HOME, ask, ended, site

SECRET = "a secret of my own"
ALLOWED: Mapping[str, object] = {"allow_insecure_targets": True, "backoff_s": [0.05] * 5, "timeout_s": 2}


@pytest.fixture
async def receiver() -> AsyncIterator[UpstreamServer]:
    async with open_upstream_server(always(reply(b"taken"))) as opened:
        yield opened


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=500, webhooks=ALLOWED) as opened:
        opened.upstream.script = site
        yield opened
        await opened.assert_sound()


async def delivered(node: OpenNode, job_id: str, *, status: str = "delivered") -> Any:
    """Wait until a job's only delivery has this status, and return it."""
    while True:
        _, answer = await ask(node, "GET", f"/v1/web/jobs/{job_id}/deliveries")
        if [one["status"] for one in answer["data"]["items"]] == [status]:
            return answer["data"]["items"][0]
        await trio.sleep(0.05)


def received(request: bytes, secret: str) -> Any:
    """Verify the signature of a delivery, and return its body."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
    signed = {name.lower(): value.strip() for name, _, value in lines}["x-sluice-signature"]
    verify(secret, signed, body, now=float(signed.partition(",")[0].removeprefix("t=")))
    return orjson.loads(body)


async def test_crawl_webhook_is_delivered_once_and_signed(node: OpenNode, receiver: UpstreamServer) -> None:
    body = {"url": HOME, "limit": 1, "webhook_url": f"{receiver.url}/hook/a-token-of-the-receivers-own"}
    status, begun = await ask(node, "POST", "/v1/web/crawl", body, idempotency_key="crawl-1")
    job_id, secret = begun["data"]["job_id"], begun["data"]["webhook_secret"]
    assert (status, secret[:6]) == (202, "whsec_")
    _, again = await ask(node, "POST", "/v1/web/crawl", body, idempotency_key="crawl-1")
    assert (again["data"]["job_id"], again["data"]["webhook_secret"]) == (job_id, None)
    delivery = await delivered(node, job_id)
    done = await ended(node, job_id)
    (request,) = receiver.requests
    delivered_job = received(request, secret)
    assert delivered_job == done
    assert (delivered_job["status"], delivered_job["credits"]["used"]) == ("completed", 1)
    assert ([one["status"] for one in delivery["attempts"]], delivery["attempts"][0]["answer"]) == ([200], "taken")
    assert b"/hook/a-token-of-the-receivers-own" in request
    kept = await node.node.stores.store.read(lambda tx: tx.all("SELECT url, secret, host FROM webhooks"))
    assert [row[2] for row in kept] == ["127.0.0.1"]
    assert not any(text in f"{kept}" for text in (secret, "a-token-of-the-receivers-own"))
    assert "webhook_secret" not in done


async def test_job_webhook_uses_given_secret_and_reports_cancellation(node: OpenNode, receiver: UpstreamServer) -> None:
    with node.upstream.holding():
        body = {"url": HOME, "webhook_url": receiver.url, "webhook_secret": SECRET}
        _, begun = await ask(node, "POST", "/v1/web/crawl", body)
        assert begun["data"]["webhook_secret"] == SECRET
        place = f"/v1/web/jobs/{begun['data']['job_id']}"
        await ask(node, "PATCH", place, {"status": "paused"})
        assert (await ask(node, "GET", f"{place}/deliveries"))[1]["data"]["items"] == []
        await ask(node, "DELETE", place)
        await ask(node, "DELETE", place)
        await delivered(node, begun["data"]["job_id"])
    assert [received(one, SECRET)["status"] for one in receiver.requests] == ["cancelled"]


async def test_failed_delivery_can_be_resent(tmp_path: Path) -> None:
    answers = [reply(b"no", status="410 Gone")]

    async def serve(peer: Any) -> None:
        while True:
            await peer.request()
            await peer.send(answers[-1])

    async with (
        open_upstream_server(serve) as receiver,
        open_test_node(tmp_path, credits=50, webhooks=ALLOWED) as node,
    ):
        node.upstream.script = site
        body = {"urls": [HOME], "webhook_url": receiver.url, "webhook_secret": SECRET}
        _, begun = await ask(node, "POST", "/v1/web/batch-scrape", body)
        log = f"/v1/web/jobs/{begun['data']['job_id']}/deliveries"
        failed = await delivered(node, begun["data"]["job_id"], status="failed")
        assert (failed["fail_reason"], failed["last_status"]) == ("gone", 410)
        _, feed = await ask(node, "GET", "/v1/events?limit=100")
        assert [one for one in feed["data"]["items"] if "webhook" in one["type"]] == []
        answers.append(reply(b"back"))
        status, again = await ask(node, "POST", f"{log}/{failed['id']}/redeliver")
        assert (status, again["data"]["delivery"]["redelivered"]) == (202, True)
        done = await delivered(node, begun["data"]["job_id"])
        shown = await ask(node, "GET", f"{log}/{failed['id']}")
        assert (shown[0], shown[1]["platform"], shown[1]["data"]["delivery"]) == (200, "web", done)

        status, answer = await ask(node, "GET", f"{log}/whd_none")
        assert (status, answer["error"]["details"]["reason"]) == (404, "unknown_delivery")
