"""A monitor as its owner sees it: its fields, estimates, secret hints and warnings (spec 2.6, decisions 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.monitors.model.draft import CreateBody, read_draft
from scheduler.monitors.model.records import Monitor
from scheduler.monitors.view import monitor_json
from scheduler.recipes import Recipe
from scheduler.webhooks.records import Webhook
from scheduler.webhooks.targets.urls import OpenedWebhook
from tests.fakes.scripted_recipes import ScriptedRecipes
from upstreams.model.archetypes import AUTHOR

NOW = 1_800_000_000.0
PROFILE = "github/profile"
LIST = "github/search"
HOOK = "https://example.com/hook"
LIKES = "items[].post.engagement.likes"
OPEN = "items[].post.ext.odd"
FOLLOWERS = "author.followers"
RULE = {"metric": FOLLOWERS, "op": "gt", "value": 1000}
FIELDS = {
    *("id", "name", "recipe", "params", "cadence", "status", "track", "alert_rules", "webhook_format", "webhook"),
    *("suppress_webhook_unless_alert", "rows_asked", "estimated_cost_per_run", "estimated_monthly_cost", "next_run_at"),
    *("max_cost_per_run", "max_monthly_cost"),
    *("warnings", "runs_total", "credits_spent", "created_at", "updated_at"),
}


class Profiles(ScriptedRecipes):
    """Recipes of which one returns a single record and all others return lists."""

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        found = super().read(recipe, params, rows=rows)
        return replace(found, archetype=AUTHOR) if recipe == PROFILE else found


def made(recipe: str = PROFILE, **sent: Any) -> Monitor:
    body = CreateBody(recipe, **{"cadence": "hourly", "params": {}, "webhook_url": HOOK, **sent})
    draft = read_draft(body, Profiles(), now=NOW, allow_insecure=False)
    return draft.monitor("mon_1", "acc_1", "key_1", NOW)


def hook(secret: str | None = "whsec_abcdefgh1234", url: str | None = HOOK, **fields: Any) -> OpenedWebhook:
    return OpenedWebhook(Webhook("mon_1", "sealed", "sealed", **fields), url, secret)


def shown(monitor: Monitor, opened: OpenedWebhook | None = None, **recipes: Any) -> dict[str, Any]:
    found = monitor_json(monitor, opened, recipes=Profiles(**recipes), now=NOW)
    read: dict[str, Any] = orjson.loads(orjson.dumps(found))
    return read


def test_monitor_json_has_the_created_values() -> None:
    found = shown(made(name="Mine", params={"who": "ada"}, alert_rules=[RULE]), hook())
    assert found.keys() == FIELDS
    assert (found["id"], found["name"], found["recipe"]) == ("mon_1", "Mine", PROFILE)
    assert (found["params"], found["cadence"], found["status"]) == ({"who": "ada"}, "hourly", "active")
    assert (found["track"], found["alert_rules"], found["webhook_format"]) == (None, [RULE], "full")
    assert (found["created_at"], found["updated_at"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:00.000Z")
    assert (found["next_run_at"], found["runs_total"], found["credits_spent"]) == ("2027-01-15T09:00:00.000Z", 0, 0)
    assert (found["suppress_webhook_unless_alert"], found["warnings"]) == (False, [])
    assert found["webhook"] == {
        "url": HOOK,
        "status": "active",
        "failure_count": 0,
        "last_delivery_at": None,
        "signing_secret_hint": "...1234",
    }


@pytest.mark.parametrize(
    ("cadence", "per_month"),
    [
        ("hourly", 730),
        ("daily", 30),
        ("weekly", 4),
        ({"cron": "*/5 * * * *"}, 8_640),
        ({"cron": "0 6 * * *", "timezone": "Europe/Berlin"}, 30),
    ],
)
@pytest.mark.parametrize("price", [1, 5])
def test_estimates_are_the_recipe_price_plus_one_credit(cadence: object, per_month: int, price: int) -> None:
    found = shown(made(cadence=cadence), hook(), credits_least=price)
    assert found["cadence"] == cadence
    assert found["estimated_cost_per_run"] == price + 1
    assert found["estimated_monthly_cost"] == (price + 1) * per_month


@given(st.text(min_size=8, max_size=200))
def test_secret_hint_shows_at_most_a_quarter_of_the_secret_and_four_characters(secret: str) -> None:
    hint = shown(made(), hook(secret))["webhook"]["signing_secret_hint"].removeprefix("...")
    assert len(hint) <= min(4, len(secret) // 4)
    assert secret.endswith(hint)


@pytest.mark.parametrize(("length", "shows"), [(8, 2), (15, 3), (16, 4), (200, 4)])
def test_secret_hint_is_the_end_of_the_secret(length: int, shows: int) -> None:
    secret = "".join(chr(0x4E00 + place) for place in range(length))
    assert shown(made(), hook(secret))["webhook"]["signing_secret_hint"] == f"...{secret[-shows:]}"


def test_values_sealed_with_another_master_secret_are_null() -> None:
    webhook = shown(made(), hook(None, None))["webhook"]
    assert (webhook["url"], webhook["signing_secret_hint"]) == (None, None)


def test_monitor_without_webhook_shows_null_and_its_track() -> None:
    found = shown(made(LIST, webhook_url=None, track={"metrics": [LIKES]}))
    assert (found["webhook"], found["warnings"]) == (None, [])
    assert found["track"] == {"metrics": [LIKES], "row_key": "post.id", "max_rows": 100}


def test_paused_monitor_has_no_next_run() -> None:
    found = shown(replace(made(), status="paused", next_slot_at=None), hook())
    assert (found["status"], found["next_run_at"], found["estimated_monthly_cost"]) == ("paused", None, 6 * 730)


# Warnings

RULES = {
    "followers": False,
    "one.two.three.four": False,
    LIKES: True,
    "one.two.three.four.five": True,
}


@pytest.mark.parametrize(("metric", "warned"), RULES.items())
def test_impossible_rule_has_a_warning(metric: str, warned: bool) -> None:
    warnings = shown(made(alert_rules=[{**RULE, "metric": metric}]), hook())["warnings"]
    why = f"alert_rules[0] cannot be evaluated: '{metric}' is in an array or more than 4 names deep"
    assert warnings == ([why] if warned else [])


def test_unchecked_metric_has_a_warning() -> None:
    (warning,) = shown(made(LIST, webhook_url=None, track={"metrics": [OPEN]}))["warnings"]
    assert f"{OPEN} could not be checked" in warning


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"failures": 10}, "was paused after 10 failed deliveries in a row"),
        ({"failures": 12}, "was paused after 12 failed deliveries in a row"),
        ({"failures": 3}, "was paused because its receiver returned 410"),
    ],
)
def test_paused_webhook_warning_says_why_and_how_to_resume(fields: dict[str, Any], says: str) -> None:
    found = shown(made(), hook(status="paused", **fields))
    (warning,) = found["warnings"]
    assert says in warning
    assert "resume the webhook or save its URL again" in warning
    assert (found["status"], found["webhook"]["status"]) == ("active", "paused")
    assert found["webhook"]["failure_count"] == fields["failures"]


def test_webhook_that_never_delivers_has_a_warning() -> None:
    (warning,) = shown(made(suppress_webhook_unless_alert=True), hook())["warnings"]
    assert "nothing is delivered" in warning
    assert shown(made(suppress_webhook_unless_alert=True, alert_rules=[RULE]), hook())["warnings"] == []


def test_removed_recipe_has_no_price_and_hides_no_other_field() -> None:
    found = shown(replace(made(), recipe="gone/gone"), hook())
    assert found["warnings"] == ["this monitor's runs currently fail: recipe names no data endpoint"]
    assert (found["estimated_cost_per_run"], found["estimated_monthly_cost"], found["rows_asked"]) == (None, None, None)
    assert found["name"] == "github/profile monitor"


def test_unreadable_cadence_has_a_warning() -> None:
    zone = {"cron": "0 0 * * *", "timezone": "Mars/Olympus"}
    found = shown(replace(made(), cadence=orjson.dumps(zone).decode()), hook())
    (warning,) = found["warnings"]
    assert warning.startswith("this monitor no longer runs: cadence.timezone must be a timezone")
    assert (found["cadence"], found["estimated_cost_per_run"], found["estimated_monthly_cost"]) == (zone, 6, None)


def test_all_warnings_are_listed_together() -> None:
    monitor = replace(made(suppress_webhook_unless_alert=True), recipe="gone/gone", cadence='"dayly"')
    assert len(shown(monitor, hook(status="paused", failures=10))["warnings"]) == 4
