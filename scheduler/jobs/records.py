"""Jobs and their steps in stored form (decisions 17)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

from events.instants import iso, iso_or_none
from storage.store import Tx

JobStatus = Literal["queued", "running", "paused", "completed", "partial", "failed", "cancelled"]
ENDED: Final[tuple[JobStatus, ...]] = ("completed", "partial", "failed", "cancelled")
StepStatus = Literal["planned", "done", "empty", "failed"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job. Its steps run in waves: a wave is planned when the previous one has ended."""

    id: str
    kind: str
    account_id: str
    key_id: str | None
    request_id: str
    """The request id under which its credits are reserved."""
    spec: str
    """The request as JSON, which the job's kind parses."""
    status: JobStatus
    stopped_because: str | None
    held_credits: int
    """The credits of all its reservations. A job has several if it was resumed after a reservation was refunded."""
    used_credits: int
    """The sum of the prices of the finished steps."""
    waves: int
    """The number of fully planned waves. Steps of later waves may be incomplete."""
    planned: int
    """The number of all planned steps."""
    done: int
    empty: int
    failed: int
    attempt: int
    node: str | None
    lease_until: float | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    closed_credits: int = 0
    """The credits charged by its closed reservations."""
    returned_credits: int = 0
    """The credits refunded from its closed reservations."""

    @property
    def left_credits(self) -> int:
        """The credits left in its current reservation."""
        return self.held_credits - self.returned_credits - self.used_credits

    @property
    def pending(self) -> int:
        """The number of planned steps that have not ended."""
        return self.planned - self.done - self.empty - self.failed

    @property
    def is_over(self) -> bool:
        """Whether the job has ended for good."""
        return self.status in ENDED


class JobStep(NamedTuple):
    """A planned step. Its name is unique in its job."""

    number: int
    wave: int
    name: str


class EndedStep(NamedTuple):
    """A finished step, with its result as compressed JSON."""

    number: int
    wave: int
    name: str
    status: StepStatus
    credits_used: int
    error: str | None
    result: bytes | None
    ended_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended. Only a `done` step has a result.

    Other steps are free, unless their page was too costly to process.
    """

    status: StepStatus
    result: bytes | None = None
    credits_used: int = 0
    error: str | None = None
    found: tuple[str, ...] = ()
    """The names that the step found for the next wave, in order."""
    kept_value: Any = None
    """A value that the step passes to `JobKind.keep`."""


class Stop(NamedTuple):
    """How a job ends or pauses, and the reason."""

    status: JobStatus
    because: str | None


class Wave(ABC):
    """The next wave of a job while it is planned, in small pieces so that other tasks can run.

    It receives the names of all existing steps, and then the findings of the last wave, in order. Its plan must be
    deterministic, so that it is the same after a crash.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        """The names of the next steps, each once."""

    @property
    def is_full(self) -> bool:
        """Whether the wave has its maximum number of names."""
        return False

    @abstractmethod
    def note(self, name: str) -> None:
        """Record an existing step of the job."""

    @abstractmethod
    async def add(self, found: Sequence[bytes]) -> None:
        """Add the findings of some steps in stored form: compressed JSON lists of names."""


class JobKind(ABC):
    """A kind of work. Its decisions must be deterministic, so that they are the same after a crash.

    Data other than steps is stored in the transactions of `keep` and `ended`, which are called once for each step and
    once for each end or pause.
    """

    at_once: ClassVar[int]
    """The maximum number of concurrent steps of one job."""
    is_private: ClassVar[bool] = False
    """Whether unexpected errors are logged without their text, which could contain private data of the job."""

    @abstractmethod
    async def perform(self, job: JobRecord, step: JobStep) -> Outcome:
        """Run a step. Errors of its source become part of the outcome and are never raised."""

    def next_wave(self, job: JobRecord) -> Wave | None:  # noqa: ARG002 - for kinds that have several
        """Return the wave after the last one, ready to be planned, or None if the job has no more waves."""
        return None

    def price_of(self, job: JobRecord, step: JobStep) -> int:  # noqa: ARG002 - for kinds that use it
        """Return the maximum price of a step. The step starts only while that many credits are left.

        0 means that the reservation covers all steps.
        """
        return 0

    def keep(  # noqa: B027 - few kinds keep more than their steps
        self, tx: Tx, job: JobRecord, step: JobStep, outcome: Outcome, *, at: float
    ) -> None:
        """Store a step's data other than its result, in the transaction that ends the step."""

    def verdict(self, tx: Tx, job: JobRecord, *, has_credits: bool) -> Stop:  # noqa: ARG002 - for kinds that use it
        """Return how a job stops once all its steps have ended, or once its credits cover no further step."""
        return Stop(verdict_of(job), None) if has_credits else Stop("paused", "max_credits")

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: B027 - as above
        """Store data about the end or the pause of a job whose credits have been settled."""


def verdict_of(job: JobRecord) -> JobStatus:
    """Return how a job ends once all its steps have ended. Steps without a result do not count as failures."""
    if not job.failed:
        return "completed"
    return "partial" if job.done or job.empty else "failed"


def progress_of(job: JobRecord) -> dict[str, Any]:
    """Return the number of a job's planned steps, and the counts by outcome that add up to it."""
    return {
        "planned": job.planned,
        "done": job.done,
        "empty": job.empty,
        "failed": job.failed,
        "pending": 0 if job.is_over else job.pending,
        "skipped": job.pending if job.is_over else 0,
    }


def facts_of(job: JobRecord) -> dict[str, Any]:
    """Return a job as its owner sees it, without links."""
    return {
        "job_id": job.id,
        "kind": job.kind,
        "status": job.status,
        "stopped_because": job.stopped_because,
        "progress": progress_of(job),
        "credits": {
            "reserved": job.held_credits,
            "used": job.used_credits,
            "refunded": job.held_credits - job.used_credits if job.is_over else 0,
        },
        "created_at": iso(job.created_at),
        "started_at": iso_or_none(job.started_at),
        "finished_at": iso_or_none(job.finished_at),
    }
