"""The thread's side of group commit: runs many independent calls in one transaction."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from storage.errors import HandlerFailed, StorageError, StoreUnavailable
from storage.store import BatchHandler, Tx

Callback = Callable[[], None]
TAKEN: Final = object()
"""Marks a call that is no longer pending."""


class Job:
    """A call that goes through the writer. The Trio side creates it, and the thread sets `result` or `error`."""

    __slots__ = ("abandonable", "error", "fn", "handler", "has_ended", "on_failure", "request", "result", "task")

    def __init__(
        self,
        handler: BatchHandler[object, object] | None = None,
        request: object = None,
        on_failure: Callback | None = None,
        *,
        fn: Callable[[Tx], object] | None = None,
        abandonable: bool = False,
    ) -> None:
        """Create a job from `fn`, or from a `handler` and its `request`."""
        self.fn = fn
        self.handler = handler
        self.request = request
        self.on_failure = on_failure
        self.abandonable = abandonable
        self.task: trio.lowlevel.Task | None = None
        self.result: object = None
        self.error: Exception | None = None
        self.has_ended = False
        """Whether the Trio side has reported the job's end to the caller."""

    async def wait(self, pending: dict["Job", None]) -> object:
        """Wait until the writer wakes `task`.

        If the call is cancelled while the job is in `pending`, the job never runs. After that, a cancelled call waits
        for the job's end.

        Raises:
            The job's own exceptions.
        """
        self.task = trio.lowlevel.current_task()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            is_pending = pending.pop(self, TAKEN) is not TAKEN
            if not (is_pending or self.abandonable):
                return trio.lowlevel.Abort.FAILED
            self.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return self.outcome()

    def outcome(self) -> object:
        """Return the result that the writer has set.

        Raises:
            The job's own exceptions.
        """
        if self.error is not None:
            raise self.error
        return self.result


class Engine(Protocol):
    """A writing connection, as group commit uses it."""

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def commit(self) -> None:
        """Make the transaction durable."""
        ...

    def rollback(self) -> None:
        """Undo the transaction; harmless if none is open."""
        ...

    def mark(self) -> None:
        """Set the savepoint."""
        ...

    def settle(self) -> None:
        """Wait for the call's statements, and raise their errors."""
        ...

    def keep(self) -> None:
        """Release the savepoint."""
        ...

    def undo(self) -> bool:
        """Roll back to the savepoint and release it.

        Return False if the engine has already undone the whole transaction.
        """
        ...

    def transaction(self, callbacks: list[Callback]) -> Tx:
        """Return the transaction for the calls. Their `on_commit` callbacks are added to `callbacks`."""
        ...

    def translate(self, error: Exception) -> Exception:
        """Translate an error of the driver into a StorageError. Other errors are returned unchanged."""
        ...


def run_batch(engine: Engine, jobs: Sequence[Job]) -> list[Callback] | None:
    """Run `jobs` in order in one transaction and commit it. Return the callbacks to call after the commit.

    Each job ends with its result or its error. If the commit fails, all jobs get the error, and None is returned.
    """
    callbacks: list[Callback] = []
    try:
        engine.begin()
        groups = groups_of(jobs)
        for group in groups:
            _run_group(engine, group, callbacks, alone=len(groups) == 1)
        engine.commit()
    except Exception as exc:  # noqa: BLE001 - the writer's last resort: every waiting caller must get the error
        engine.rollback()
        _fail(jobs, engine.translate(exc))
        return None
    return callbacks


def groups_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group consecutive jobs with the same handler, so that the order of arrival is kept.

    Each `write` is its own group.
    """
    group: list[Job] = []
    groups, handler = [group], None
    for job in jobs:
        if job.handler is not None and job.handler == handler:
            group.append(job)
        else:
            group, handler = [job], job.handler
            groups.append(group)
    return groups[1:]


def _run_group(engine: Engine, group: Sequence[Job], callbacks: list[Callback], *, alone: bool) -> None:
    """Run one group.

    A group that is `alone` in its transaction needs no savepoint. This saves two of about a dozen statements.
    """
    wanted: list[Callback] = []
    if not alone:
        engine.mark()
    try:
        _call(engine.transaction(wanted), group)
        if not alone:
            engine.settle()
    except Exception as exc:  # a call's error must not affect the others
        refusal = engine.translate(exc)
        if alone:
            engine.rollback()
            engine.begin()
        elif not engine.undo():
            raise StoreUnavailable(f"the database dropped the transaction: {refusal}") from exc
        _fail(group, refusal)
        return
    if not alone:
        engine.keep()
    callbacks += wanted


def _call(tx: Tx, group: Sequence[Job]) -> None:
    first = group[0]
    if first.fn is not None:
        first.result = first.fn(tx)
        return
    assert first.handler is not None
    results = first.handler(tx, [job.request for job in group])
    for job, result in zip(group, results, strict=True):
        if isinstance(result, Exception):
            job.error = result
        else:
            job.result = result


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    """Set the error of all jobs.

    A `write` gets the error itself. In a batch, each job gets a new exception with that cause.
    """
    for job in jobs:
        job.result = None
        if len(jobs) == 1 and job.fn is not None:
            job.error = error
            continue
        shared = type(error)(*error.args) if isinstance(error, StorageError) else HandlerFailed(repr(error))
        shared.__cause__ = error
        job.error = shared
