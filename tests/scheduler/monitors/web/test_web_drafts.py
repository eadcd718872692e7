"""Web watches as sent: schedules in three forms, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.clock.cadence import cadence_of, next_slot, runs_a_month
from scheduler.errors import MonitorInvalid
from scheduler.monitors.web.draft import WebBody, read_web_draft
from scheduler.monitors.web.schedule import read_schedule
from scheduler.monitors.web.watch import watch_of
from tests.fakes.scripted_recipes import ScriptedRecipes
from tests.scheduler.desk import EPOCH

PAGE = "https://example.com/shop"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("every 15 minutes", {"minutes": 15}),
        ("Every 5 min", {"minutes": 5}),
        ("hourly", {"minutes": 60}),
        ("every 12 hours", {"minutes": 720}),
        ("daily", {"cron": "0 0 * * *"}),
        ("daily at 9:30", {"cron": "30 9 * * *"}),
        ("every day at 12 am", {"cron": "0 0 * * *"}),
        ("weekdays at 7:00", {"cron": "0 7 * * 1-5"}),
        ("every monday at 8 pm", {"cron": "0 20 * * 1"}),
    ],
)
def test_schedule_text_becomes_minutes_or_a_cron(sent: str, kept: object) -> None:
    cadence = read_schedule(None, None, sent, None, EPOCH)
    assert cadence is not None
    assert cadence.to_json() == kept


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"minutes": 4}, "cadence_minutes"),
        ({"minutes": 61}, "cadence_minutes"),
        ({"minutes": 1_500}, "cadence_minutes"),
        ({"text": "every 61 minutes"}, "schedule_text"),
        ({"text": "now and then"}, "schedule_text"),
        ({"text": "daily at 25:00"}, "schedule_text"),
        ({"text": "daily at 13 pm"}, "schedule_text"),
        ({"cron": "* * * * *"}, "schedule_cron"),
        ({"cron": "0 9 * * *", "timezone": "Europe/Belrin"}, "timezone"),
        ({"minutes": 60, "timezone": "Europe/Berlin"}, "timezone"),
        ({"minutes": 60, "cron": "0 9 * * *"}, "schedule_cron"),
    ],
)
def test_invalid_schedule_is_rejected_by_field(fields: dict[str, Any], param: str) -> None:
    sent = {"minutes": None, "cron": None, "text": None, "timezone": None, **fields}
    with pytest.raises(MonitorInvalid) as refused:
        read_schedule(sent["minutes"], sent["cron"], sent["text"], sent["timezone"], EPOCH)
    assert refused.value.param == param


def test_minute_slots_start_at_the_creation() -> None:
    cadence = cadence_of('{"minutes":15}')
    created_at = EPOCH + 7.5
    assert next_slot(cadence, created_at, created_at) == EPOCH + 7 + 900
    assert runs_a_month(cadence, EPOCH) == 2_880


def draft(**fields: Any) -> Any:
    return read_web_draft(WebBody(**fields), ScriptedRecipes(), now=EPOCH, allow_insecure=False)


def test_page_and_search_watches_become_web_recipes() -> None:
    page = draft(url=PAGE, cadence_minutes=60, ignore=[".date", "#visits"], threshold=0.02)
    assert (page.recipe_id, page.params) == (
        "web/scrape",
        '{"url":"https://example.com/shop","formats":"text","exclude_tags":".date,#visits"}',
    )
    assert watch_of(page.web).threshold == 0.02
    search = draft(mode="search", query="bread", url=PAGE, schedule_text="daily at 9:30")
    assert (search.recipe_id, search.params) == ("web/search", '{"query":"bread","include_domains":"example.com"}')


@pytest.mark.parametrize(
    ("fields", "param", "reason"),
    [
        ({}, "url", "invalid_param"),
        ({"mode": "search"}, "query", "invalid_param"),
        ({"mode": "serach", "url": PAGE}, "mode", "invalid_param"),
        ({"url": PAGE, "query": "bread"}, "query", "invalid_param"),
        ({"mode": "search", "query": "bread", "ignore": [".a"]}, "ignore", "invalid_param"),
        ({"url": PAGE}, "cadence_minutes", "invalid_param"),
        ({"url": PAGE, "threshold": 1.0}, "threshold", "invalid_param"),
        ({"url": PAGE, "retention_days": 0}, "retention_days", "invalid_param"),
        ({"url": PAGE, "ignore": [""]}, "ignore", "invalid_param"),
        ({"url": PAGE, "goal": "a lower price"}, "goal", "capability_missing"),
        ({"url": PAGE, "judge_enabled": True}, "judge_enabled", "capability_missing"),
        ({"url": PAGE, "cadence_minutes": 60, "webhook_url": "http://10.0.0.1/"}, "webhook_url", "invalid_param"),
        ({"url": PAGE, "cadence_minutes": 60, "webhook_secret": "x" * 20}, "webhook_secret", "invalid_param"),
    ],
)
def test_invalid_watch_is_rejected_by_field(fields: dict[str, Any], param: str, reason: str) -> None:
    with pytest.raises(MonitorInvalid) as refused:
        draft(**fields)
    assert (refused.value.param, refused.value.reason) == (param, reason)
