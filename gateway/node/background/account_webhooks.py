"""Opens account webhooks on a running node: their services, and the task that queues batches of events for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from events.waking.notifier import Hub
from gateway.feed.tokens import seal_cursor
from gateway.node.background.deliveries import WebhookRuntime
from gateway.node.node import NodeSetting
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.account_webhooks.batches import EventBatches
from scheduler.account_webhooks.feeder import Feeder, open_feeder
from scheduler.account_webhooks.rows import check_owner
from scheduler.account_webhooks.service import RESUME, AccountWebhooks, AccountWebhookSetting
from scheduler.monitors.webhooks import WebhookOwner, Webhooks
from upstreams.model.cursors import CursorSigner


@dataclass(frozen=True, slots=True)
class AccountWebhookRuntime:
    """The owners' service for account webhooks, and the webhooks themselves."""

    service: AccountWebhooks
    webhooks: Webhooks


@asynccontextmanager
async def open_account_webhooks(
    setting: NodeSetting, stores: Stores, sending: WebhookRuntime, *, hub: Hub, runtime: Runtime
) -> AsyncIterator[AccountWebhookRuntime]:
    """Open the account webhooks, and queue their batches while the block runs.

    Without `keeps_time`, this node queues nothing and leaves that to other nodes. Account webhooks and monitors share
    one queue of deliveries.
    """
    store, cipher = stores.store, stores.cipher
    seal = seal_cursor(CursorSigner(setting.secrets.cursors))
    batches = EventBatches(sending.outbox, seal, runtime.make_id, runtime.now)
    feeder = Feeder(store, batches, log=runtime.log, stopping=runtime.stopping.is_set)
    service_setting = AccountWebhookSetting(
        store=store,
        cipher=cipher,
        batches=batches,
        resolve=sending.resolve,
        now=runtime.now,
        make_id=runtime.make_id,
        wake=feeder.wake,
        allow_insecure=setting.config.webhooks.allow_insecure_targets,
    )
    owner = WebhookOwner(check_owner, "feed", RESUME)
    webhooks = Webhooks(store, cipher, now=runtime.now, instant=sending.instant, wake=sending.wake, owner=owner)
    async with AsyncExitStack() as stack:
        if setting.keeps_time:
            await stack.enter_async_context(open_feeder(feeder, keep=runtime.keep))
            hub.follow(feeder.follow)
        yield AccountWebhookRuntime(AccountWebhooks(service_setting), webhooks)
