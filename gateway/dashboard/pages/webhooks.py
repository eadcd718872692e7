"""Webhooks of the account: create, test, change, and the log of their deliveries (decisions 22)."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any, Final

from quart import Response, request
from quart_trio import QuartTrio

from events.log.kinds import ALL, FAMILIES, KINDS
from gateway.admin.operations import OperationRefused
from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import chosen, fields, form_record, secret_field
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.pages.deliveries import read_log
from gateway.dashboard.services import Services
from gateway.http.codes import sentence
from scheduler.account_webhooks.draft import WebhookBody, WebhookDraft, WebhookPatch
from scheduler.account_webhooks.service import WEBHOOKS_MAX, AccountWebhookState, SavedWebhook
from scheduler.errors import MonitorInvalid
from scheduler.webhooks.errors import AccountWebhookUnknown, DeliveryUnknown, RedeliveryRefused, WebhookUnknown

WEBHOOKS: Final = f"{PREFIX}/webhooks"
_FIELDS: Final = frozenset(("url", "types", "description", "secret"))
_UNTESTED: Final = {
    "webhook_paused": "The webhook is paused. Save its address to resume it, then send a test.",
    "deliveries_limit_reached": "Too many deliveries are waiting. Send a test when some of them have finished.",
}
"""Advice to the user after a refused test, for each reason."""
_OFFERED: Final = {"types": {"all": ALL, "families": tuple(FAMILIES), "kinds": tuple(KINDS.values())}}


class WebhookPages:
    """The list of an account's webhooks, and the page of each webhook."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._webhooks = services.account_webhooks
        self._deliveries = services.account_deliveries
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        one = f"{WEBHOOKS}/<webhook_id>"
        app.add_url_rule(WEBHOOKS, "webhooks", self.page)
        app.add_url_rule(WEBHOOKS, "create_webhook", self.create, methods=["POST"])
        app.add_url_rule(one, "webhook", self.show)
        for deed in (self.save, self.test, self.rotate, self.delete):
            app.add_url_rule(f"{one}/{deed.__name__}", f"webhook_{deed.__name__}", deed, methods=["POST"])
        app.add_url_rule(
            f"{one}/deliveries/<delivery_id>/redeliver", "redeliver_batch", self.redeliver, methods=["POST"]
        )

    async def page(self) -> Response:
        """List the webhooks, newest first, and with `?new=1` show the form for another."""
        return await self._listed(form_open=request.args.get("new") == "1")

    async def create(self) -> Response:
        """Create a webhook, once per form, and show its secret."""
        sent, types = await fields(), await chosen("types")
        values = {**sent, "types": types}
        try:
            body = WebhookBody(sent.get("url") or None, types or None, sent.get("description"), await _own_secret())
            id_, secret = await self._make(self._webhooks.draft(body), {**sent, "types": ",".join(types)})
        except MonitorInvalid as exc:
            return await self._listed(status=400, form_open=True, values=values, **_field_errors(exc))
        except OperationRefused as exc:
            return await self._listed(status=400, form_open=True, values=values, error=sentence(exc))
        if secret is None:
            return self._frame.to_page(f"{WEBHOOKS}/{id_}")
        return await self._shown(id_, secret=secret, is_new=True)

    async def _make(self, draft: WebhookDraft, sent: dict[str, str]) -> tuple[str, str | None]:
        """Create the webhook. Return its id and, unless the form was submitted before, its secret."""
        made: list[str] = []

        def view(saved: SavedWebhook) -> dict[str, str]:
            """Return the webhook's id. The transaction stores it, and the page uses it."""
            made.append(saved.secret)
            return {"id": saved.view.webhook.id}

        create = partial(self._webhooks.create, draft, account_id())
        record = form_record(sent, secrets=frozenset(("secret",)))
        result = await self._services.operations.once("webhook.create", record, create, view)
        return result["id"], made[-1] if made else None

    async def show(self, webhook_id: str) -> Response:
        """Show one webhook."""
        return await self._shown(webhook_id)

    async def save(self, webhook_id: str) -> Response:
        """Change a webhook. Saving its address, even unchanged, resumes a paused webhook."""
        sent, types = await fields(), await chosen("types")
        patch = WebhookPatch(sent.get("url", ""), types, sent.get("description", ""))
        try:
            await self._webhooks.change(account_id(), webhook_id, patch)
        except AccountWebhookUnknown as exc:
            raise ObjectMissing from exc
        except MonitorInvalid as exc:
            return await self._shown(webhook_id, status=400, values={**sent, "types": types}, **_field_errors(exc))
        return self._redirect(webhook_id, "webhook_saved")

    async def test(self, webhook_id: str) -> Response:
        """Deliver a test event, which is not in the feed."""
        try:
            await self._webhooks.test(account_id(), webhook_id)
        except AccountWebhookUnknown as exc:
            raise ObjectMissing from exc
        except MonitorInvalid as exc:
            return await self._shown(webhook_id, status=400, error=_UNTESTED[exc.reason])
        return self._redirect(webhook_id, "webhook_tested")

    async def rotate(self, webhook_id: str) -> Response:
        """Create a new signing secret, and show it once."""
        await self._view(webhook_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        try:
            rotated = await self._deliveries.rotate(account_id(), webhook_id)
        except (AccountWebhookUnknown, WebhookUnknown) as exc:
            raise ObjectMissing from exc
        return await self._shown(webhook_id, secret=rotated.secret)

    async def delete(self, webhook_id: str) -> Response:
        """Ask for confirmation, then delete the webhook."""
        view = await self._view(webhook_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        if (await fields()).get("sure") != "yes":
            webhook = self._webhooks.to_json(view)
            return await self._frame.shown("delete_webhook.html", "Delete this webhook?", webhook=webhook)
        try:
            await self._webhooks.delete(account_id(), webhook_id)
        except AccountWebhookUnknown as exc:
            raise ObjectMissing from exc
        return self._frame.to_page(WEBHOOKS, done="webhook_deleted")

    async def redeliver(self, webhook_id: str, delivery_id: str) -> Response:
        """Send a delivery again."""
        try:
            await self._deliveries.redeliver(account_id(), webhook_id, delivery_id)
        except (AccountWebhookUnknown, WebhookUnknown, DeliveryUnknown) as exc:
            raise ObjectMissing from exc
        except RedeliveryRefused as exc:
            return await self._shown(webhook_id, status=400, error=sentence(exc))
        return self._redirect(webhook_id, "redelivered")

    def _redirect(self, webhook_id: str, done: str) -> Response:
        return self._frame.to_page(f"{WEBHOOKS}/{webhook_id}", done=done)

    async def _view(self, webhook_id: str) -> AccountWebhookState:
        """Return the account's webhook. Raises ObjectMissing."""
        try:
            return await self._webhooks.get(account_id(), webhook_id)
        except AccountWebhookUnknown as exc:
            raise ObjectMissing from exc

    async def _listed(self, *, status: int = 200, **more: Any) -> Response:
        found = await self._webhooks.list(account_id(), before=None, limit=WEBHOOKS_MAX)
        return await self._frame.shown(
            "webhooks.html",
            "Webhooks",
            status=status,
            webhooks=[self._webhooks.to_json(view) for view in found],
            most=WEBHOOKS_MAX,
            nonce=secrets.token_hex(16),
            **{**_OFFERED, "form_open": False, "values": {"types": [ALL]}, **more},
        )

    async def _shown(self, webhook_id: str, *, status: int = 200, **more: Any) -> Response:
        webhook = self._webhooks.to_json(await self._view(webhook_id))
        return await self._frame.shown(
            "webhook.html",
            webhook["description"] or "Webhook",
            status=status,
            webhook=webhook,
            log=await read_log(self._deliveries, webhook_id),
            **{**_OFFERED, "values": webhook, "secret": "", "is_new": False, **more},
        )


async def _own_secret() -> str | None:
    return await secret_field("secret") or None


def _field_errors(exc: MonitorInvalid) -> dict[str, Any]:
    """Return the error under the field that it names, or as a general error if it names none."""
    name = exc.param.partition("[")[0]
    if name in _FIELDS:
        return {"errors": {name: f"{exc.problem}. {exc.next_step}"}}
    return {"error": f"This {exc.problem}. {exc.next_step}"}
