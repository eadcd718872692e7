"""The errors of the scheduler, with the data that clients need to fix their requests."""

from __future__ import annotations

from collections.abc import Sequence


class SchedulerError(Exception):
    """The base class of scheduler errors."""


class MonitorInvalid(SchedulerError):
    """A field of a monitor is invalid; nothing was stored or charged.

    `param` is the path of the field in the body (`track.metrics[0]`), `problem` completes the sentence that starts with
    it, and `next_step` is a sentence that says what to send. `did_you_mean` is a similar valid value, if there is one.
    `reason` is for programs (spec 7.3).
    """

    def __init__(
        self,
        param: str,
        problem: str,
        next_step: str,
        *,
        did_you_mean: str | None = None,
        reason: str = "invalid_param",
    ) -> None:
        super().__init__(f"{param} {problem}")
        self.param = param
        self.problem = problem
        self.next_step = next_step
        self.did_you_mean = did_you_mean
        self.reason = reason


class CadenceInvalid(MonitorInvalid):
    """The cadence cannot be read, never runs, or runs too often."""


class TrackInvalid(MonitorInvalid):
    """`track` names a metric that does not exist."""


class RulesInvalid(MonitorInvalid):
    """An alert rule cannot be evaluated."""


class MonitorUnknown(SchedulerError):
    """The monitor does not exist."""

    def __init__(self, monitor_id: str) -> None:
        super().__init__(f"unknown monitor {monitor_id}")
        self.monitor_id = monitor_id


class RunUnknown(SchedulerError):
    """The monitor has no such run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the monitor has no run {run_id}")


class MonitorLimitReached(SchedulerError):
    """The account already has its maximum number of active monitors, of all monitors, or of discover schedules."""

    def __init__(self, plan: str, limit: int, counted: str) -> None:
        super().__init__(f"the plan {plan} allows {limit} {counted}")
        self.plan = plan
        self.limit = limit


class RunTooSoon(SchedulerError):
    """A run was requested too soon after another one."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"this monitor ran a moment ago; it can be run again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class MonitorPaused(SchedulerError):
    """The monitor is paused, so it cannot run."""


class JobInvalid(MonitorInvalid):
    """A field of a job is invalid; nothing was stored or charged."""


class JobUnknown(SchedulerError):
    """The job does not exist."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"unknown job {job_id}")


class DiscoverRunUnknown(JobUnknown):
    """The discover run does not exist."""

    def __init__(self, run_id: str) -> None:
        SchedulerError.__init__(self, f"unknown discover run {run_id}")


class ScheduleUnknown(SchedulerError):
    """The schedule does not exist."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"unknown schedule {schedule_id}")


class WorkRefused(SchedulerError):
    """An error about a job or a session. `reason` is for programs, and `more` contains additional fields."""

    def __init__(self, message: str, reason: str, **more: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.more = more


class JobLimitReached(WorkRefused):
    """The account has its maximum number of unfinished jobs."""

    def __init__(self, limit: int) -> None:
        message = f"An account can have at most {limit} unfinished jobs; wait for one to end, or cancel one"
        super().__init__(message, "job_limit_reached", limit=limit)


class JobOver(WorkRefused):
    """The job has ended and cannot be changed."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"The job {job_id} is {status}", "job_over", status=status)


class CohortUnknown(SchedulerError):
    """The cohort does not exist, or its retention period has ended."""

    def __init__(self, cohort_id: str) -> None:
        super().__init__(f"unknown cohort {cohort_id}")


class CohortQueryUnknown(SchedulerError):
    """The query does not exist."""

    def __init__(self, query_id: str) -> None:
        super().__init__(f"unknown cohort query {query_id}")


class CohortRefused(SchedulerError):
    """An error about a cohort; nothing was changed or charged.

    `param` is the path of the field in the body or the URL, `next_step` is a sentence that says what to do, and `more`
    contains additional fields. `reason` is for programs. `did_you_mean` is a similar valid value, if there is one.
    """

    def __init__(
        self,
        message: str,
        reason: str,
        param: str,
        next_step: str,
        *,
        did_you_mean: str | None = None,
        **more: object,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.param = param
        self.next_step = next_step
        self.did_you_mean = did_you_mean
        self.more = more


class CohortLimitReached(CohortRefused):
    """The account has its maximum number of cohorts."""

    def __init__(self, limit: int) -> None:
        how = "Delete an unused cohort."
        super().__init__(f"An account can have at most {limit} cohorts", "cohort_limit_reached", "body", how)


class CohortMembersLimitReached(CohortRefused):
    """The cohort would exceed its maximum number of members; none was added."""

    def __init__(self, members: int, limit: int) -> None:
        message = f"A cohort can have at most {limit} members; with these it would have {members}"
        super().__init__(message, "member_limit_reached", "members", "Send fewer, or create another cohort.")


class CohortPlatformUnsupported(CohortRefused):
    """The platform has no list of an account's posts. `near` is a similar valid platform."""

    def __init__(self, param: str, near: str | None, known: Sequence[str]) -> None:
        message, how = f"{param} is not a platform that cohorts support", f"Send one of {', '.join(known)}."
        super().__init__(message, "platform_unsupported", param, how, did_you_mean=near)


class CohortIdentityConflict(CohortRefused):
    """The account already has another external id; no member was added."""

    def __init__(self, param: str) -> None:
        message = f"{param} is already in the cohort with another external_id"
        super().__init__(message, "identity_conflict", param, "Send the existing external_id.")


class CohortQueryTooDear(CohortRefused):
    """The query could cost more than its `max_credits`; it was not started."""

    def __init__(self, required: int, most: int) -> None:
        message = f"max_credits is {most}, but this query may cost {required}"
        how = "Send a higher max_credits, or fewer pages, platforms or members."
        super().__init__(message, "above_max_credits", "max_credits", how, credits_required=required)


class CohortQueryOver(CohortRefused):
    """The query has ended and cannot be cancelled."""

    def __init__(self, status: str) -> None:
        how = "Read its results, or start another query."
        super().__init__(f"The query is {status}", "query_over", "query_id", how, status=status)


class CohortQueryNotReady(CohortRefused):
    """The query has no readable results: it has not finished, was cancelled, or has expired."""

    def __init__(self, status: str) -> None:
        how = "Read its results once its status is succeeded."
        super().__init__(f"The query is {status}", "query_not_ready", "query_id", how, status=status)


class CohortResultTooLarge(SchedulerError):
    """A single result is longer than a page.

    `next_at` is where the next result starts: the number of a shard, and a position in that shard.
    """

    def __init__(self, size_bytes: int, limit_bytes: int, next_at: tuple[int, int]) -> None:
        super().__init__(f"one result has {size_bytes} bytes; a page has at most {limit_bytes}")
        self.next_at = next_at


class SessionUnknown(SchedulerError):
    """The session does not exist."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"unknown session {session_id}")


class SessionLimitReached(WorkRefused):
    """The account has its maximum number of open sessions."""

    def __init__(self, limit: int) -> None:
        message = f"An account can have at most {limit} open sessions"
        super().__init__(message, "session_limit_reached", limit=limit)


class WebSessionOver(WorkRefused):
    """The session is not open, so no actions can run."""

    def __init__(self, session_id: str, status: str) -> None:
        super().__init__(f"The session {session_id} is {status}", "session_over", status=status)


class SessionTimePassed(WorkRefused):
    """The session has already been open longer than the requested time."""

    def __init__(self) -> None:
        message = "ttl_seconds must exceed the time that the session has been open; send DELETE to close it"
        super().__init__(message, "invalid_param", param="ttl_seconds")
