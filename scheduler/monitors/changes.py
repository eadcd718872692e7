"""The changes that owners make to monitors. Each function runs in one transaction (spec 2.6, 3; decisions 12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import UnsetType

from billing.accounts.accounts import Account, read_account
from billing.keys.sealing import Cipher
from scheduler.errors import MonitorInvalid, MonitorLimitReached, MonitorPaused, RunTooSoon
from scheduler.monitors.history import lists
from scheduler.monitors.model import store
from scheduler.monitors.model.patch import Patch, patched
from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.slots import Slots
from scheduler.recipes import Recipes
from scheduler.webhooks.records import Webhook
from scheduler.webhooks.targets import hook_rows
from scheduler.webhooks.targets.urls import host_in, new_webhook, opened, seal_url, sealed_for
from storage.store import Store, Tx
from upstreams.guard.resolver import Resolve

ACTIVE_MAX: Final = MappingProxyType({"free": 3, "starter": 10, "growth": 25, "pro": 100, "enterprise": 500})
"""The maximum number of active monitors of an account, by plan (spec 8)."""
ALL_MAX: Final = 5_000
"""The maximum number of monitors of an account, including paused ones."""
RUN_APART_S: Final = 60.0
PREVIOUS_S: Final = 24 * 3600.0
"""How many seconds deliveries are also signed with the previous secret after a rotation."""


@dataclass(frozen=True, slots=True)
class MonitorSetting:
    """The dependencies of monitors.

    `resolve` looks up a webhook's host at registration. `wake` makes the clock look for slots that are earlier than the
    one it waits for.
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
    """The current state of a monitor and its webhook."""

    monitor: Monitor
    webhook: Webhook | None


class Saved(NamedTuple):
    """A monitor that was created or changed, and the secret of its new webhook, which is shown only once."""

    view: View
    secret: str | None


def add(tx: Tx, setting: MonitorSetting, monitor: Monitor, webhook: Webhook | None, *, run_now: bool) -> View:
    """Add a monitor within the limits of its account's plan, and open its first slot if `run_now`.

    Raises:
        MonitorLimitReached: nothing was added.
    """
    _check_plan(tx, read_account(tx, monitor.account_id))
    if lists.all_monitors(tx, monitor.account_id) >= ALL_MAX:
        raise MonitorLimitReached("of every account", ALL_MAX, "monitors, including paused ones")
    store.add_monitor(tx, monitor)
    if webhook is not None:
        hook_rows.add_webhook(tx, webhook)
    if run_now:
        setting.slots.open_one(tx, monitor.id)
    return View(monitor, webhook)


def change(
    tx: Tx, setting: MonitorSetting, account_id: str, monitor_id: str, *, patch: Patch, secret: str
) -> tuple[View, bool]:
    """Change a monitor. Return its view, and whether the change created its webhook, which then uses `secret`.

    Raises:
        MonitorInvalid, MonitorUnknown, MonitorLimitReached: nothing was changed.
    """
    account = read_account(tx, account_id) if patch.status == "active" else None
    before = store.owned(tx, account_id, monitor_id, locked=True)
    if account is not None and before.status == "paused":
        _check_plan(tx, account)
    hook = hook_rows.read_webhooks(tx, [monitor_id], locked=True).get(monitor_id)
    now = setting.now()
    monitor = patched(before, patch, now, recipes=setting.recipes, has_webhook=hook is not None)
    lists.save_monitor(tx, monitor)
    if monitor.status == "paused":
        lists.drop_pending(tx, monitor_id)
    is_new = _save_url(tx, setting, monitor_id, patch.webhook_url, secret=secret, before=hook)
    if patch.webhook_secret is not None and not is_new:
        _rotate(tx, setting.cipher, monitor_id, patch.webhook_secret, previous_until=now + PREVIOUS_S)
    return view_of(tx, monitor), is_new


def _rotate(tx: Tx, cipher: Cipher, monitor_id: str, secret: str, *, previous_until: float) -> None:
    """Replace the signing secret. Until `previous_until`, deliveries are also signed with the previous one.

    Raises:
        MonitorInvalid: the monitor has no webhook.
    """
    sealed = cipher.seal(secret, bound_to=sealed_for(monitor_id))
    if not hook_rows.rotate(tx, monitor_id, sealed, previous_until=previous_until):
        raise MonitorInvalid("webhook_secret", "needs webhook_url", "Send webhook_url too.")


def _save_url(
    tx: Tx,
    setting: MonitorSetting,
    monitor_id: str,
    url: str | UnsetType | None,
    *,
    secret: str,
    before: Webhook | None,
) -> bool:
    """Save the URL, and return whether this created the monitor's webhook."""
    if isinstance(url, UnsetType):
        return False
    if url is None:
        hook_rows.remove_webhook(tx, monitor_id, at=setting.now())
        return False
    cipher = setting.cipher
    if before is None:
        hook_rows.add_webhook(tx, new_webhook(cipher, monitor_id, url, secret))
        return True
    # An unchanged URL keeps its sealed form, so that deliveries in progress still update this webhook.
    is_same = before.host is not None and opened(cipher, before).url == url
    hook_rows.save_url(tx, monitor_id, before.url if is_same else seal_url(cipher, monitor_id, url), host_in(url))
    return False


def open_slot(tx: Tx, setting: MonitorSetting, account_id: str, monitor_id: str) -> Run:
    """Open a slot for the current second, and return its run.

    Raises:
        MonitorUnknown, MonitorPaused, RunTooSoon: nothing was opened.
    """
    monitor = store.owned(tx, account_id, monitor_id, locked=True)
    if monitor.status == "paused":
        raise MonitorPaused(monitor_id)
    now = setting.now()
    last_at = lists.last_slot_at(tx, monitor_id, now)
    if last_at is not None and (wait_s := last_at + RUN_APART_S - now) > 0:
        raise RunTooSoon(ceil(wait_s))
    return setting.slots.open_one(tx, monitor_id)


def view_of(tx: Tx, monitor: Monitor) -> View:
    """Return a monitor with its webhook."""
    return View(monitor, hook_rows.read_webhooks(tx, [monitor.id]).get(monitor.id))


def _check_plan(tx: Tx, account: Account) -> None:
    """Check that the plan allows one more active monitor.

    The caller must have locked the account before it read anything that this check uses. The count is then exact even
    with several nodes.
    """
    if lists.active_monitors(tx, account.id) >= ACTIVE_MAX[account.plan]:
        raise MonitorLimitReached(account.plan, ACTIVE_MAX[account.plan], "active monitors")
