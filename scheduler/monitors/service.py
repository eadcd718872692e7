"""The owner's operations on monitors: create, list, change, run now, and delete (spec 2.6, 3, 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import UnsetType

from scheduler.errors import RunUnknown
from scheduler.monitors import changes
from scheduler.monitors.changes import MonitorSetting, Saved, View, view_of
from scheduler.monitors.history import lists
from scheduler.monitors.history.lists import RunEntry, RunsPage, SlotSpan, StatusFilter
from scheduler.monitors.model.draft import CreateBody, Draft, read_draft
from scheduler.monitors.model.patch import PatchBody, read_patch
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.model.store import owned
from scheduler.monitors.removal import forget_monitor
from scheduler.monitors.runs.run_rows import DataPart
from scheduler.monitors.view import monitor_json, with_cost_warning
from scheduler.monitors.web.draft import WebBody, WebPatch, patch_of, read_web_draft
from scheduler.monitors.web.watch import ID_PREFIX
from scheduler.webhooks.records import Webhook
from scheduler.webhooks.signature import new_secret
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.fields import uncallable
from scheduler.webhooks.targets.registration import check_target
from scheduler.webhooks.targets.urls import OpenedWebhook, new_webhook, opened
from storage.store import Tx, Write
from upstreams.model.errors import TargetRefused


class MonitorService:
    """Monitors. Every method takes an account id, and treats monitors of other accounts as unknown."""

    def __init__(self, setting: MonitorSetting) -> None:
        self._setting = setting
        self._store = setting.store
        self._now = setting.now

    def draft(self, sent: CreateBody) -> Draft:
        """Validate a new monitor without storing it.

        Raises:
            MonitorInvalid: names the first invalid field.
        """
        setting = self._setting
        return read_draft(sent, setting.recipes, now=self._now(), allow_insecure=setting.allow_insecure)

    def web_draft(self, sent: WebBody) -> Draft:
        """Validate a new web watch without storing it.

        Raises:
            MonitorInvalid: names the first invalid field.
        """
        setting = self._setting
        return read_web_draft(sent, setting.recipes, now=self._now(), allow_insecure=setting.allow_insecure)

    async def preview(self, draft: Draft, account_id: str) -> dict[str, Any]:
        """Return the monitor that a draft would create.

        Raises:
            MonitorInvalid: the webhook leads to an address that is not public.
        """
        await self._check_target(draft.webhook_url)
        monitor = draft.monitor("", account_id, None, self._now())
        url = draft.webhook_url
        hook = None if url is None else OpenedWebhook(Webhook("", url, ""), url, draft.secret)
        return with_cost_warning(self._json(monitor, hook))

    async def create(self, draft: Draft, account_id: str, key_id: str | None, *, write: Write | None = None) -> Saved:
        """Create a monitor within the limits of the account's plan, and start its first run if requested.

        The monitor's events belong to the key. If the owner creates the monitor without a key, every key of the account
        sees its events. `write` replaces the store's own write, so that the caller can record the result in the same
        transaction.

        Raises:
            MonitorLimitReached: nothing was created.
            MonitorInvalid: the webhook leads to an address that is not public.
        """
        await self._check_target(draft.webhook_url)
        id_ = self._setting.make_id("mon_" if draft.web is None else ID_PREFIX)
        monitor = draft.monitor(id_, account_id, key_id, self._now())
        secret = None if draft.webhook_url is None else draft.secret or new_secret()
        webhook = None
        if draft.webhook_url is not None and secret is not None:
            webhook = new_webhook(self._setting.cipher, id_, draft.webhook_url, secret)
        add = partial(changes.add, setting=self._setting, monitor=monitor, webhook=webhook, run_now=draft.run_now)
        view = await (write or self._store.write)(add)
        self._setting.wake()
        return Saved(view, secret)

    async def list(
        self,
        account_id: str,
        status: StatusFilter,
        *,
        before: tuple[float, str] | None,
        limit: int,
        of_web: bool = False,
    ) -> list[View]:
        """Return a page, newest first, either of web watches or of all other monitors."""

        def read(tx: Tx) -> list[View]:
            found = lists.monitors_page(tx, account_id, status, before=before, limit=limit, of_web=of_web)
            webhooks = hook_rows.read_webhooks(tx, [monitor.id for monitor in found])
            return [View(monitor, webhooks.get(monitor.id)) for monitor in found]

        return await self._store.read(read)

    async def get(self, account_id: str, monitor_id: str) -> View:
        """Return one monitor.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """
        return await self._store.read(lambda tx: view_of(tx, owned(tx, account_id, monitor_id)))

    async def change(self, account_id: str, monitor_id: str, sent: PatchBody) -> Saved:
        """Change the fields that were sent. Saving a webhook's URL resumes the webhook; a first webhook gets a secret.

        If the monitor is paused, a pending run is dropped and a run in progress continues.

        Raises:
            MonitorInvalid, MonitorUnknown, MonitorLimitReached: nothing was changed.
        """
        setting = self._setting
        patch = read_patch(sent, now=self._now(), allow_insecure=setting.allow_insecure)
        await self._check_target(patch.webhook_url)
        secret = patch.webhook_secret or new_secret()
        change = partial(
            changes.change, setting=setting, account_id=account_id, monitor_id=monitor_id, patch=patch, secret=secret
        )
        view, is_new = await self._store.write(change)
        setting.wake()
        return Saved(view, secret if is_new else None)

    async def change_web(self, account_id: str, monitor_id: str, sent: WebPatch) -> Saved:
        """Like `change`, for a web watch.

        Raises:
            MonitorInvalid, MonitorUnknown, MonitorLimitReached: nothing was changed.
        """
        return await self.change(account_id, monitor_id, patch_of(sent, self._now()))

    async def delete(self, account_id: str, monitor_id: str) -> None:
        """Pause a monitor, then delete it with its data in small transactions, so that other writes do not wait.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """
        await forget_monitor(self._store, account_id, monitor_id)

    async def run_now(self, account_id: str, monitor_id: str, *, write: Write | None = None) -> Run:
        """Open a slot for the current second, which the clock starts immediately.

        Return its run, usually pending or skipped. `write` replaces the store's own write, so that the caller can
        record the result in the same transaction.

        Raises:
            MonitorUnknown, MonitorPaused, RunTooSoon: nothing was opened.
        """
        open_slot = partial(changes.open_slot, setting=self._setting, account_id=account_id, monitor_id=monitor_id)
        run = await (write or self._store.write)(open_slot)
        self._setting.wake()
        return run

    async def run(self, account_id: str, monitor_id: str, run_id: str, *, parts: Sequence[DataPart] = ()) -> RunEntry:
        """Return one run of a monitor, with the requested `parts` of its data in stored form.

        Raises:
            MonitorUnknown, RunUnknown: the account has no such monitor, or the monitor has no such run.
        """

        def read(tx: Tx) -> RunEntry:
            owned(tx, account_id, monitor_id)
            found = lists.run_entry(tx, monitor_id, run_id, parts=parts)
            if found is None:
                raise RunUnknown(run_id)
            return found

        return await self._store.read(read)

    async def runs(
        self,
        account_id: str,
        monitor_id: str,
        *,
        status: str | None,
        window: SlotSpan,
        limit: int,
        parts: Sequence[DataPart] = (),
    ) -> RunsPage:
        """Return a page of a monitor's runs, newest first, with the requested `parts` of their data in stored form.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """

        def read(tx: Tx) -> RunsPage:
            owned(tx, account_id, monitor_id)
            return lists.runs_page(tx, monitor_id, status=status, window=window, limit=limit, parts=parts)

        return await self._store.read(read)

    def to_json(self, view: View) -> dict[str, Any]:
        """Return a monitor as JSON, with only the last characters of the webhook's secret."""
        monitor, webhook = view
        return self._json(monitor, None if webhook is None else opened(self._setting.cipher, webhook))

    def _json(self, monitor: Monitor, hook: OpenedWebhook | None) -> dict[str, Any]:
        return monitor_json(monitor, hook, recipes=self._setting.recipes, now=self._now())

    async def _check_target(self, url: str | UnsetType | None) -> None:
        if isinstance(url, str):
            try:
                await check_target(url, self._setting.resolve, allow_insecure=self._setting.allow_insecure)
            except TargetRefused as exc:
                raise uncallable(exc) from exc
