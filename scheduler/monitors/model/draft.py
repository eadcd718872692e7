"""A new monitor as the client sends it, validated before anything is stored (spec 2.6, 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import orjson

from scheduler.clock.cadence import Cadence, next_slot, read_cadence
from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import AlertRule, read_rules
from scheduler.monitors.metrics.tracking import Track, read_track
from scheduler.monitors.model import body_fields
from scheduler.monitors.model.fields import (
    Format,
    read_flag,
    read_format,
    read_name,
)
from scheduler.monitors.model.records import Monitor
from scheduler.recipes import Recipe, Recipes
from scheduler.webhooks.targets.fields import URL_HOW, read_secret, read_text, read_url

_RECIPE_HOW = "Send the path of a data endpoint without /v1/, such as github/profile."
_CADENCE_HOW = 'Send hourly, daily, weekly, or an object such as {"cron": "30 6 * * 1-5", "timezone": "Europe/Berlin"}.'


class CreateBody(msgspec.Struct, frozen=True):
    """The fields of a new monitor as they were sent; null counts as missing."""

    recipe: Annotated[Any, body_fields.RECIPE, body_fields.DUE] = None
    cadence: Annotated[Any, body_fields.CADENCE, body_fields.DUE] = None
    params: Annotated[Any, body_fields.PARAMS] = None
    webhook_url: Annotated[Any, body_fields.URL] = None
    alert_rules: Annotated[Any, body_fields.RULES] = None
    suppress_webhook_unless_alert: Annotated[Any, body_fields.SUPPRESS] = None
    webhook_secret: Annotated[Any, body_fields.SECRET] = None
    track: Annotated[Any, body_fields.TRACK] = None
    webhook_format: Annotated[Any, body_fields.FORMAT] = None
    name: Annotated[Any, body_fields.NAME] = None
    run_now: Annotated[Any, body_fields.RUN_NOW] = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A valid new monitor. `secret` is the one that the client sent, or None to generate one."""

    recipe: Recipe
    recipe_id: str
    params: str
    name: str
    cadence: Cadence
    track: Track | None
    rules: tuple[AlertRule, ...]
    webhook_url: str | None
    secret: str | None
    webhook_format: Format
    suppress: bool
    run_now: bool
    web: str | None = None
    """The web watch in stored form; None for other monitors."""

    def monitor(self, monitor_id: str, account_id: str, key_id: str | None, now: float) -> Monitor:
        """Return the row of the new monitor."""
        return Monitor(
            id=monitor_id,
            account_id=account_id,
            key_id=key_id,
            name=self.name,
            recipe=self.recipe_id,
            params=self.params,
            cadence=_json(self.cadence.to_json()),
            track=None if self.track is None else self.track.stored(),
            alert_rules=_json([rule.to_json() for rule in self.rules]),
            webhook_format=self.webhook_format,
            suppress=self.suppress,
            status="active",
            next_slot_at=next_slot(self.cadence, now, now),
            rule_state="{}",
            baseline_run_id=None,
            runs_total=0,
            credits_spent=0,
            created_at=now,
            updated_at=now,
            version=0,
            web=self.web,
        )


def read_draft(sent: CreateBody, recipes: Recipes, *, now: float, allow_insecure: bool) -> Draft:
    """Validate a new monitor.

    Raises:
        MonitorInvalid: names the first invalid field and what to send instead.
    """
    for param, value, how in (("recipe", sent.recipe, _RECIPE_HOW), ("cadence", sent.cadence, _CADENCE_HOW)):
        if value is None:
            raise MonitorInvalid(param, "is required", how)
    recipe_id = read_text("recipe", sent.recipe, _RECIPE_HOW)
    recipe = recipes.read(recipe_id, sent.params)
    track = None if sent.track is None else read_track(sent.track, recipe.archetype, recipe.never).track
    if track is not None and track.rows_asked is not None:
        recipe = recipes.read(recipe_id, sent.params, rows=track.rows_asked)
    url = read_url(sent.webhook_url, allow_insecure=allow_insecure)
    if url is None and track is None:
        problem = "is required unless track is set"
        raise MonitorInvalid(
            "webhook_url", problem, f"{URL_HOW[:-1]}, or send track to keep numbers without a webhook."
        )
    return Draft(
        recipe,
        recipe_id,
        _json({} if sent.params is None else sent.params),
        f"{recipe_id} monitor" if sent.name is None else read_name(sent.name),
        read_cadence(sent.cadence, now),
        track,
        read_rules(sent.alert_rules, track),
        url,
        read_secret(sent.webhook_secret, url),
        read_format(sent.webhook_format, track),
        read_flag("suppress_webhook_unless_alert", sent.suppress_webhook_unless_alert),
        read_flag("run_now", sent.run_now),
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
