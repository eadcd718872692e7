"""Monitors as their owner has them: made, listed, changed, run now, and forgotten (spec 2.6, 3, 4.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import UnsetType

from billing.accounts.accounts import Account, read_account
from billing.keys.sealing import Cipher
from scheduler.errors import MonitorLimitReached, MonitorPaused, MonitorUnknown, RunTooSoon
from scheduler.monitors.history import lists
from scheduler.monitors.history.lists import RunsPage, SlotSpan, StatusFilter
from scheduler.monitors.model import store
from scheduler.monitors.model.draft import CreateBody, Draft, read_draft
from scheduler.monitors.model.fields import uncallable
from scheduler.monitors.model.patch import Patch, PatchBody, patched, read_patch
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.slots import Slots
from scheduler.monitors.view import monitor_json
from scheduler.recipes import Recipes
from scheduler.webhooks.records import Webhook
from scheduler.webhooks.signature import new_secret
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.registration import check_target
from scheduler.webhooks.targets.resolver import Resolve
from scheduler.webhooks.targets.urls import OpenedWebhook, host_in, new_webhook, opened, seal_url
from storage.store import Store, Tx
from upstreams.model.errors import TargetRefused

ACTIVE_MAX: Final = MappingProxyType({"free": 3, "starter": 10, "growth": 25, "pro": 100, "enterprise": 500})
"""Active monitors of an account by its plan (spec 8)."""
ALL_MAX: Final = 5_000
"""Monitors of an account, paused ones too."""
RUN_APART_S: Final = 60.0
_DROPPED_AT_ONCE = 25


@dataclass(frozen=True, slots=True)
class MonitorSetting:
    """The parts that monitors stand on.

    `resolve` looks up a webhook's host while it is registered; `wake` tells the clock that something may be due earlier
    than it knows.
    """

    store: Store
    recipes: Recipes
    cipher: Cipher
    slots: Slots
    resolve: Resolve
    now: Callable[[], float]
    make_id: Callable[[str], str]
    wake: Callable[[], None]
    allow_insecure: bool = False


class View(NamedTuple):
    """A monitor and its webhook as they stand."""

    monitor: Monitor
    webhook: Webhook | None


class Saved(NamedTuple):
    """A monitor that was made or changed, and the secret of a webhook that it was given: told this once."""

    view: View
    secret: str | None


class MonitorService:
    """Every method takes the account: what belongs to another one is unknown."""

    def __init__(self, setting: MonitorSetting) -> None:
        self._setting = setting
        self._store = setting.store
        self._now = setting.now

    def draft(self, sent: CreateBody) -> Draft:
        """A new monitor, judged; nothing is stored.

        Raises:
            MonitorInvalid: the first field that is wrong.
        """
        setting = self._setting
        return read_draft(sent, setting.recipes, now=self._now(), allow_insecure=setting.allow_insecure)

    async def preview(self, draft: Draft, account_id: str) -> dict[str, Any]:
        """Return the monitor that a draft would make.

        Raises:
            MonitorInvalid: nothing would be, since its webhook leads to an address that is not public.
        """
        await self._check_target(draft.webhook_url)
        monitor = draft.monitor("", account_id, None, self._now())
        url = draft.webhook_url
        hook = None if url is None else OpenedWebhook(Webhook("", url, ""), url, draft.secret)
        return self._json(monitor, hook)

    async def create(self, draft: Draft, account_id: str, key_id: str) -> Saved:
        """Make it, within the account's plan, and run it at once where that is asked for.

        Raises:
            MonitorLimitReached: nothing was made.
            MonitorInvalid: its webhook leads to an address that is not public.
        """
        await self._check_target(draft.webhook_url)
        id_ = self._setting.make_id("mon_")
        monitor = draft.monitor(id_, account_id, key_id, self._now())
        secret = None if draft.webhook_url is None else draft.secret or new_secret()
        webhook = None
        if draft.webhook_url is not None and secret is not None:
            webhook = new_webhook(self._setting.cipher, id_, draft.webhook_url, secret)
        await self._store.write(partial(self._add, monitor=monitor, webhook=webhook, run_now=draft.run_now))
        self._setting.wake()
        return Saved(View(monitor, webhook), secret)

    async def list(
        self, account_id: str, status: StatusFilter, *, before: tuple[float, str] | None, limit: int
    ) -> list[View]:
        """A page, newest first."""

        def read(tx: Tx) -> list[View]:
            found = lists.monitors_page(tx, account_id, status, before=before, limit=limit)
            webhooks = hook_rows.read_webhooks(tx, [monitor.id for monitor in found])
            return [View(monitor, webhooks.get(monitor.id)) for monitor in found]

        return await self._store.read(read)

    async def get(self, account_id: str, monitor_id: str) -> View:
        """One of them.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """
        return await self._store.read(lambda tx: _view(tx, owned(tx, account_id, monitor_id)))

    async def change(self, account_id: str, monitor_id: str, sent: PatchBody) -> Saved:
        """Change what was sent. Saving a webhook's URL resumes it where it was paused; a first one is given a secret.

        Pausing drops a run that waits to be begun; one that is under way goes on.

        Raises:
            MonitorInvalid, MonitorUnknown, MonitorLimitReached: nothing was changed.
        """
        setting = self._setting
        patch = read_patch(sent, now=self._now(), allow_insecure=setting.allow_insecure)
        await self._check_target(patch.webhook_url)
        secret = new_secret()
        write = partial(self._change, account_id=account_id, monitor_id=monitor_id, patch=patch, secret=secret)
        view, is_new = await self._store.write(write)
        setting.wake()
        return Saved(view, secret if is_new else None)

    async def delete(self, account_id: str, monitor_id: str) -> None:
        """Unschedule it, then forget it with all that belongs to it, as many runs at a time as others can wait for.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """
        await self._store.write(partial(_unschedule, account_id=account_id, monitor_id=monitor_id))
        drop = partial(lists.drop_runs, monitor_id=monitor_id, limit=_DROPPED_AT_ONCE)
        while await self._store.write(drop) == _DROPPED_AT_ONCE:
            pass
        await self._store.write(lambda tx: store.remove_monitor(tx, monitor_id, account_id))

    async def run_now(self, account_id: str, monitor_id: str) -> Run:
        """Open a slot of this second, which the clock begins at once; as it stands, often skipped or pending.

        Raises:
            MonitorUnknown, MonitorPaused, RunTooSoon: nothing was opened.
        """
        run = await self._store.write(partial(self._open_slot, account_id=account_id, monitor_id=monitor_id))
        self._setting.wake()
        return run

    async def runs(
        self,
        account_id: str,
        monitor_id: str,
        *,
        status: str | None,
        window: SlotSpan,
        limit: int,
        with_data: bool,
    ) -> RunsPage:
        """A page of its runs, newest first.

        Raises:
            MonitorUnknown: the account has no such monitor.
        """

        def read(tx: Tx) -> RunsPage:
            owned(tx, account_id, monitor_id)
            return lists.runs_page(tx, monitor_id, status=status, window=window, limit=limit, with_data=with_data)

        return await self._store.read(read)

    def to_json(self, view: View) -> dict[str, Any]:
        """Return a monitor as JSON has it; of the webhook's secret only the end."""
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

    def _add(self, tx: Tx, monitor: Monitor, webhook: Webhook | None, *, run_now: bool) -> None:
        _check_plan(tx, read_account(tx, monitor.account_id))
        if lists.all_monitors(tx, monitor.account_id) >= ALL_MAX:
            raise MonitorLimitReached("of every account", ALL_MAX, "monitors, paused ones too")
        store.add_monitor(tx, monitor)
        if webhook is not None:
            hook_rows.add_webhook(tx, webhook)
        if run_now:
            self._setting.slots.open_one(tx, monitor.id)

    def _change(self, tx: Tx, account_id: str, monitor_id: str, patch: Patch, secret: str) -> tuple[View, bool]:
        account = read_account(tx, account_id) if patch.status == "active" else None
        before = owned(tx, account_id, monitor_id, locked=True)
        if account is not None and before.status == "paused":
            _check_plan(tx, account)
        monitor = patched(before, patch, self._now())
        lists.save_monitor(tx, monitor)
        if monitor.status == "paused":
            lists.drop_pending(tx, monitor_id)
        is_new = self._save_url(tx, monitor_id, patch.webhook_url, secret)
        return _view(tx, monitor), is_new

    def _save_url(self, tx: Tx, monitor_id: str, url: str | UnsetType | None, secret: str) -> bool:
        """Whether the monitor had no webhook before."""
        if isinstance(url, UnsetType):
            return False
        if url is None:
            hook_rows.remove_webhook(tx, monitor_id, at=self._now())
            return False
        cipher = self._setting.cipher
        before = hook_rows.read_webhooks(tx, [monitor_id]).get(monitor_id)
        if before is None:
            hook_rows.add_webhook(tx, new_webhook(cipher, monitor_id, url, secret))
            return True
        # The same URL stays sealed as it was: what is under way there still tells of this webhook.
        is_same = before.host is not None and opened(cipher, before).url == url
        hook_rows.save_url(tx, monitor_id, before.url if is_same else seal_url(cipher, monitor_id, url), host_in(url))
        return False

    def _open_slot(self, tx: Tx, account_id: str, monitor_id: str) -> Run:
        monitor = owned(tx, account_id, monitor_id, locked=True)
        if monitor.status == "paused":
            raise MonitorPaused(monitor_id)
        now = self._now()
        last_at = lists.last_slot_at(tx, monitor_id, now)
        if last_at is not None and (wait_s := last_at + RUN_APART_S - now) > 0:
            raise RunTooSoon(ceil(wait_s))
        return self._setting.slots.open_one(tx, monitor_id)


def owned(tx: Tx, account_id: str, monitor_id: str, *, locked: bool = False) -> Monitor:
    """The account's monitor.

    Raises:
        MonitorUnknown: the account has no such monitor.
    """
    monitor = store.read_monitor(tx, monitor_id, locked=locked)
    if monitor is None or monitor.account_id != account_id:
        raise MonitorUnknown(monitor_id)
    return monitor


def _view(tx: Tx, monitor: Monitor) -> View:
    return View(monitor, hook_rows.read_webhooks(tx, [monitor.id]).get(monitor.id))


def _check_plan(tx: Tx, account: Account) -> None:
    """Refuse one more active monitor than the plan allows.

    The account was locked before anything was read that this decides about, so the count is exact on any number of
    nodes.
    """
    if lists.active_monitors(tx, account.id) >= ACTIVE_MAX[account.plan]:
        raise MonitorLimitReached(account.plan, ACTIVE_MAX[account.plan], "active monitors")


def _unschedule(tx: Tx, account_id: str, monitor_id: str) -> None:
    lists.save_monitor(tx, replace(owned(tx, account_id, monitor_id, locked=True), status="paused", next_slot_at=None))
    lists.drop_pending(tx, monitor_id)
