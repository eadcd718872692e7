"""A new watch of the web as it was sent, judged before anything is stored; and its change (decisions 21)."""

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
_CRON: Final = Meta(description="Five fields of cron, in place of minutes.")
_TEXT: Final = Meta(description="Words in place of minutes, such as `daily at 9:30` or `weekdays at 7:00`.")
_ZONE: Final = Meta(description="The IANA timezone of the schedule; UTC by default.")
_HOOK: Final = Meta(
    description="The https address of a public host that changes are delivered to.",
    extra_json_schema={"format": "uri", "maxLength": 2048},
)
_NAME: Final = Meta(description="Its name, on one line.", extra_json_schema={"maxLength": 200})


class WebBody(msgspec.Struct, frozen=True):
    """The fields of a new watch; null counts as not sent."""

    url: Annotated[
        str | None,
        Meta(description="The page; of a search, whose host's results alone count.", examples=["https://example.com/"]),
    ] = None
    mode: Annotated[str, Meta(description="`scrape` watches a page, `search` the results of a query.")] = "scrape"
    query: Annotated[str | None, Meta(description="What is searched for; due with `search`.")] = None
    name: Annotated[str | None, _NAME] = None
    cadence_minutes: Annotated[int | None, _MINUTES] = None
    schedule_cron: Annotated[str | None, _CRON] = None
    schedule_text: Annotated[str | None, _TEXT] = None
    timezone: Annotated[str | None, _ZONE] = None
    webhook_url: Annotated[str | None, _HOOK] = None
    webhook_secret: Annotated[str | None, Meta(description="A signing secret of one's own, 8 to 200 characters.")] = (
        None
    )
    ignore: Annotated[
        list[str] | None, Meta(description="CSS selectors of what is not compared: dates, counters, advertisements.")
    ] = None
    threshold: Annotated[
        float | None,
        Meta(description="The share of words, 0 to 1, up to which a difference is no change; 0 by default."),
    ] = None
    retention_days: Annotated[int | None, Meta(description="Days for which checks are kept, 1 to 365.")] = None
    run_now: Annotated[bool | None, Meta(description="Whether its first check begins at once.")] = None
    goal: Annotated[str | None, Meta(description="Needs a language model, which no node has.")] = None
    judge_enabled: Annotated[bool | None, Meta(description="`true` needs a language model, which no node has.")] = None


class WebPatch(msgspec.Struct, frozen=True):
    """The fields of a watch that may change; null counts as not sent."""

    status: Annotated[str | None, Meta(description="`active` or `paused`.", examples=["paused"])] = None
    name: Annotated[str | None, _NAME] = None
    cadence_minutes: Annotated[int | None, Meta(description=_MINUTES.description)] = None
    schedule_cron: Annotated[str | None, _CRON] = None
    schedule_text: Annotated[str | None, _TEXT] = None
    timezone: Annotated[str | None, _ZONE] = None
    webhook_url: Annotated[str | None, _HOOK] = None


def read_web_draft(sent: WebBody, recipes: Recipes, *, now: float, allow_insecure: bool) -> Draft:
    """A new watch.

    Raises:
        MonitorInvalid: the first field that is wrong, and what to send instead.
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
        f"Changes of {watch.query or watch.url}"[:200] if sent.name is None else read_name(sent.name),
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
    """The change as one of a monitor.

    Raises:
        MonitorInvalid: the schedule cannot be used.
    """
    cadence = read_schedule(sent.cadence_minutes, sent.schedule_cron, sent.schedule_text, sent.timezone, now)
    fields = {"status": sent.status, "name": sent.name, "cadence": cadence, "webhook_url": sent.webhook_url}
    if all(value is None for value in fields.values()):
        known = ", ".join(WebPatch.__struct_fields__)
        raise MonitorInvalid("body", "changes nothing", f"Send one or more of {known}.")
    return PatchBody(**{name: UNSET if value is None else value for name, value in fields.items()})


def _refuse_judge(sent: WebBody) -> None:
    """Refuse by name what a language model would judge."""
    for name, value in (("goal", sent.goal), ("judge_enabled", sent.judge_enabled)):
        if value:
            problem, how = "needs a language model, which this node does not have", "Leave it out."
            raise MonitorInvalid(name, problem, how, reason="capability_missing")


def _watch(sent: WebBody) -> WebWatch:
    mode: Mode = "search" if read_choice("mode", sent.mode, MODES) == "search" else "scrape"
    if mode == "scrape" and not sent.url:
        raise MonitorInvalid("url", "is required", "Send the address of the page to watch.")
    if mode == "search" and not sent.query:
        raise MonitorInvalid("query", "is required where a search is watched", "Send what to search for.")
    if mode == "scrape" and sent.query:
        raise MonitorInvalid("query", "is for mode search alone", "Leave it out, or send mode search.")
    if mode == "search" and sent.ignore:
        raise MonitorInvalid("ignore", "is for mode scrape alone: results have no parts", "Leave it out.")
    ignore = tuple(sent.ignore or ())
    if len(ignore) > IGNORE_MAX or any(not 1 <= len(one) <= SELECTOR_MAX for one in ignore):
        problem = f"must hold at most {IGNORE_MAX} selectors of 1 to {SELECTOR_MAX} characters"
        raise MonitorInvalid("ignore", problem, "Send selectors such as .date or #counter.")
    threshold = 0.0 if sent.threshold is None else sent.threshold
    if not 0.0 <= threshold < 1.0:
        raise MonitorInvalid("threshold", "must be 0 or more, and less than 1", "Send a share such as 0.02.")
    days = KEPT_DAYS if sent.retention_days is None else sent.retention_days
    if not 1 <= days <= DAYS_MAX:
        raise MonitorInvalid("retention_days", f"must be 1 to {DAYS_MAX}", f"Send {KEPT_DAYS}.")
    return WebWatch(mode, sent.url, sent.query, ignore, threshold, days)


def _recipe(watch: WebWatch, recipes: Recipes) -> Recipe:
    """The recipe of a watch, whose refusals name the watch's own fields."""
    try:
        return recipes.read(watch.recipe, watch.params())
    except RecipeInvalid as exc:
        name = exc.param.removeprefix("params.")
        own = {"exclude_tags": "ignore", "include_domains": "url", "recipe": "mode"}.get(name, name)
        raise MonitorInvalid(own, exc.problem, exc.next_step, did_you_mean=exc.did_you_mean, reason=exc.reason) from exc
