"""A monitor as its owner sees it (spec 2.6, decisions 12)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from events.instants import iso, iso_or_none
from scheduler.clock.cadence import cadence_of, runs_a_month
from scheduler.errors import CadenceInvalid, MonitorInvalid, TrackInvalid
from scheduler.monitors.metrics.rules import stored_rules, unresolved
from scheduler.monitors.metrics.tracking import Track, read_track, stored_track
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.runs.verdict import SCHEDULING_CREDITS
from scheduler.recipes import Recipe, Recipes
from scheduler.webhooks.deliveries.schedule import FAILURES_UNTIL_PAUSE
from scheduler.webhooks.records import Webhook
from scheduler.webhooks.targets.urls import OpenedWebhook

_HINT: Final = 4
"""How many of a secret's last characters are shown, but never more than a quarter of the secret."""


def monitor_json(monitor: Monitor, hook: OpenedWebhook | None, *, recipes: Recipes, now: float) -> dict[str, Any]:
    """Return a monitor as JSON, with only the last characters of the webhook's secret.

    Prices are the current ones; they are never stored.
    """
    webhook = None if hook is None else hook.webhook
    warnings: list[str] = []
    cost = cost_max = rows = None
    track = None if monitor.track is None else stored_track(orjson.loads(monitor.track))
    try:
        recipe = recipes.read(
            monitor.recipe, orjson.loads(monitor.params), rows=None if track is None else track.rows_asked
        )
        cost, rows = recipe.credits_expected + SCHEDULING_CREDITS, recipe.values.get("limit")
        cost_max = recipe.credits_most + SCHEDULING_CREDITS
        warnings += _of_rules(monitor) if track is None else _of_track(track, recipe)
    except MonitorInvalid as exc:
        warnings.append(f"this monitor's runs currently fail: {exc}")
    runs = None
    try:
        runs = runs_a_month(cadence_of(monitor.cadence), now)
    except CadenceInvalid as exc:  # for example because a timezone was removed; the other warnings must still be shown
        warnings.append(f"this monitor no longer runs: {exc}")
    warnings += _of_webhook(monitor, webhook)
    return {
        "id": monitor.id,
        "name": monitor.name,
        "recipe": monitor.recipe,
        "params": orjson.Fragment(monitor.params),
        "cadence": orjson.Fragment(monitor.cadence),
        "status": monitor.status,
        "track": None if track is None else track.to_json(),
        "alert_rules": orjson.Fragment(monitor.alert_rules),
        "suppress_webhook_unless_alert": monitor.suppress,
        "webhook_format": monitor.webhook_format,
        "webhook": None if hook is None else _webhook(hook),
        "rows_asked": rows,
        "estimated_cost_per_run": cost,
        "estimated_monthly_cost": _times(cost, runs),
        "max_cost_per_run": cost_max,
        "max_monthly_cost": _times(cost_max, runs),
        "next_run_at": iso_or_none(monitor.next_slot_at),
        "warnings": warnings,
        "runs_total": monitor.runs_total,
        "credits_spent": monitor.credits_spent,
        "created_at": iso(monitor.created_at),
        "updated_at": iso(monitor.updated_at),
    }


def with_cost_warning(monitor: dict[str, Any]) -> dict[str, Any]:
    """Add a warning to the result of `monitor_json` if a run may cost more than it usually does.

    Only the response to a create request or a dry run has this warning. It helps the owner decide, and does not report
    a problem.
    """
    cost, most = monitor["estimated_cost_per_run"], monitor["max_cost_per_run"]
    if cost is None or most is None or cost >= most:
        return monitor
    warning = f"a run usually costs {cost} credits and may cost up to {most}"
    return {**monitor, "warnings": [*monitor["warnings"], warning]}


def _times(cost: int | None, runs: int | None) -> int | None:
    return None if cost is None or runs is None else cost * runs


def _of_track(track: Track, recipe: Recipe) -> list[str]:
    """Return warnings about paths that could not be checked, or that the recipe's responses no longer contain."""
    try:
        return read_track(track.to_json(), recipe.archetype, recipe.never).warnings
    except TrackInvalid as exc:
        return [str(exc)]


def _of_rules(monitor: Monitor) -> list[str]:
    """Return warnings about rules that can never be evaluated."""
    return unresolved(stored_rules(orjson.loads(monitor.alert_rules)))


def _of_webhook(monitor: Monitor, webhook: Webhook | None) -> list[str]:
    if webhook is None:
        return []
    warnings = []
    if webhook.status == "paused":
        few = webhook.failures < FAILURES_UNTIL_PAUSE
        why = "because its receiver returned 410" if few else f"after {webhook.failures} failed deliveries in a row"
        warnings.append(
            f"the webhook was paused {why}; the monitor still runs and is billed; resume the webhook or save "
            "its URL again"
        )
    if monitor.suppress and monitor.alert_rules == "[]":
        warnings.append("nothing is delivered: suppress_webhook_unless_alert is set without alert_rules")
    return warnings


def _webhook(hook: OpenedWebhook) -> dict[str, Any]:
    webhook, url, secret = hook
    return {
        "url": url,
        "status": webhook.status,
        "failure_count": webhook.failures,
        "last_delivery_at": iso_or_none(webhook.last_delivery_at),
        "signing_secret_hint": None if secret is None else f"...{secret[-min(_HINT, len(secret) // 4) :]}",
    }
