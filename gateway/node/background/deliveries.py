"""Opens the queue of webhook deliveries on a running node, and the service that sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.config.settings import Config
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from scheduler.clock.instants import Instant, instant_of
from scheduler.webhooks.deliveries.queue import Outbox
from scheduler.webhooks.deliveries.sender import open_sender
from scheduler.webhooks.deliveries.service import Deliveries, DeliverySetting, open_deliveries
from storage.opening import is_shared
from upstreams.guard.resolver import Resolve, SystemResolver

_RESOLVING_MAX = 16
"""Maximum number of threads that resolve the hosts of webhooks during registration."""


@dataclass(frozen=True, slots=True)
class WebhookRuntime:
    """The queue of deliveries, its clock, the function that announces a new delivery, and the resolver of targets."""

    outbox: Outbox
    instant: Instant
    wake: Callable[[], None]
    resolve: Resolve
    """Resolves the hosts of webhooks when they are registered."""
    deliveries: Deliveries | None = None
    """The service that sends deliveries; None if this process only queues them."""


def _idle_webhooks(config: Config, runtime: Runtime, resolve: Resolve) -> WebhookRuntime:
    """Return a runtime that only queues deliveries and sends nothing."""
    instant = instant_of(runtime.now, is_alone=not is_shared(config.store.url))

    def leave(*_: object) -> None:
        """Do nothing, because a running node will find the delivery in the queue."""

    return WebhookRuntime(Outbox(instant, runtime.make_id, leave), instant, leave, resolve)


@asynccontextmanager
async def open_webhooks(
    config: Config, stores: Stores, *, runtime: Runtime, resolve: Resolve | None, sends: bool
) -> AsyncIterator[WebhookRuntime]:
    """Open a runtime that sends the queued deliveries while the block runs.

    Without `sends`, the deliveries wait for another node. `resolve` replaces the system's resolver.
    """
    registering = resolve or SystemResolver(threads=_RESOLVING_MAX)
    if not sends:
        yield _idle_webhooks(config, runtime, registering)
        return
    webhooks, keep = config.webhooks, runtime.keep
    if webhooks.allow_insecure_targets:
        runtime.log.event("warning", "insecure_webhook_targets_allowed", setting="webhooks.allow_insecure_targets")
    async with open_sender(
        resolve=resolve, allow_insecure=webhooks.allow_insecure_targets, keep=runtime.keep
    ) as sender:
        setting = DeliverySetting(
            store=stores.store,
            feed=stores.feed,
            cipher=stores.cipher,
            sender=sender,
            node=stores.billing.charges.node,
            log=runtime.log,
            keep=keep,
            now=runtime.now,
            make_id=runtime.make_id,
            rng=runtime.rng,
            is_alone=not is_shared(config.store.url),
            stopping=runtime.stopping.is_set,
            header_name=webhooks.signature_header,
            timeout_s=webhooks.timeout_s,
            backoff_s=webhooks.backoff_s,
        )
        async with open_deliveries(setting) as deliveries:
            yield WebhookRuntime(deliveries.outbox, deliveries.instant, deliveries.wake, registering, deliveries)
