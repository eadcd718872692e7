"""Reference texts for discover schedules (decisions 19)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

ScheduleId = Annotated[str, meaning("The schedule.", "ds_01a1fd7328fd7bba92988ba98f5dc154")]
_NO_SCHEDULE: Final = "RESOURCE_NOT_FOUND/unknown_schedule"


class ScheduleLinks(TypedDict):
    """URLs related to the schedule."""

    schedule: Annotated[
        str, meaning("The URL of the schedule.", "https://api.example.com/v1/prism/discover/schedules/ds_01a1")
    ]
    occurrences: Annotated[
        str, meaning("The URL of its slots.", "https://api.example.com/v1/prism/discover/schedules/ds_01a1/occurrences")
    ]


class ScheduleData(TypedDict):
    """The current state of a schedule."""

    schedule_id: ScheduleId
    name: Annotated[str, meaning("The schedule's name.", "Mentions of our product")]
    status: Literal["active", "paused"]
    paused_because: Annotated[
        str | None, meaning("One of owner, three_skips, cadence_unreadable; or null.", "three_skips")
    ]
    cadence: Annotated[Any, meaning("When its runs start.", "daily")]
    run: Annotated[dict[str, Any], meaning("The parameters of each run.", {"keywords": ["structured concurrency"]})]
    skips_in_a_row: Annotated[int, meaning("Occurrences skipped since the last run.", 0)]
    last_run_id: Annotated[str | None, meaning("The last run.", "dr_01a1fd7328fd7bba92988ba98f5dc154")]
    next_run_at: Instant | None
    created_at: Instant
    updated_at: Instant
    links: ScheduleLinks


class ScheduleListData(TypedDict):
    """A page of schedules, newest first."""

    items: list[ScheduleData]


class OccurrenceData(TypedDict):
    """A slot of a schedule."""

    scheduled_for: Instant
    run_id: Annotated[str | None, meaning("The run of this slot; null if it was skipped.")]
    skip_reason: Annotated[
        str | None,
        meaning(
            "One of missed, previous_run_active, insufficient_credits, key_budget_reached, account_suspended, "
            "job_limit_reached; or null.",
            "missed",
        ),
    ]
    at: Instant


class OccurrenceListData(TypedDict):
    """A page of slots, newest first."""

    items: list[OccurrenceData]


CREATE: Final = RouteDoc(
    "create_discover_schedule",
    "Start a discover run on a cadence and report new rows.",
    ScheduleData,
    status=201,
    platform="prism",
    reasons=("INVALID_REQUEST/monitor_limit_reached",),
    once=True,
    notes=(
        "Slots work as for Monitors: after downtime, the latest slot runs and the others are skipped. A slot is also "
        "skipped while the previous run is active, or if there are no credits left. Three skips in a row pause the "
        "schedule.",
        "The events `discover.new_rows`, `new_accounts` and `new_items` report rows that no earlier occurrence found.",
    ),
    gives={"schedule_id": "/data/schedule_id"},
)
LIST: Final = RouteDoc(
    "list_discover_schedules", "The account's discover schedules, newest first.", ScheduleListData, platform="prism"
)
SHOW: Final = RouteDoc(
    "get_discover_schedule", "One discover schedule.", ScheduleData, platform="prism", reasons=(_NO_SCHEDULE,)
)
CHANGE: Final = RouteDoc(
    "change_discover_schedule",
    "Pause or resume a discover schedule, or change its cadence, name or maximum cost per run.",
    ScheduleData,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
DELETE: Final = RouteDoc(
    "delete_discover_schedule",
    "Delete a discover schedule. Its runs stay.",
    status=204,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
OCCURRENCES: Final = RouteDoc(
    "discover_occurrences",
    "The slots of a discover schedule, newest first, with their runs or the reasons for skipping them.",
    OccurrenceListData,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
