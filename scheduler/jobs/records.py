"""Jobs and their steps as they are stored (decisions 17)."""

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
    """One job. Its steps come in waves: the next one is planned when the one before has ended."""

    id: str
    kind: str
    account_id: str
    key_id: str | None
    request_id: str
    """The request under which its credits are reserved."""
    spec: str
    """Its request as JSON, for its kind."""
    status: JobStatus
    stopped_because: str | None
    held_credits: int
    """The credits of all its reservations: a job that was paused, and gave its rest back, has one more."""
    used_credits: int
    """The price of the steps that are done."""
    waves: int
    """How many waves are planned; steps of a later one are not complete."""
    planned: int
    """How many steps are planned in all."""
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
    """The credits that its closed reservations have paid for."""
    returned_credits: int = 0
    """The credits that its closed reservations gave back."""

    @property
    def left_credits(self) -> int:
        """The credits that its reservation has left."""
        return self.held_credits - self.returned_credits - self.used_credits

    @property
    def pending(self) -> int:
        """How many steps are planned and not made."""
        return self.planned - self.done - self.empty - self.failed

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status in ENDED


class JobStep(NamedTuple):
    """A step that is planned. Its name is unique in its job."""

    number: int
    wave: int
    name: str


class EndedStep(NamedTuple):
    """A step that has ended, with its result as compressed JSON."""

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
    """How a step ended. Only one that is `done` has a result. The others are free, unless a page was too costly."""

    status: StepStatus
    result: bytes | None = None
    credits_used: int = 0
    error: str | None = None
    found: tuple[str, ...] = ()
    """The names that it found for the next wave, in order."""
    brought: Any = None
    """Values for `JobKind.keep`."""


class Stop(NamedTuple):
    """How a job ends, or is paused, and why."""

    status: JobStatus
    because: str | None


class Wave(ABC):
    """The next wave of a job while it is planned, in pieces that hold up nobody.

    It is told of all steps that the job has, and then of what those of the last wave found, in order. What it makes of
    that is the same after a crash as before it.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        """The names of the steps that come next, each once."""

    @property
    def is_full(self) -> bool:
        """Whether it has no room for more names."""
        return False

    @abstractmethod
    def note(self, name: str) -> None:
        """Note a step that the job has."""

    @abstractmethod
    async def add(self, found: Sequence[bytes]) -> None:
        """Add what some steps found, as it is stored: compressed lists of names, as JSON."""


class JobKind(ABC):
    """A kind of work. What it decides is the same after a crash as before it.

    What it keeps beside its steps, it keeps in the transactions of `keep` and `ended`, which come once for each step
    and for each end.
    """

    at_once: ClassVar[int]
    """Steps of one job that are made side by side, at most."""
    is_private: ClassVar[bool] = False
    """Whether an error that nobody foresaw is logged without its text, which may hold what a job is about."""

    @abstractmethod
    async def perform(self, job: JobRecord, step: JobStep) -> Outcome:
        """Make a step; never raises for what its source does."""

    def next_wave(self, job: JobRecord) -> Wave | None:  # noqa: ARG002 - for kinds that have several
        """Begin to plan the wave after the last one; None if there is none."""
        return None

    def price_of(self, job: JobRecord, step: JobStep) -> int:  # noqa: ARG002 - for kinds that look at it
        """The most that a step costs: it is begun only while so much is left. 0: the reservation covers all steps."""
        return 0

    def keep(  # noqa: B027 - few kinds keep more than their steps
        self, tx: Tx, job: JobRecord, step: JobStep, outcome: Outcome, *, at: float
    ) -> None:
        """Keep what a step brought beside its result, with its end."""

    def verdict(self, tx: Tx, job: JobRecord, *, has_credits: bool) -> Stop:  # noqa: ARG002 - for kinds that look
        """How a job stops whose steps have all ended, or whose credits cover no further one."""
        return Stop(verdict_of(job), None) if has_credits else Stop("paused", "max_credits")

    def ended(self, tx: Tx, job: JobRecord, *, at: float) -> None:  # noqa: B027 - as above
        """Keep what belongs to the end or the pause of a job, which is settled."""


def verdict_of(job: JobRecord) -> JobStatus:
    """How a job ends whose steps have all ended: a part that nobody has is no failure."""
    if not job.failed:
        return "completed"
    return "partial" if job.done or job.empty else "failed"


def progress_of(job: JobRecord) -> dict[str, Any]:
    """The numbers of its steps; all others add up to `planned`."""
    return {
        "planned": job.planned,
        "done": job.done,
        "empty": job.empty,
        "failed": job.failed,
        "pending": 0 if job.is_over else job.pending,
        "skipped": job.pending if job.is_over else 0,
    }


def facts_of(job: JobRecord) -> dict[str, Any]:
    """A job as its owner sees it, without links."""
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
