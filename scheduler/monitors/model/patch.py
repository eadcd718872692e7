"""A change to a monitor as the client sends it, validated against the monitor (decisions 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from scheduler.clock.cadence import Cadence, cadence_of, next_slot, read_cadence
from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import read_rules
from scheduler.monitors.metrics.tracking import Track, read_track, stored_track
from scheduler.monitors.model import body_fields
from scheduler.monitors.model.fields import (
    Status,
    read_flag,
    read_format,
    read_name,
    read_status,
)
from scheduler.monitors.model.records import Monitor
from scheduler.recipes import Recipes
from scheduler.webhooks.targets.fields import URL_HOW, read_secret, read_url


class PatchBody(msgspec.Struct, frozen=True):
    """The fields to change, as they were sent."""

    name: Annotated[Any, body_fields.NAME] = UNSET
    params: Annotated[Any, body_fields.PARAMS] = UNSET
    cadence: Annotated[Any, body_fields.CADENCE] = UNSET
    track: Annotated[Any, body_fields.TRACK] = UNSET
    alert_rules: Annotated[Any, body_fields.RULES] = UNSET
    webhook_url: Annotated[Any, body_fields.URL] = UNSET
    webhook_secret: Annotated[Any, body_fields.SECRET] = UNSET
    webhook_format: Annotated[Any, body_fields.FORMAT] = UNSET
    suppress_webhook_unless_alert: Annotated[Any, body_fields.SUPPRESS] = UNSET
    status: Annotated[Any, body_fields.STATUS] = UNSET


@dataclass(frozen=True, slots=True)
class Patch:
    """The fields to change.

    `name`, `cadence`, `webhook_secret`, `suppress` and `status` keep their value if they are None, and the other fields
    if they are UNSET.

    Parameters, track, rules and format are stored here as sent and validated later, because they depend on the
    monitor's recipe and on each other. A `webhook_url` of None removes the webhook.
    """

    name: str | None
    params: Any
    cadence: Cadence | None
    track: Any
    alert_rules: Any
    webhook_url: str | UnsetType | None
    webhook_secret: str | None
    webhook_format: Any
    suppress: bool | None
    status: Status | None


def read_patch(sent: PatchBody, *, now: float, allow_insecure: bool) -> Patch:
    """Validate the parts of a change that do not depend on its monitor.

    Raises:
        MonitorInvalid: names the first invalid field, or says that no field was sent.
    """
    if all(getattr(sent, name) is UNSET for name in PatchBody.__struct_fields__):
        known = ", ".join(PatchBody.__struct_fields__)
        raise MonitorInvalid("body", "changes nothing", f"Send one or more of {known}.")
    url, suppress = sent.webhook_url, sent.suppress_webhook_unless_alert
    secret = None if sent.webhook_secret is UNSET else sent.webhook_secret
    return Patch(
        None if sent.name is UNSET else read_name(sent.name),
        sent.params,
        None if sent.cadence is UNSET else read_cadence(sent.cadence, now),
        sent.track,
        sent.alert_rules,
        UNSET if url is UNSET else read_url(url, allow_insecure=allow_insecure),
        read_secret(secret, None if url is None else ""),
        sent.webhook_format,
        None if suppress is UNSET else read_flag("suppress_webhook_unless_alert", suppress),
        None if sent.status is UNSET else read_status(sent.status),
    )


def patched(monitor: Monitor, patch: Patch, now: float, *, recipes: Recipes, has_webhook: bool) -> Monitor:
    """Return the monitor after a change.

    If it is resumed or gets another cadence, its next slot is computed from `now`. If its parameters or its track
    change, its history restarts: the next run is not compared with earlier ones.

    Raises:
        MonitorInvalid: the change does not fit this monitor.
    """
    params = monitor.params if patch.params is UNSET else _json(patch.params or {})
    track = _track(monitor, patch, params, recipes)
    _check_use(patch, track, has_webhook=has_webhook)
    rules = monitor.alert_rules
    if not (patch.alert_rules is UNSET and patch.track is UNSET):
        sent = orjson.loads(rules) if patch.alert_rules is UNSET else patch.alert_rules
        rules = _json([rule.to_json() for rule in read_rules(sent, track)])
    status, stored = patch.status or monitor.status, None if track is None else track.stored()
    after = replace(
        monitor,
        name=patch.name or monitor.name,
        params=params,
        cadence=_json(patch.cadence.to_json()) if patch.cadence else monitor.cadence,
        track=monitor.track if patch.track is UNSET else stored,
        alert_rules=rules,
        webhook_format=read_format(_sent_or(patch.webhook_format, monitor.webhook_format), track),
        suppress=monitor.suppress if patch.suppress is None else patch.suppress,
        status=status,
        next_slot_at=None if status == "paused" else _next_slot_at(monitor, patch, now),
        updated_at=now,
        version=monitor.version + 1,
    )
    if (after.params, after.track) == (monitor.params, monitor.track):
        return after
    return replace(after, rule_state="{}", baseline_run_id=None)


def _track(monitor: Monitor, patch: Patch, params: str, recipes: Recipes) -> Track | None:
    """Return the track after a change. If the change has parameters or a track, check the track against the recipe."""
    before = None if monitor.track is None else stored_track(orjson.loads(monitor.track))
    if patch.params is UNSET and patch.track is UNSET:
        return before
    values = orjson.loads(params) if patch.params is UNSET else patch.params
    recipe = recipes.read(monitor.recipe, values)
    track = before
    if patch.track is not UNSET:
        track = None if patch.track is None else read_track(patch.track, recipe.archetype).track
    if track is not None and track.rows_asked is not None:
        recipes.read(monitor.recipe, values, rows=track.rows_asked)
    return track


def _check_use(patch: Patch, track: Track | None, *, has_webhook: bool) -> None:
    """Check that runs are still tracked or delivered."""
    if track is None and patch.webhook_url is None:
        raise MonitorInvalid("webhook_url", "cannot be removed unless track is set", URL_HOW)
    if patch.track is None and not (has_webhook if patch.webhook_url is UNSET else patch.webhook_url):
        raise MonitorInvalid("track", "cannot be removed unless webhook_url is set", "Send webhook_url too.")


def _sent_or(sent: Any, before: object) -> object:
    return before if sent is UNSET else sent


def _next_slot_at(monitor: Monitor, patch: Patch, now: float) -> float:
    if patch.cadence is None and monitor.next_slot_at is not None:
        return monitor.next_slot_at
    cadence = patch.cadence or cadence_of(monitor.cadence)
    return next_slot(cadence, now, monitor.created_at)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
