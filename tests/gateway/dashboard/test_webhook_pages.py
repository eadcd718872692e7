"""The pages of an account's webhooks: created once, tested, changed, paused, resumed, and deleted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.fakes.upstream_server import Peer, UpstreamServer, open_upstream_server, reply, until
from tests.gateway.dashboard.owner import PASSWORD, Owner, open_owned_node
from tests.gateway.dashboard.test_keys import stale

NODE = {"webhooks": {"allow_insecure_targets": True}}
SECRET = re.compile(r"whsec_[A-Za-z0-9+/_=-]{20,}")
WAIT_S = 30.0


@dataclass(slots=True)
class Receiver:
    """A webhook receiver whose response the test sets."""

    owner: Owner
    statuses: list[str] = field(default_factory=lambda: ["200 OK"])
    server: UpstreamServer | None = None

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(reply(b"heard <b>it</b>", status=self.statuses[-1]))

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url}/hook"

    def has_received(self, text: bytes, times: int) -> bool:
        return self.received(text) >= times

    def received(self, text: bytes) -> int:
        """Return the number of deliveries that contained this text."""
        assert self.server is not None
        return sum(text in one for one in self.server.requests)


@pytest.fixture
async def receiver(owner: Owner) -> AsyncIterator[Receiver]:
    receiver = Receiver(owner)
    async with open_upstream_server(receiver) as receiver.server:
        yield receiver


async def new_webhook(owner: Owner, url: str, **more: object) -> str:
    """Create a webhook on the page, which then shows its secret, and return its id."""
    await owner.get("/webhooks?new=1")
    await owner.send_fields("/webhooks", {"url": url, "types": ["key.*", "credits.low"], **more})
    assert owner.page.status_code == 200, owner.words
    return str(re.findall(r"wh_[0-9a-f]{32}", owner.page.text)[0])


async def shown_until(owner: Owner, path: str, is_so: Callable[[str], bool]) -> str:
    """Wait until a page's text meets a condition, and return the text."""
    with trio.fail_after(WAIT_S):
        while True:
            await owner.get(path)
            if is_so(owner.words):
                return owner.words
            await trio.sleep(0.05)


async def test_webhook_is_created_once_and_shows_its_secret_once(receiver: Receiver) -> None:
    owner = receiver.owner
    await owner.get("/webhooks")
    assert "No webhooks yet" in owner.words
    await owner.get("/webhooks?new=1")
    token = owner.token
    form = {"url": receiver.url, "types": ["key.*", "credits.low"], "description": "on call", "nonce": "a" * 32}
    made = await owner.send_fields("/webhooks", form, token=token)
    assert SECRET.search(made.text)
    again = await owner.send_fields("/webhooks", form, token=token)
    (place,) = set(re.findall(r"/dashboard/webhooks/wh_[0-9a-f]{32}", made.text))
    assert again.headers["location"] == place, "sending the form twice created a second webhook"
    page = await owner.follow(again)
    assert SECRET.search(page.text) is None
    assert page.text.count('value="key.*" checked') == page.text.count('value="credits.low" checked') == 1
    assert "checked> All" not in page.text
    await owner.get("/webhooks")
    assert "on call" in owner.words
    await owner.node.operate("key.revoke", key=owner.node.key_id)
    await shown_until(owner, place.removeprefix("/dashboard"), lambda words: "Delivered," in words)
    assert receiver.received(b'"type":"key.revoked"') == 1


async def test_test_delivery_is_logged_and_resent(receiver: Receiver) -> None:
    owner, path = receiver.owner, ""
    path = f"/webhooks/{await new_webhook(receiver.owner, receiver.url)}"
    await owner.follow(await owner.send(f"{path}/test"))
    assert "A test is queued" in owner.words
    await shown_until(owner, path, lambda words: "Delivered," in words and "status 200" in words)
    assert "heard &lt;b&gt;it&lt;/b&gt;" in owner.page.text
    (delivery,) = set(re.findall(r"whd_[0-9a-f]{32}", owner.page.text))
    await owner.follow(await owner.send(f"{path}/deliveries/{delivery}/redeliver"))
    assert "queued again" in owner.words
    await shown_until(owner, path, lambda words: "2 attempts" in words)
    assert receiver.received(b"webhook.test") == 2


async def test_paused_webhook_resumes_when_its_address_is_saved(receiver: Receiver) -> None:
    receiver.statuses.append("410 Gone")
    owner = receiver.owner
    path = f"/webhooks/{await new_webhook(owner, receiver.url)}"
    _, key = await owner.node.new_key(owner.node.account)
    await owner.node.operate("key.revoke", key=key)
    await shown_until(owner, path, lambda words: "Save and resume" in words)
    (delivery,) = set(re.findall(r"whd_[0-9a-f]{32}", owner.page.text))
    for deed, words in (("test", "The webhook is paused."), (f"deliveries/{delivery}/redeliver", "is paused.")):
        assert (await owner.send(f"{path}/{deed}")).status_code == 400
        assert words in owner.words
    receiver.statuses.append("200 OK")
    await owner.get(path)
    await owner.follow(
        await owner.send_fields(f"{path}/save", {"url": receiver.url, "types": ["*"], "description": ""})
    )
    assert "receives events" in owner.words
    assert "Save and resume" not in owner.words
    assert 'value="*" checked' in owner.page.text


