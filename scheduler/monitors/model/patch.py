"""A change of a monitor as it was sent, judged with what the monitor is (decisions 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from scheduler.clock.cadence import Cadence, cadence_of, next_slot, read_cadence
from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import read_rules
from scheduler.monitors.metrics.tracking import stored_track
from scheduler.monitors.model.fields import URL_HOW, Status, read_flag, read_name, read_status, read_url
from scheduler.monitors.model.records import Monitor


class PatchBody(msgspec.Struct, frozen=True):
    """The fields that may change, as they were sent."""

    name: Any = UNSET
    cadence: Any = UNSET
    alert_rules: Any = UNSET
    webhook_url: Any = UNSET
    suppress_webhook_unless_alert: Any = UNSET
    status: Any = UNSET


@dataclass(frozen=True, slots=True)
class Patch:
    """The fields to change; None leaves a field as it is. Rules are still as they were sent: they depend on the track.

    A `webhook_url` of None removes the webhook.
    """

    name: str | None
    cadence: Cadence | None
    alert_rules: Any
    webhook_url: str | UnsetType | None
    suppress: bool | None
    status: Status | None


def read_patch(sent: PatchBody, *, now: float, allow_insecure: bool) -> Patch:
    """As much of a change as can be judged without its monitor.

    Raises:
        MonitorInvalid: the first field that is wrong, or none was sent.
    """
    if all(getattr(sent, name) is UNSET for name in PatchBody.__struct_fields__):
        known = ", ".join(PatchBody.__struct_fields__)
        raise MonitorInvalid("body", "changes nothing", f"Send one or more of {known}.")
    url, suppress = sent.webhook_url, sent.suppress_webhook_unless_alert
    return Patch(
        None if sent.name is UNSET else read_name(sent.name),
        None if sent.cadence is UNSET else read_cadence(sent.cadence, now),
        sent.alert_rules,
        UNSET if url is UNSET else read_url(url, allow_insecure=allow_insecure),
        None if suppress is UNSET else read_flag("suppress_webhook_unless_alert", suppress),
        None if sent.status is UNSET else read_status(sent.status),
    )


def patched(monitor: Monitor, patch: Patch, now: float) -> Monitor:
    """The monitor after a change; one that goes on, or has another cadence, is due at its next slot from now.

    Raises:
        MonitorInvalid: the change does not fit this monitor.
    """
    track = None if monitor.track is None else stored_track(orjson.loads(monitor.track))
    if patch.webhook_url is None and track is None:
        raise MonitorInvalid("webhook_url", "cannot be removed, since nothing is tracked", URL_HOW)
    rules = monitor.alert_rules
    if patch.alert_rules is not UNSET:
        rules = _json([rule.to_json() for rule in read_rules(patch.alert_rules, track)])
    status = patch.status or monitor.status
    return replace(
        monitor,
        name=patch.name or monitor.name,
        cadence=_json(patch.cadence.to_json()) if patch.cadence else monitor.cadence,
        alert_rules=rules,
        suppress=monitor.suppress if patch.suppress is None else patch.suppress,
        status=status,
        next_slot_at=None if status == "paused" else _next_slot_at(monitor, patch, now),
        updated_at=now,
        version=monitor.version + 1,
    )


def _next_slot_at(monitor: Monitor, patch: Patch, now: float) -> float:
    if patch.cadence is None and monitor.next_slot_at is not None:
        return monitor.next_slot_at
    cadence = patch.cadence or cadence_of(monitor.cadence)
    return next_slot(cadence, now, monitor.created_at)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
