"""The operations on an account's webhooks: create, list, change, test and delete (decisions 22)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from billing.accounts.accounts import read_account
from billing.keys.sealing import Cipher
from events.instants import iso, iso_or_none
from events.log.pages import read_head
from scheduler.account_webhooks import rows
from scheduler.account_webhooks.batches import EventBatches
from scheduler.account_webhooks.draft import (
    WebhookBody,
    WebhookChange,
    WebhookDraft,
    WebhookPatch,
    read_change,
    read_draft,
    uncallable,
)
from scheduler.account_webhooks.rows import AccountWebhook
from scheduler.monitors.changes import PREVIOUS_S
from scheduler.webhooks.errors import WebhookInvalid, WebhookLimitReached
from scheduler.webhooks.records import ACCOUNT_PREFIX, Webhook
from scheduler.webhooks.signature import new_secret
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.registration import check_target
from scheduler.webhooks.targets.urls import host_in, host_of, new_webhook, opened, seal_url, sealed_for
from storage.store import Store, Tx, Write
from upstreams.guard.resolver import Resolve
from upstreams.model.errors import TargetRefused

WEBHOOKS_MAX: Final = 10
"""The maximum number of webhooks of an account."""
RESUME: Final = "PATCH /v1/webhooks/{} with its url"


@dataclass(frozen=True, slots=True)
class AccountWebhookSetting:
    """The dependencies of account webhooks; `wake` makes the feeder check for events."""

    store: Store
    cipher: Cipher
    batches: EventBatches
    resolve: Resolve
    now: Callable[[], float]
    make_id: Callable[[str], str]
    wake: Callable[[], None]
    allow_insecure: bool = False


class AccountWebhookState(NamedTuple):
    """The current state of a webhook and of its target."""

    webhook: AccountWebhook
    target: Webhook


class SavedWebhook(NamedTuple):
    """A new webhook and its secret, which is shown only once."""

    view: AccountWebhookState
    secret: str


class AccountWebhooks:
    """Account webhooks. Every method takes an account id, and treats webhooks of other accounts as unknown."""

    def __init__(self, setting: AccountWebhookSetting) -> None:
        self._setting = setting
        self._store = setting.store

    def draft(self, sent: WebhookBody) -> WebhookDraft:
        """Validate a new webhook without storing it.

        Raises:
            WebhookInvalid: names the first invalid field.
        """
        return read_draft(sent, allow_insecure=self._setting.allow_insecure)

    async def create(self, draft: WebhookDraft, account_id: str, *, write: Write | None = None) -> SavedWebhook:
        """Create a webhook, which receives the events that are appended from now on.

        `write` replaces the store's own write, so that the caller can record the result in the same transaction.

        Raises:
            WebhookLimitReached: nothing was created.
            WebhookInvalid: the URL leads to an address that is not public.
        """
        setting = self._setting
        await self._check_target(draft.url)
        id_, now, secret = setting.make_id(ACCOUNT_PREFIX), setting.now(), draft.secret or new_secret()
        target = new_webhook(setting.cipher, id_, draft.url, secret)

        def add(tx: Tx) -> SavedWebhook:
            read_account(tx, account_id)  # locks the account, so that the count is exact on any number of nodes
            if rows.count(tx, account_id) >= WEBHOOKS_MAX:
                raise WebhookLimitReached(WEBHOOKS_MAX)
            pos = read_head(tx, account_id).last_pos
            webhook = AccountWebhook(id_, account_id, draft.description, draft.types, pos, now, now)
            rows.add(tx, webhook)
            hook_rows.add_webhook(tx, target)
            tx.on_commit(setting.wake)
            return SavedWebhook(AccountWebhookState(webhook, target), secret)

        return await (write or self._store.write)(add)

    async def list(self, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[AccountWebhookState]:
        """Return a page of the account's webhooks, newest first."""

        def read(tx: Tx) -> list[AccountWebhookState]:
            found = rows.page(tx, account_id, before=before, limit=limit)
            targets = hook_rows.read_webhooks(tx, [webhook.id for webhook in found])
            return [AccountWebhookState(webhook, targets[webhook.id]) for webhook in found]

        return await self._store.read(read)

    async def get(self, account_id: str, webhook_id: str) -> AccountWebhookState:
        """Return one webhook.

        Raises:
            AccountWebhookUnknown: the account has no such webhook.
        """
        return await self._store.read(lambda tx: _view(tx, rows.owned(tx, account_id, webhook_id)))

    async def change(self, account_id: str, webhook_id: str, sent: WebhookPatch) -> AccountWebhookState:
        """Change the fields that were sent. Saving the URL, even an unchanged one, resumes a paused webhook.

        The webhook continues from its position in the feed. If the secret is changed, deliveries are signed with the
        new secret from now on, and for one day with the previous secret too.

        Raises:
            WebhookInvalid, AccountWebhookUnknown: nothing was changed.
        """
        change = read_change(sent, allow_insecure=self._setting.allow_insecure)
        if change.url is not UNSET:
            await self._check_target(change.url)
        save = partial(self._change, account_id=account_id, webhook_id=webhook_id, change=change)
        return await self._store.write(save)

    async def delete(self, account_id: str, webhook_id: str) -> None:
        """Delete a webhook: stop its deliveries, then delete them, a few per transaction.

        Raises:
            AccountWebhookUnknown: the account has no such webhook.
        """

        def remove(tx: Tx) -> None:
            rows.owned(tx, account_id, webhook_id, locked=True)
            rows.remove(tx, webhook_id)

        await self._store.write(remove)
        while await self._store.write(partial(rows.drop_deliveries, webhook_id=webhook_id)) == rows.DROPPED_AT_ONCE:
            pass

    async def test(self, account_id: str, webhook_id: str, *, write: Write | None = None) -> str:
        """Queue a batch with one `webhook.test` event, and return the delivery's id.

        Raises:
            AccountWebhookUnknown: the account has no such webhook.
            WebhookInvalid: the webhook is paused, or has too many queued deliveries.
        """

        def test(tx: Tx) -> str:
            webhook = rows.owned(tx, account_id, webhook_id, locked=True)
            target = hook_rows.read_webhooks(tx, [webhook_id], locked=True)[webhook_id]
            if target.status == "paused":
                how = f"Resume it first: {RESUME.format(webhook_id)}."
                raise WebhookInvalid("webhook_id", "names a paused webhook", how, reason="webhook_paused")
            if rows.count_queued(tx, webhook_id) >= rows.QUEUED_MAX:
                problem, how = f"has {rows.QUEUED_MAX} queued deliveries", "Wait until some have ended."
                raise WebhookInvalid("webhook_id", problem, how, reason="deliveries_limit_reached")
            return self._setting.batches.test(tx, webhook, host_of(target))

        return await (write or self._store.write)(test)

    def to_json(self, view: AccountWebhookState) -> dict[str, Any]:
        """Return a webhook as JSON. Its URL is null if it was sealed with another master secret."""
        webhook, target = view
        return {
            "id": webhook.id,
            "url": opened(self._setting.cipher, target).url,
            "types": webhook.names,
            "description": webhook.description,
            "status": target.status,
            "failure_count": target.failures,
            "last_delivery_at": iso_or_none(target.last_delivery_at),
            "created_at": iso(webhook.created_at),
            "updated_at": iso(webhook.updated_at),
        }

    def _change(self, tx: Tx, account_id: str, webhook_id: str, *, change: WebhookChange) -> AccountWebhookState:
        setting, now = self._setting, self._setting.now()
        before = rows.owned(tx, account_id, webhook_id, locked=True)
        target = hook_rows.read_webhooks(tx, [webhook_id], locked=True)[webhook_id]
        webhook = replace(
            before,
            types=_sent_or(change.types, before.types),
            description=_sent_or(change.description, before.description),
            updated_at=now,
        )
        rows.save(tx, webhook)
        if change.url is not UNSET:
            # An unchanged URL keeps its sealed form, so that deliveries in progress still update this webhook.
            is_same = opened(setting.cipher, target).url == change.url
            url = target.url if is_same else seal_url(setting.cipher, webhook_id, change.url)
            hook_rows.save_url(tx, webhook_id, url, host_in(change.url))
        if change.secret is not UNSET:
            sealed = setting.cipher.seal(change.secret, bound_to=sealed_for(webhook_id))
            hook_rows.rotate(tx, webhook_id, sealed, previous_until=now + PREVIOUS_S)
        tx.on_commit(setting.wake)
        return _view(tx, webhook)

    async def _check_target(self, url: str) -> None:
        try:
            await check_target(url, self._setting.resolve, allow_insecure=self._setting.allow_insecure)
        except TargetRefused as exc:
            raise uncallable(exc) from exc


def _sent_or(sent: str | UnsetType, before: str) -> str:
    return before if isinstance(sent, UnsetType) else sent


def _view(tx: Tx, webhook: AccountWebhook) -> AccountWebhookState:
    return AccountWebhookState(webhook, hook_rows.read_webhooks(tx, [webhook.id])[webhook.id])
