"""Deliveries over HTTP: log, redelivery and, for a monitor's webhook, secret and resuming (decisions 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from events.instants import iso, iso_or_none
from gateway.api.changes import Changes, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies, account_fragment
from gateway.api.routes.monitors import MONITOR, monitor_id_of
from gateway.docs.account.webhooks import deliveries as docs
from gateway.docs.account.webhooks.deliveries import DeliveryDocs
from gateway.http import envelope
from gateway.http.bodies import NoFields, read_json
from gateway.http.params import CURSOR, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from limits.idempotency import StoredReply
from scheduler.monitors.model.body_fields import SECRET
from scheduler.monitors.webhooks import Logged, Webhooks
from scheduler.webhooks.records import AttemptRow
from scheduler.webhooks.targets.fields import read_secret
from scheduler.webhooks.targets.urls import OpenedWebhook
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

WEBHOOK: Final = f"{MONITOR}/webhook"
# A small limit, because a delivery may have dozens of attempts with 20,000 characters of response each. A page may also
# be shorter because of its size.
_PAGE: Final = (limit(25, default=10), CURSOR)


class RotateBody(msgspec.Struct, frozen=True):
    """The body of a rotation. If it contains no secret, a new secret is generated."""

    webhook_secret: Annotated[Any, SECRET] = None


class DeliveryLog(NamedTuple):
    """The parts of a log: the path of the webhooks' owner, the path parameter, the documentation, and the view."""

    owner: str
    named: str
    docs: DeliveryDocs
    shown: Callable[[Logged], dict[str, Any]]
    platform: str = "account"


