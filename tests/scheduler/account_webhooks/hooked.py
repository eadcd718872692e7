"""Account webhooks on a post office: events, the feeder, the deliveries, and the requests that receivers got."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import trio

from events.log.kinds import CreditsExhausted, KeyRevoked
from events.log.log import Fact, Subject
from gateway.feed.tokens import seal_cursor
from scheduler.account_webhooks.batches import EventBatches
from scheduler.account_webhooks.draft import WebhookBody, WebhookPatch
from scheduler.account_webhooks.feeder import Feeder, open_feeder
from scheduler.account_webhooks.rows import check_owner
from scheduler.account_webhooks.service import RESUME, AccountWebhooks, AccountWebhookSetting
from scheduler.monitors.webhooks import WebhookOwner, Webhooks
from storage.store import Tx
from tests.scheduler.webhooks.office import URL, Office, Receivers, Sent
from upstreams.model.cursors import CursorSigner

SIGNER = CursorSigner(bytes(32))
SECRET = "a secret of my own"


class Hooked:
    """The account webhooks of an office, whose deliveries go to its `Receivers`."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.store = office.store
        desk = office.desk
        self.batches = EventBatches(office.outbox, seal_cursor(SIGNER), desk.make_id, office.now)
        self.feeder = Feeder(self.store, self.batches, log=desk.log, stopping=lambda: office.stopping)
        self.service = AccountWebhooks(
            AccountWebhookSetting(
                store=self.store,
                cipher=office.cipher,
                batches=self.batches,
                resolve=_resolve,
                now=office.now,
                make_id=desk.make_id,
                wake=self.feeder.wake,
            )
        )
        owner = WebhookOwner(check_owner, "feed", RESUME)
        self.webhooks = Webhooks(
            self.store, office.cipher, now=office.now, instant=office.instant, wake=office.wake, owner=owner
        )

    @asynccontextmanager
    async def open(self, receivers: Receivers, **terms: Any) -> AsyncIterator[None]:
        """Run the feeder and the deliveries for as long as the block runs."""
        async with self.office.open(receivers, **terms), open_feeder(self.feeder):
            yield

    async def make(self, account: str, *types: str, url: str = URL) -> str:
        """Create a webhook, and return its id."""
        draft = self.service.draft(WebhookBody(url, list(types or ("*",)), None, SECRET))
        return (await self.service.create(draft, account)).view.webhook.id

    async def patch(self, account: str, id_: str, **fields: Any) -> Any:
        """Change a webhook, and return it as JSON."""
        return self.service.to_json(await self.service.change(account, id_, WebhookPatch(**fields)))

    async def happen(self, account: str, count: int = 1, *, first: int = 0) -> list[str]:
        """Append `count` events in one transaction, and return the ids of their subjects in order."""
        ids = [f"key_{first + number}" for number in range(count)]
        await self.store.write(lambda tx: self.happen_in(tx, account, ids))
        self.feeder.wake()
        return ids

    def happen_in(self, tx: Tx, account: str, ids: Iterable[str]) -> None:
        facts = [Fact(account, "key.revoked", Subject("key", id_), KeyRevoked(key_id=id_, last4="1234")) for id_ in ids]
        self.office.desk.feed.append(tx, facts)

    async def run_out(self, account: str) -> None:
        """Append one event of a type that no webhook selects."""
        data = CreditsExhausted(balance=0, pack_credits=1)
        fact = Fact(account, "credits.exhausted", Subject("account", account), data)
        await self.store.write(lambda tx: self.office.desk.feed.append(tx, [fact]))
        self.feeder.wake()

    async def fed(self, within_s: float = 30.0) -> None:
        """Wait until the feed has no more events and the queue is empty."""
        sql = (
            "SELECT COUNT(*) FROM account_webhooks JOIN feeds ON feeds.account_id = account_webhooks.account_id "
            "WHERE feeds.last_pos > account_webhooks.pos"
        )
        with trio.fail_after(within_s):
            while (await self.store.read(lambda tx: tx.one(sql)))[0]:  # noqa: ASYNC110 - a database sets no event
                await trio.sleep(0.02)
        await self.office.settled(within_s)


def bodies(sent: Iterable[Sent]) -> list[Any]:
    """Return the parsed bodies of the received requests."""
    return [orjson.loads(one.body) for one in sent]


def subjects(sent: Iterable[Sent]) -> list[str]:
    """Return the subjects of all received events, in the order of their batches."""
    return [event["subject"]["id"] for body in bodies(sent) for event in body["events"]]


async def _resolve(_host: str, _port: int) -> tuple[str, ...]:
    await trio.lowlevel.checkpoint()
    return ("93.184.216.34",)
