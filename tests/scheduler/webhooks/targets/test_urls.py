"""Webhook URLs are stored sealed, and possible tokens are removed from responses that repeat them."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from billing.keys.sealing import Cipher
from scheduler.monitors.model.store import read_monitor
from scheduler.webhooks.targets.urls import new_webhook, opened, seal_plain_urls, url_of, without_tokens
from storage.store import Tx
from tests.scheduler.webhooks.office import Office, Receivers

URL = "https://hooks.example.com:8443/in?token=SECRETTOKEN"


async def leave_plain(office: Office, count: int) -> list[str]:
    """Create webhooks as the release before 0004 stored them, one per monitor."""
    account = await office.desk.account()
    monitors = [await office.monitor(account) for _ in range(count)]

    def unseal(tx: Tx) -> None:
        for one in monitors:
            tx.run("UPDATE webhooks SET url = ?, host = NULL WHERE monitor_id = ?", (f"{URL}{one.id}", one.id))

    await office.store.write(unseal)
    return [one.id for one in monitors]


async def rows_of(office: Office) -> list[tuple[str, str, str | None]]:
    rows: list[tuple[str, str, str | None]] = await office.store.read(
        lambda tx: tx.all("SELECT monitor_id, url, host FROM webhooks ORDER BY monitor_id")
    )
    return rows


def test_url_is_sealed_for_its_monitor_with_a_clear_text_host() -> None:
    cipher = Cipher(bytes(32))
    webhook = new_webhook(cipher, "mon_1", URL, "whsec_x")
    assert url_of(cipher, webhook) == URL
    assert opened(cipher, webhook)[1:] == (URL, "whsec_x")
    assert opened(Cipher(b"x" * 32), webhook)[1:] == (None, None)
    assert (webhook.host, "SECRET" in webhook.url) == ("hooks.example.com", False)


async def test_clear_text_urls_are_read_and_sealed_in_steps(office: Office) -> None:
    ids = await leave_plain(office, 30)
    account = await office.store.read(lambda tx: tx.one("SELECT account_id FROM monitors WHERE id = ?", (ids[0],)))
    assert (await office.webhooks.resume(account[0], ids[0])).url == f"{URL}{ids[0]}"
    seal = partial(seal_plain_urls, office.store, office.cipher, at_once=7)
    async with trio.open_nursery() as nursery:  # a node that is stopped after its first step
        nursery.start_soon(partial(seal, pause_s=60.0))
        while all(host is None for _, _, host in await rows_of(office)):  # noqa: ASYNC110 - a database sets no event
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert any(host is None for _, _, host in await rows_of(office))
    async with trio.open_nursery() as nursery:  # two nodes that start at the same time
        nursery.start_soon(seal)
        nursery.start_soon(seal)
    for id_, sealed, host in await rows_of(office):
        assert (host, "SECRETTOKEN" in sealed) == ("hooks.example.com", False)
        assert office.cipher.unseal(sealed, bound_to=f"webhook URL of {id_}") == f"{URL}{id_}"
    assert await seal_plain_urls(office.store, office.cipher) == 0


async def test_deliveries_work_with_clear_text_and_sealed_urls(office: Office) -> None:
    (id_,) = await leave_plain(office, 1)
    monitor = await office.store.read(lambda tx: read_monitor(tx, id_))
    assert monitor is not None
    receivers = Receivers()
    async with office.open(receivers):
        for _ in range(2):
            await office.queue(monitor)
            await office.settled()
            await seal_plain_urls(office.store, office.cipher)
    assert [sent.url for sent in receivers.sent] == [f"{URL}{id_}"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cannot POST /in?token=SECRETTOKEN&x=1", "Cannot POST /in?token=[struck out]&x=1"),
        ("no SECRETTOKEN, aa%2Fbb%2Fcc and aa/bb/cc", "no [struck out], [struck out] and [struck out]"),
        ("at /services/T0000000000000000/in", "at /services/[struck out]/in"),
        ("thanks", "thanks"),
    ],
)
def test_possible_tokens_are_removed_from_responses(text: str, expected: str) -> None:
    url = "https://h.example.com/services/T0000000000000000/in?token=SECRETTOKEN&x=1&y=aa%2Fbb%2Fcc"
    assert without_tokens(text, url) == expected
