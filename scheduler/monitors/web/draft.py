"""A new web watch as the client sends it, validated before anything is stored, and its changes (decisions 21)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import orjson
from msgspec import UNSET, Meta

from scheduler.errors import MonitorInvalid
from scheduler.monitors.metrics.rules import read_rules
from scheduler.monitors.model.draft import Draft
from scheduler.monitors.model.fields import read_choice, read_name
from scheduler.monitors.model.patch import PatchBody
from scheduler.monitors.web.schedule import due_schedule, read_schedule
from scheduler.monitors.web.watch import KEPT_DAYS, Mode, WebWatch
from scheduler.recipes import Recipe, RecipeInvalid, Recipes
from scheduler.webhooks.targets.fields import read_secret, read_url

IGNORE_MAX: Final = 50
SELECTOR_MAX: Final = 200
DAYS_MAX: Final = 365
MODES: Final[tuple[Mode, ...]] = ("scrape", "search")

_MINUTES: Final = Meta(description="Minutes between checks: 5 to 60, or whole hours up to 1440.", examples=[60])
_CRON: Final = Meta(description="Five cron fields, instead of minutes.")
_TEXT: Final = Meta(description="Words instead of minutes, such as `daily at 9:30` or `weekdays at 7:00`.")
_ZONE: Final = Meta(description="The IANA timezone of the schedule (default UTC).")
_HOOK: Final = Meta(
    description="HTTPS URL on a public host that receives changes.",
    extra_json_schema={"format": "uri", "maxLength": 2048},
)
_NAME: Final = Meta(description="The monitor's name, on one line.", extra_json_schema={"maxLength": 200})


class WebBody(msgspec.Struct, frozen=True):
    """The fields of a new watch; null counts as missing."""

    url: Annotated[
        str | None,
        Meta(description="The page; for a search, the host to limit results to.", examples=["https://example.com/"]),
    ] = None
    mode: Annotated[str, Meta(description="`scrape` watches a page, `search` the results of a query.")] = "scrape"
    query: Annotated[str | None, Meta(description="The search query; required with `search`.")] = None
    name: Annotated[str | None, _NAME] = None
    cadence_minutes: Annotated[int | None, _MINUTES] = None
    schedule_cron: Annotated[str | None, _CRON] = None
    schedule_text: Annotated[str | None, _TEXT] = None
    timezone: Annotated[str | None, _ZONE] = None
    webhook_url: Annotated[str | None, _HOOK] = None
    webhook_secret: Annotated[str | None, Meta(description="Your own signing secret, 8 to 200 characters.")] = None
    ignore: Annotated[
        list[str] | None, Meta(description="CSS selectors of parts to ignore: dates, counters, advertisements.")
    ] = None
    threshold: Annotated[
        float | None,
        Meta(description="The share of changed words to ignore, 0 to 1 (default 0)."),
    ] = None
    retention_days: Annotated[int | None, Meta(description="Days to keep checks, 1 to 365.")] = None
    run_now: Annotated[bool | None, Meta(description="Whether to start the first check immediately.")] = None
    goal: Annotated[str | None, Meta(description="Requires a language model, which no node has.")] = None
    judge_enabled: Annotated[bool | None, Meta(description="`true` requires a language model, which no node has.")] = (
        None
    )


class WebPatch(msgspec.Struct, frozen=True):
    """The fields of a watch to change; null counts as missing."""

    status: Annotated[str | None, Meta(description="`active` or `paused`.", examples=["paused"])] = None
    name: Annotated[str | None, _NAME] = None
    cadence_minutes: Annotated[int | None, Meta(description=_MINUTES.description)] = None
    schedule_cron: Annotated[str | None, _CRON] = None
    schedule_text: Annotated[str | None, _TEXT] = None
    timezone: Annotated[str | None, _ZONE] = None
    webhook_url: Annotated[str | None, _HOOK] = None


def read_web_draft(sent: WebBody, recipes: Recipes, *, now: float, allow_insecure: bool) -> Draft:
    """Validate a new watch.

    Raises:
        MonitorInvalid: names the first invalid field and what to send instead.
    """
    _refuse_judge(sent)
    watch = _watch(sent)
    recipe = _recipe(watch, recipes)
    url = read_url(sent.webhook_url, allow_insecure=allow_insecure)
    schedule = read_schedule(sent.cadence_minutes, sent.schedule_cron, sent.schedule_text, sent.timezone, now)
    return Draft(
        recipe,
        watch.recipe,
        orjson.dumps(watch.params()).decode(),
        f"Changes to {watch.query or watch.url}"[:200] if sent.name is None else read_name(sent.name),
        due_schedule(schedule),
        None,
        read_rules(None, None),
        url,
        read_secret(sent.webhook_secret, url),
        "full",
        suppress=False,
        run_now=bool(sent.run_now),
        web=watch.stored(),
    )


def patch_of(sent: WebPatch, now: float) -> PatchBody:
    """Convert a change to a watch into a change to its monitor.

    Raises:
        MonitorInvalid: the schedule is not valid.
    """
    cadence = read_schedule(sent.cadence_minutes, sent.schedule_cron, sent.schedule_text, sent.timezone, now)
    fields = {"status": sent.status, "name": sent.name, "cadence": cadence, "webhook_url": sent.webhook_url}
    if all(value is None for value in fields.values()):
        known = ", ".join(WebPatch.__struct_fields__)
        raise MonitorInvalid("body", "changes nothing", f"Send one or more of {known}.")
    return PatchBody(**{name: UNSET if value is None else value for name, value in fields.items()})


def _refuse_judge(sent: WebBody) -> None:
    """Reject fields that need a language model."""
    for name, value in (("goal", sent.goal), ("judge_enabled", sent.judge_enabled)):
        if value:
            problem, how = "requires a language model, which this node does not have", "Omit it."
            raise MonitorInvalid(name, problem, how, reason="capability_missing")


def _watch(sent: WebBody) -> WebWatch:
    mode: Mode = "search" if read_choice("mode", sent.mode, MODES) == "search" else "scrape"
    if mode == "scrape" and not sent.url:
        raise MonitorInvalid("url", "is required", "Send the URL of the page to watch.")
    if mode == "search" and not sent.query:
        raise MonitorInvalid("query", "is required with mode search", "Send the query to watch.")
    if mode == "scrape" and sent.query:
        raise MonitorInvalid("query", "is only for mode search", "Omit it, or send mode search.")
    if mode == "search" and sent.ignore:
        raise MonitorInvalid("ignore", "is only for mode scrape: search results have no parts", "Omit it.")
    ignore = tuple(sent.ignore or ())
    if len(ignore) > IGNORE_MAX or any(not 1 <= len(one) <= SELECTOR_MAX for one in ignore):
        problem = f"must contain at most {IGNORE_MAX} selectors of 1 to {SELECTOR_MAX} characters"
        raise MonitorInvalid("ignore", problem, "Send selectors such as .date or #counter.")
    threshold = 0.0 if sent.threshold is None else sent.threshold
    if not 0.0 <= threshold < 1.0:
        raise MonitorInvalid("threshold", "must be at least 0 and less than 1", "Send a share such as 0.02.")
    days = KEPT_DAYS if sent.retention_days is None else sent.retention_days
    if not 1 <= days <= DAYS_MAX:
        raise MonitorInvalid("retention_days", f"must be 1 to {DAYS_MAX}", f"Send {KEPT_DAYS}.")
    return WebWatch(mode, sent.url, sent.query, ignore, threshold, days)


def _recipe(watch: WebWatch, recipes: Recipes) -> Recipe:
    """Return the recipe of a watch; errors name the watch's own fields."""
    try:
        return recipes.read(watch.recipe, watch.params())
    except RecipeInvalid as exc:
        name = exc.param.removeprefix("params.")
        own = {"exclude_tags": "ignore", "include_domains": "url", "recipe": "mode"}.get(name, name)
        raise MonitorInvalid(own, exc.problem, exc.next_step, did_you_mean=exc.did_you_mean, reason=exc.reason) from exc
