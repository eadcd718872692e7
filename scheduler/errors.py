"""The refusals of the scheduler, with the data a caller needs to send it right."""

from __future__ import annotations

from collections.abc import Sequence


class SchedulerError(Exception):
    """A refusal of the scheduler."""


class MonitorInvalid(SchedulerError):
    """A field of a monitor cannot be used as it was sent; nothing was stored or charged.

    `param` is the field's place in the body (`track.metrics[0]`), `problem` completes the sentence that begins with it,
    `next_step` is a sentence that says what to send, and `did_you_mean` the very value, where one is near;
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
    """The cadence cannot be read, or would run too often or never."""


class TrackInvalid(MonitorInvalid):
    """The numbers to keep cannot be found where `track` says."""


class RulesInvalid(MonitorInvalid):
    """An alert rule cannot be judged."""


class MonitorUnknown(SchedulerError):
    """There is no such monitor."""

    def __init__(self, monitor_id: str) -> None:
        super().__init__(f"there is no monitor {monitor_id}")
        self.monitor_id = monitor_id


class RunUnknown(SchedulerError):
    """The monitor has no such run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the monitor has no run {run_id}")


class MonitorLimitReached(SchedulerError):
    """The account has as many monitors as its plan allows; paused ones are not counted."""

    def __init__(self, plan: str, limit: int, counted: str) -> None:
        super().__init__(f"the plan {plan} allows {limit} {counted}")
        self.plan = plan
        self.limit = limit


class RunTooSoon(SchedulerError):
    """A run was asked for too soon after another one."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"this monitor ran a moment ago; it can be run again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class MonitorPaused(SchedulerError):
    """A paused monitor runs nothing."""


class JobInvalid(MonitorInvalid):
    """A field of a job cannot be used as it was sent; nothing was stored or charged."""


class JobUnknown(SchedulerError):
    """There is no such job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id}")


class DiscoverRunUnknown(JobUnknown):
    """There is no such discover run."""

    def __init__(self, run_id: str) -> None:
        SchedulerError.__init__(self, f"there is no discover run {run_id}")


class ScheduleUnknown(SchedulerError):
    """There is no such schedule."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"there is no schedule {schedule_id}")


class WorkRefused(SchedulerError):
    """A refusal about a job or a session; `reason` is for programs, `more` stands beside it."""

    def __init__(self, message: str, reason: str, **more: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.more = more


class JobLimitReached(WorkRefused):
    """The account has as many jobs that have not ended as it may."""

    def __init__(self, limit: int) -> None:
        message = f"An account has at most {limit} jobs that have not ended; wait for one to end, or cancel one"
        super().__init__(message, "job_limit_reached", limit=limit)


class JobOver(WorkRefused):
    """The job has ended, so nothing can be changed any more."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"The job {job_id} is {status}", "job_over", status=status)


class CohortUnknown(SchedulerError):
    """There is no such cohort, or its retention has passed."""

    def __init__(self, cohort_id: str) -> None:
        super().__init__(f"there is no cohort {cohort_id}")


class CohortQueryUnknown(SchedulerError):
    """There is no such query."""

    def __init__(self, query_id: str) -> None:
        super().__init__(f"there is no cohort query {query_id}")


class CohortRefused(SchedulerError):
    """A refusal of a cohort; nothing was changed or charged.

    `param` is the field's place in the body or the path, `next_step` a sentence that says what to do; `more` stands
    beside them. `reason` is for programs; `did_you_mean` is the very value that was probably meant, where one is near.
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
    """The account has as many cohorts as it may."""

    def __init__(self, limit: int) -> None:
        how = "Delete a cohort that is not used any more."
        super().__init__(f"An account has at most {limit} cohorts", "cohort_limit_reached", "body", how)


class CohortMembersLimitReached(CohortRefused):
    """The cohort would have more members than it may; nobody was added."""

    def __init__(self, members: int, limit: int) -> None:
        message = f"A cohort has at most {limit} members; with these it would have {members}"
        super().__init__(message, "member_limit_reached", "members", "Send fewer, or make another cohort.")


class CohortPlatformUnsupported(CohortRefused):
    """A platform without a list of an account's posts; `near` is the one that was probably meant."""

    def __init__(self, param: str, near: str | None, known: Sequence[str]) -> None:
        message, how = f"{param} is no platform that cohorts can be on", f"Send one of {', '.join(known)}."
        super().__init__(message, "platform_unsupported", param, how, did_you_mean=near)


class CohortIdentityConflict(CohortRefused):
    """An account that belongs to another external id already; nobody was added."""

    def __init__(self, param: str) -> None:
        message = f"{param} is an account that the cohort has under another external_id"
        super().__init__(message, "identity_conflict", param, "Send the external_id that it has.")


class CohortQueryTooDear(CohortRefused):
    """The query may cost more than its own `max_credits`; nothing was begun."""

    def __init__(self, required: int, most: int) -> None:
        message = f"max_credits is {most}, and this query may cost {required}"
        how = "Send a higher max_credits, or fewer pages, platforms or members."
        super().__init__(message, "above_max_credits", "max_credits", how, credits_required=required)


class CohortQueryOver(CohortRefused):
    """The query has ended, so it cannot be cancelled."""

    def __init__(self, status: str) -> None:
        how = "Read its results, or begin another."
        super().__init__(f"The query is {status}", "query_over", "query_id", how, status=status)


class CohortQueryNotReady(CohortRefused):
    """The query has no results to read: it has not ended, was cancelled, or its retention has passed."""

    def __init__(self, status: str) -> None:
        how = "Read its results once its status is succeeded."
        super().__init__(f"The query is {status}", "query_not_ready", "query_id", how, status=status)


class CohortResultTooLarge(SchedulerError):
    """One result is longer than a page may be. The next one stands at `(number, place)` among the shards."""

    def __init__(self, size_bytes: int, limit_bytes: int, behind: tuple[int, int]) -> None:
        super().__init__(f"one result has {size_bytes} bytes; a page has at most {limit_bytes}")
        self.behind = behind


class SessionUnknown(SchedulerError):
    """There is no such session."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {session_id}")


class SessionLimitReached(WorkRefused):
    """The account has as many sessions that are not closed as it may."""

    def __init__(self, limit: int) -> None:
        message = f"An account has at most {limit} sessions that are not closed"
        super().__init__(message, "session_limit_reached", limit=limit)


class WebSessionOver(WorkRefused):
    """The session is not open, so nothing can be done in it."""

    def __init__(self, session_id: str, status: str) -> None:
        super().__init__(f"The session {session_id} is {status}", "session_over", status=status)


class SessionTimePassed(WorkRefused):
    """The session has been open for longer than the time that it is to have."""

    def __init__(self) -> None:
        message = "ttl_seconds must be more than the session has been open: DELETE closes it"
        super().__init__(message, "invalid_param", param="ttl_seconds")
