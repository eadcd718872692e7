"""Discover schedules: as sent, and in stored form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from scheduler.jobs.discover.spec import SearchBody

_CADENCE = Meta(
    description="`hourly`, `daily`, `weekly`, or a cron expression and its timezone.",
    examples=["daily", {"cron": "30 6 * * 1-5", "timezone": "Europe/Berlin"}],
    extra_json_schema={
        "anyOf": [
            {"type": "string", "enum": ["hourly", "daily", "weekly"]},
            {
                "type": "object",
                "properties": {"cron": {"type": "string"}, "timezone": {"type": "string"}},
                "required": ["cron"],
                "additionalProperties": False,
            },
        ]
    },
)
_NAME = Meta(description="The schedule's name in events, 1 to 100 characters.", examples=["Mentions of our product"])


class ScheduleBody(msgspec.Struct, frozen=True):
    """The fields of a new schedule."""

    run: Annotated[SearchBody, Meta(description="The search and the cost limit of each occurrence.")]
    cadence: Annotated[Any, _CADENCE]
    name: Annotated[str | None, _NAME] = None


class RunBound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a schedule's run that can be changed."""

    max_credits: Annotated[int, Meta(description="The maximum cost of an occurrence in credits, 1 to 10,000.")]


class SchedulePatchBody(msgspec.Struct, frozen=True):
    """The fields of a schedule that can be changed."""

    status: Annotated[str | None, Meta(description="`active` or `paused`.", examples=["paused"])] = None
    cadence: Annotated[Any, _CADENCE] = None
    name: Annotated[str | None, _NAME] = None
    run: Annotated[RunBound | None, Meta(description="Only its max_credits.", examples=[{"max_credits": 200}])] = None


@dataclass(frozen=True, slots=True)
class DiscoverSchedule:
    """A schedule. `body` and `cadence` are JSON as they were sent."""

    id: str
    account_id: str
    key_id: str | None
    """The key that can see the events of the schedule and its runs."""
    name: str
    body: str
    cadence: str
    status: Literal["active", "paused"]
    paused_because: str | None
    next_slot_at: float | None
    skips: int
    """The current number of occurrences skipped in a row."""
    last_run_id: str | None
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A slot of a schedule: the run that it started, or the reason why it was skipped."""

    schedule_id: str
    scheduled_for: float
    run_id: str | None
    skip_reason: str | None
    at: float
