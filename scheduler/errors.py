"""The refusals of the scheduler, with the data a caller needs to send it right."""

from __future__ import annotations


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


class JobLimitReached(SchedulerError):
    """The account has as many jobs that have not ended as it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an account has at most {limit} jobs that have not ended")
        self.limit = limit


class JobOver(SchedulerError):
    """The job has ended, so nothing can be changed any more."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"the job {job_id} is {status}")
        self.status = status