async def test_invalid_webhook_error_is_shown_at_its_field(tmp_path: Path) -> None:
    async with open_owned_node(tmp_path) as owner:
        good = {"url": "https://example.com/hook", "types": ["*"], "description": "", "secret": ""}
        for wrong, words in (
            ({"url": ""}, "Address is required"),
            ({"url": "http://example.com/hook"}, "Address cannot be called"),
            ({"url": "https://10.0.0.1/hook"}, "Address cannot be called"),
            ({"types": []}, "Events is required"),
            ({"types": ["key.revokd"]}, "Events is not an event type"),
            ({"description": "x" * 201}, "Description must have at most 200 characters"),
            ({"secret": "short"}, "Signing secret must have 8 to 200 characters"),
        ):
            await owner.get("/webhooks?new=1")
            answer = await owner.send_fields("/webhooks", {**good, **wrong})
            assert answer.status_code == 400, wrong
            assert words in owner.words, (wrong, owner.words)
            assert "<strong>" in answer.text
            assert "short" not in re.sub(r"<p.*?</p>", "", answer.text), "a secret is shown again"
        await owner.get("/webhooks")
        assert "No webhooks yet" in owner.words


async def test_eleventh_webhook_is_rejected_until_one_is_deleted(owner: Owner) -> None:
    for _ in range(10):
        webhook = await new_webhook(owner, "http://127.0.0.1:9/hook")
    page = await owner.get("/webhooks")
    assert "the maximum number of webhooks" in owner.words
    assert "Create webhook" not in page.text
    answer = await owner.send_fields("/webhooks", {"url": "http://127.0.0.1:9/hook", "types": ["*"]})
    assert answer.status_code == 400
    assert "at most 10 webhooks" in owner.words
    await owner.get(f"/webhooks/{webhook}")
    await owner.send(f"/webhooks/{webhook}/delete")
    assert "Delete this webhook?" in owner.words
    await owner.follow(await owner.send(f"/webhooks/{webhook}/delete", sure="yes"))
    assert "9 webhooks; the maximum is 10" in owner.words
    assert (await owner.get(f"/webhooks/{webhook}")).status_code == 404


async def test_secret_rotation_and_deletion_require_the_password(owner: Owner) -> None:
    webhook = await new_webhook(owner, "http://127.0.0.1:9/hook", secret="a secret of my own")
    assert "a secret of my own" in owner.words
    path = f"/webhooks/{webhook}"
    await stale(owner)
    for deed in ("rotate", "delete"):
        await owner.get(path)
        answer = await owner.send(f"{path}/{deed}", sure="yes")
        assert answer.headers["location"] == f"/dashboard/confirm?next=%2Fdashboard%2Fwebhooks%2F{webhook}"
    await owner.follow(answer)
    await owner.follow(await owner.send("/confirm", password=PASSWORD, next=f"/dashboard{path}"))
    assert SECRET.search(owner.page.text) is None
    rotated = await owner.send(f"{path}/rotate")
    assert SECRET.search(rotated.text)
    assert "also signed with the previous secret" in owner.words


async def test_delivery_log_is_paginated(receiver: Receiver) -> None:
    owner = receiver.owner
    path = f"/webhooks/{await new_webhook(owner, receiver.url)}"
    with trio.fail_after(WAIT_S):
        for number in range(1, 12):
            await owner.get(path)
            assert (await owner.send(f"{path}/test")).status_code == 303
            await until(partial(receiver.has_received, b"webhook.test", number))
    page = await owner.get(path)
    assert page.text.count("/redeliver") == 10
    older = page.text.partition("?before=")[2].partition('"')[0]
    assert (await owner.get(f"{path}?before={older}")).text.count("/redeliver") == 1
    assert (await owner.get(f"{path}?before=nonsense")).text.count("/redeliver") == 10


async def test_page_stays_small_with_long_receiver_responses(receiver: Receiver) -> None:
    owner = receiver.owner
    path = f"/webhooks/{await new_webhook(owner, receiver.url)}"
    for number in range(1, 11):
        await owner.get(path)
        await owner.send(f"{path}/test")
        await until(partial(receiver.has_received, b"webhook.test", number))
    await shown_until(owner, path, lambda words: words.count("Delivered,") == 10)
    more = """
    INSERT INTO attempts (delivery_id, number, at, status, error, latency_ms, answer)
    SELECT delivery_id, number + ?, at, status, error, latency_ms, ? FROM attempts
    WHERE number = 1 AND delivery_id IN (SELECT id FROM deliveries WHERE account_id = ?)
    """
    account = owner.node.account
    for extra in range(1, 60):
        await owner.node.node.stores.store.write(lambda tx, n=extra: tx.run(more, (n, "\u20ac<" * 10_000, account)))
    page = await owner.get(path)
    assert "60 attempts, newest 6 shown" in owner.words
    assert len(page.content) < 150_000