class DeliveryLogRoutes:
    """Serves the deliveries of the webhooks of one kind of owner."""

    def __init__(
        self, webhooks: Webhooks, log: DeliveryLog, *, signer: CursorSigner, replies: Replies, changes: Changes
    ) -> None:
        self._webhooks = webhooks
        self._log = log
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies, log.platform)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the delivery endpoints."""
        path, docs_ = f"{self._log.owner}/deliveries", self._log.docs
        one = f"{path}/{{delivery_id}}"
        return (
            Route(path, self.page, doc=docs_.list, params=_PAGE),
            Route(one, self.show, doc=docs_.show),
            Route(f"{one}/redeliver", self.redeliver, ("POST",), doc=docs_.redeliver, body=NoFields),
        )

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of deliveries with their attempts, newest first."""
        values = read_free(request.query, _PAGE)
        size, account_id = int(values["limit"]), caller.key.account_id
        place = self._lists.position(request, caller, values)
        page = await self._webhooks.deliveries(account_id, self._owner(request), before=place.before, limit=size)
        last = page.entries[-1].delivery if page.has_more else None
        more = None if last is None else position_after(last.created_at, last.id)
        return await self._lists.page(
            request, caller, [self._log.shown(one) for one in page.entries], place=place, more=more
        )

    async def redeliver(self, request: Request, caller: Caller) -> Reply:
        """Queue a delivery again, and return it with status 202."""
        read_free(request.query, ())
        place = self._place(request, caller)
        made = await self._changes.make(
            request,
            caller,
            await read_json(request, NoFields, may_be_empty=True),
            lambda write: self._webhooks.redeliver(*place, write=write),
            keep=lambda _: "",
        )
        found = await self._webhooks.delivery(*place) if isinstance(made, StoredReply) else made
        return await self._changes.answer(request, caller, self._fragment(request, found), made, status=202)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one delivery with its attempts."""
        read_free(request.query, ())
        found = await self._webhooks.delivery(*self._place(request, caller))
        return await self._replies.free(request, caller, self._fragment(request, found))

    def _fragment(self, request: Request, found: Logged) -> bytes:
        return envelope.fragment(self._log.platform, request.path, {"delivery": self._log.shown(found)})

    async def rotated(
        self, request: Request, caller: Caller, sent: msgspec.Struct, secret: str | None, *, field: str
    ) -> Reply:
        """Rotate the secret.

        Return the new secret under `field`, only this time, and the time until which the old secret also signs. A
        repeated request gets only that time, not the secret.
        """
        account_id, owner_id = caller.key.account_id, self._owner(request)
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._webhooks.rotate(account_id, owner_id, secret=secret, write=write),
            keep=lambda rotated: iso(rotated.previous_until),
        )
        if isinstance(made, StoredReply):
            data = {field: None, "previous_secret_valid_until": text_of(made)}
        else:
            data = {field: made.secret, "previous_secret_valid_until": iso(made.previous_until)}
        return await self._changes.answer(request, caller, account_fragment(request.path, data), made)

    def _owner(self, request: Request) -> str:
        assert request.named is not None, "the route declares this path parameter"
        return request.named[self._log.named]

    def _place(self, request: Request, caller: Caller) -> tuple[str, str, str]:
        """Return the account, the owner and the delivery in the path."""
        assert request.named is not None, "the route declares this path parameter"
        return caller.key.account_id, self._owner(request), request.named["delivery_id"]


class DeliveryRoutes(DeliveryLogRoutes):
    """Serves the webhooks of the caller's monitors."""

    def __init__(self, webhooks: Webhooks, *, signer: CursorSigner, replies: Replies, changes: Changes) -> None:
        log = DeliveryLog(MONITOR, "monitor_id", docs.LOG, _shown)
        super().__init__(webhooks, log, signer=signer, replies=replies, changes=changes)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the delivery endpoints."""
        return (
            *super().routes,
            Route(f"{WEBHOOK}/rotate-secret", self.rotate, ("POST",), doc=docs.ROTATE, body=RotateBody),
            Route(f"{WEBHOOK}/resume", self.resume, ("POST",), doc=docs.RESUME, body=NoFields),
        )

    async def rotate(self, request: Request, caller: Caller) -> Reply:
        """Rotate the secret. The response is built by `DeliveryLogRoutes.rotated`."""
        read_free(request.query, ())
        sent = await read_json(request, RotateBody, may_be_empty=True)
        return await self.rotated(request, caller, sent, read_secret(sent.webhook_secret, ""), field="webhook_secret")

    async def resume(self, request: Request, caller: Caller) -> Reply:
        """Resume a webhook's deliveries and return the webhook."""
        read_free(request.query, ())
        account_id, monitor_id = caller.key.account_id, monitor_id_of(request)
        made = await self._changes.make(
            request,
            caller,
            await read_json(request, NoFields, may_be_empty=True),
            lambda write: self._webhooks.resume(account_id, monitor_id, write=write),
            keep=lambda _: "",
        )
        webhook = await self._webhooks.webhook(account_id, monitor_id) if isinstance(made, StoredReply) else made
        fragment = account_fragment(request.path, {"webhook": _shown_webhook(webhook)})
        return await self._changes.answer(request, caller, fragment, made)


def _shown_webhook(opened: OpenedWebhook) -> dict[str, Any]:
    webhook, url, _ = opened
    return {
        "url": url,
        "status": webhook.status,
        "failure_count": webhook.failures,
        "last_delivery_at": iso_or_none(webhook.last_delivery_at),
    }


def _shown(logged: Logged) -> dict[str, Any]:
    return delivery_view(logged, {"run_id": logged.delivery.run_id})


def delivery_view(logged: Logged, cause: dict[str, Any]) -> dict[str, Any]:
    """Return a delivery as its owner sees it. `cause`, the delivery's subject, follows the id."""
    delivery, attempts = logged
    return {
        "id": delivery.id,
        **cause,
        "status": delivery.status,
        "fail_reason": delivery.fail_reason,
        "redelivered": bool(delivery.redelivered_after),
        "created_at": iso(delivery.created_at),
        "next_attempt_at": None if delivery.lease_until is not None else iso_or_none(delivery.next_at),
        "attempt_under_way": delivery.lease_until is not None,
        "delivered_at": iso_or_none(delivery.delivered_at),
        "failed_at": iso_or_none(delivery.failed_at),
        "last_status": delivery.last_status,
        "attempts": [_shown_attempt(one) for one in attempts],
    }


def _shown_attempt(attempt: AttemptRow) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "at": iso(attempt.at),
        "status": attempt.status,
        "error": attempt.error,
        "latency_ms": attempt.latency_ms,
        "answer": attempt.answer,
    }
