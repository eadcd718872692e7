"""`/v1/webhooks`: webhooks of the account, their secrets, tests and deliveries (decisions 22)."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from gateway.api.changes import Changes, text_of
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies, account_fragment
from gateway.api.routes.webhooks.deliveries import DeliveryLog, DeliveryLogRoutes, delivery_view
from gateway.docs.account.webhooks import account as docs
from gateway.http.bodies import NoFields, read_json
from gateway.http.params import CURSOR, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from gateway.server.http1.fields import joined
from limits.idempotency import StoredReply
from scheduler.account_webhooks.batches import batch_id
from scheduler.account_webhooks.draft import SECRET, WebhookBody, WebhookPatch, read_secret
from scheduler.account_webhooks.service import AccountWebhooks
from scheduler.monitors.webhooks import Logged, Webhooks
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import limit

WEBHOOKS: Final = "/v1/webhooks"
WEBHOOK: Final = f"{WEBHOOKS}/{{webhook_id}}"
_LIST: Final = (limit(100), CURSOR)


class RotateSecretBody(msgspec.Struct, frozen=True):
    """The body of a rotation. If it contains no secret, a new secret is generated."""

    secret: Annotated[Any, SECRET] = None


class WebhookRoutes:
    """Serves the webhooks of the caller's account."""

    def __init__(
        self,
        service: AccountWebhooks,
        webhooks: Webhooks,
        *,
        signer: CursorSigner,
        replies: Replies,
        changes: Changes,
    ) -> None:
        """`webhooks` holds the deliveries and secrets of the account's webhooks."""
        self._service = service
        self._webhooks = webhooks
        self._replies = replies
        self._changes = changes
        self._lists = Lists(signer, replies)
        log = DeliveryLog(WEBHOOK, "webhook_id", docs.LOG, _shown)
        self._log = DeliveryLogRoutes(webhooks, log, signer=signer, replies=replies, changes=changes)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the routing table entries of the webhook endpoints."""
        return (
            Route(WEBHOOKS, self.page, doc=docs.LIST, params=_LIST),
            Route(WEBHOOKS, self.create, ("POST",), doc=docs.CREATE, body=WebhookBody),
            Route(WEBHOOK, self.show, doc=docs.SHOW),
            Route(WEBHOOK, self.change, ("PATCH",), doc=docs.CHANGE, body=WebhookPatch),
            Route(WEBHOOK, self.delete, ("DELETE",), doc=docs.DELETE),
            Route(f"{WEBHOOK}/test", self.test, ("POST",), doc=docs.TEST, body=NoFields),
            Route(f"{WEBHOOK}/rotate-secret", self.rotate, ("POST",), doc=docs.ROTATE, body=RotateSecretBody),
            *self._log.routes,
        )

    async def create(self, request: Request, caller: Caller) -> Reply:
        """Create a webhook. Return 201 with the webhook and, only this time, its secret."""
        read_free(request.query, ())
        sent = await read_json(request, WebhookBody)
        draft, account_id = self._service.draft(sent), caller.key.account_id
        made = await self._changes.make(
            request,
            caller,
            sent,
            lambda write: self._service.create(draft, account_id, write=write),
            keep=lambda saved: saved.view.webhook.id,
        )
        if isinstance(made, StoredReply):  # A repeated request gets the webhook's current state.
            view, secret = await self._service.get(account_id, text_of(made)), None
        else:
            view, secret = made
        data = {"webhook": self._service.to_json(view), "secret": secret}
        reply = await self._changes.answer(request, caller, account_fragment(WEBHOOKS, data), made, status=201)
        reply.headers = joined(reply.headers, ((b"location",), (f"{WEBHOOKS}/{view.webhook.id}".encode(),)))
        return reply

    async def page(self, request: Request, caller: Caller) -> Reply:
        """Return a page of webhooks, newest first."""
        values = read_free(request.query, _LIST)
        size, place = int(values["limit"]), self._lists.position(request, caller, values)
        found = await self._service.list(caller.key.account_id, before=place.before, limit=size + 1)
        last = found[size - 1].webhook if len(found) > size else None
        more = None if last is None else position_after(last.created_at, last.id)
        items = [self._service.to_json(view) for view in found[:size]]
        return await self._lists.page(request, caller, items, place=place, more=more)

    async def show(self, request: Request, caller: Caller) -> Reply:
        """Return one webhook."""
        read_free(request.query, ())
        view = await self._service.get(caller.key.account_id, _webhook_id(request))
        return await self._free(request, caller, {"webhook": self._service.to_json(view)})

    async def change(self, request: Request, caller: Caller) -> Reply:
        """Change a webhook and return it."""
        read_free(request.query, ())
        sent = await read_json(request, WebhookPatch)
        view = await self._service.change(caller.key.account_id, _webhook_id(request), sent)
        return await self._free(request, caller, {"webhook": self._service.to_json(view)})

    async def delete(self, request: Request, caller: Caller) -> Reply:
        """Delete a webhook. It receives no more deliveries."""
        read_free(request.query, ())
        await self._service.delete(caller.key.account_id, _webhook_id(request))
        return await self._replies.bare(caller, Reply(204, b""))

    async def test(self, request: Request, caller: Caller) -> Reply:
        """Send a test event, which is not in the feed. Return 202 with its delivery."""
        read_free(request.query, ())
        account_id, webhook_id = caller.key.account_id, _webhook_id(request)
        made = await self._changes.make(
            request,
            caller,
            await read_json(request, NoFields, may_be_empty=True),
            lambda write: self._service.test(account_id, webhook_id, write=write),
            keep=str,
        )
        delivery_id = text_of(made) if isinstance(made, StoredReply) else made
        found = await self._webhooks.delivery(account_id, webhook_id, delivery_id)
        fragment = account_fragment(request.path, {"delivery": _shown(found)})
        return await self._changes.answer(request, caller, fragment, made, status=202)

    async def rotate(self, request: Request, caller: Caller) -> Reply:
        """Rotate the secret. The response is built by `DeliveryLogRoutes.rotated`."""
        read_free(request.query, ())
        sent = await read_json(request, RotateSecretBody, may_be_empty=True)
        return await self._log.rotated(request, caller, sent, read_secret(sent.secret), field="secret")

    async def _free(self, request: Request, caller: Caller, data: dict[str, Any]) -> Reply:
        return await self._replies.free(request, caller, account_fragment(request.path, data))


def _webhook_id(request: Request) -> str:
    assert request.named is not None, "the route declares this path parameter"
    return request.named["webhook_id"]


def _shown(logged: Logged) -> dict[str, Any]:
    return delivery_view(logged, {"batch_id": batch_id(logged.delivery.id)})
