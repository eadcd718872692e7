"""The webhooks of a running node: the queue of their deliveries, and the service that sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from gateway.config.settings import Config
from gateway.node.stores import Stores
from gateway.observability.logs import Log
from scheduler.clock.instants import Instant, instant_of
from scheduler.webhooks.deliveries.queue import Outbox
from scheduler.webhooks.deliveries.sender import open_sender
from scheduler.webhooks.deliveries.service import Deliveries, DeliverySetting, open_deliveries
from scheduler.webhooks.targets.resolver import Resolve
from storage.opening import is_shared


@dataclass(frozen=True, slots=True)
class WebhookRuntime:
    """The queue of deliveries, its clock, and the call that announces a new one."""

    outbox: Outbox
    instant: Instant
    wake: Callable[[], None]
    deliveries: Deliveries | None = None
    """None where nothing is sent."""


def idle_webhooks(config: Config, now: Callable[[], float], make_id: Callable[[str], str]) -> WebhookRuntime:
    """A runtime that sends nothing itself."""
    instant = instant_of(now, is_alone=not is_shared(config.store.url))

    def leave(*_: object) -> None:
        """A node will look by itself."""

    return WebhookRuntime(Outbox(instant, make_id, leave), instant, leave)


@asynccontextmanager
async def open_webhooks(
    config: Config,
    stores: Stores,
    *,
    now: Callable[[], float],
    make_id: Callable[[str], str],
    log: Log,
    rng: Random,
    stopping: Callable[[], bool],
    resolve: Resolve | None,
) -> AsyncIterator[WebhookRuntime]:
    """A runtime that sends the queued deliveries while the block runs."""
    webhooks = config.webhooks
    if webhooks.allow_insecure_targets:
        log.event("warning", "insecure_webhook_targets_allowed", setting="webhooks.allow_insecure_targets")
    async with open_sender(resolve=resolve, allow_insecure=webhooks.allow_insecure_targets) as sender:
        setting = DeliverySetting(
            store=stores.store,
            feed=stores.feed,
            cipher=stores.cipher,
            sender=sender,
            node=stores.charges.node,
            log=log,
            now=now,
            make_id=make_id,
            rng=rng,
            is_alone=not is_shared(config.store.url),
            stopping=stopping,
            header_name=webhooks.signature_header,
            timeout_s=webhooks.timeout_s,
            backoff_s=webhooks.backoff_s,
        )
        async with open_deliveries(setting) as deliveries:
            yield WebhookRuntime(deliveries.outbox, deliveries.instant, deliveries.wake, deliveries)
