"""Discover schedules, for their readers (decisions 19)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gateway.docs.account.fields import Instant, meaning
from gateway.http.routing import RouteDoc

ScheduleId = Annotated[str, meaning("The schedule.", "ds_01a1fd7328fd7bba92988ba98f5dc154")]
_NO_SCHEDULE: Final = "RESOURCE_NOT_FOUND/unknown_schedule"


class ScheduleLinks(TypedDict):
    """Where to read on."""

    schedule: Annotated[str, meaning("The schedule.", "https://api.example.com/v1/prism/discover/schedules/ds_01a1")]
    occurrences: Annotated[
        str, meaning("Its slots.", "https://api.example.com/v1/prism/discover/schedules/ds_01a1/occurrences")
    ]


class ScheduleData(TypedDict):
    """A schedule as it stands."""

    schedule_id: ScheduleId
    name: Annotated[str, meaning("Its name.", "Mentions of our product")]
    status: Literal["active", "paused"]
    paused_because: Annotated[str | None, meaning("owner, three_skips, cadence_unreadable, or null.", "three_skips")]
    cadence: Annotated[Any, meaning("When its runs begin.", "daily")]
    run: Annotated[
        dict[str, Any], meaning("What each of its runs looks for.", {"keywords": ["structured concurrency"]})
    ]
    skips_in_a_row: Annotated[int, meaning("Occurrences that were skipped since the last run.", 0)]
    last_run_id: Annotated[str | None, meaning("Its last run.", "dr_01a1fd7328fd7bba92988ba98f5dc154")]
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
    run_id: Annotated[str | None, meaning("The run that it became; null where it was skipped.")]
    skip_reason: Annotated[
        str | None,
        meaning(
            "missed, previous_run_active, insufficient_credits, key_budget_reached, account_suspended, "
            "job_limit_reached, or null.",
            "missed",
        ),
    ]
    at: Instant


class OccurrenceListData(TypedDict):
    """A page of slots, newest first."""

    items: list[OccurrenceData]


CREATE: Final = RouteDoc(
    "create_discover_schedule",
    "Run a discover run on a cadence, and tell what is new.",
    ScheduleData,
    status=201,
    platform="prism",
    reasons=("INVALID_REQUEST/monitor_limit_reached",),
    once=True,
    notes=(
        "Its slots are those of Monitors: after a pause of the node the newest is run and the others are skipped. "
        "One is skipped too while the run before has not settled, or where no credits are left; three in a row pause "
        "the schedule.",
        "`discover.new_rows`, `new_accounts` or `new_items` tell of rows that no earlier occurrence has found.",
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
    "Pause a discover schedule, let it go on, or change its cadence, its name or what its runs may cost.",
    ScheduleData,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
DELETE: Final = RouteDoc(
    "delete_discover_schedule",
    "Forget a discover schedule; its runs stay.",
    status=204,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
OCCURRENCES: Final = RouteDoc(
    "discover_occurrences",
    "The slots of a discover schedule, newest first: the runs that they became, or why they were skipped.",
    OccurrenceListData,
    platform="prism",
    reasons=(_NO_SCHEDULE,),
)
