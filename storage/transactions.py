"""The thread's side of group commit: many calls in one transaction, each call on its own feet."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from storage.errors import HandlerFailed, StorageError, StoreUnavailable
from storage.store import BatchHandler, Tx

Callback = Callable[[], None]
TAKEN: Final = object()
"""Stands for a call that is not pending any more."""


class Job:
    """One call on its way through the writer. The Trio side fills it, the thread sets `result` or `error`."""

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
        """Either `fn`, or a `handler` and its `request`."""
        self.fn = fn
        self.handler = handler
        self.request = request
        self.on_failure = on_failure
        self.abandonable = abandonable
        self.task: trio.lowlevel.Task | None = None
        self.result: object = None
        self.error: Exception | None = None
        self.has_ended = False
        """Everybody has been told, on the Trio side."""

    async def wait(self, pending: dict["Job", None]) -> object:
        """Wait until the writer wakes `task`; cancelled while it is `pending`, it never happens, later it is awaited.

        Raises:
            What the job itself raised.
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
        """Its result, now that the writer has set it.

        Raises:
            What the job itself raised.
        """
        if self.error is not None:
            raise self.error
        return self.result


class Engine(Protocol):
    """One writing connection, as group commit needs it."""

    def begin(self) -> None:
        """Open a transaction."""
        ...

    def commit(self) -> None:
        """Make it durable."""
        ...

    def rollback(self) -> None:
        """Undo it; harmless when none is open."""
        ...

    def mark(self) -> None:
        """Set the savepoint."""
        ...

    def settle(self) -> None:
        """Wait for what the call has asked for; what fails of it is raised here."""
        ...

    def keep(self) -> None:
        """Release the savepoint."""
        ...

    def undo(self) -> bool:
        """Return to the savepoint and release it; False when the engine has already dropped the whole transaction."""
        ...

    def transaction(self, callbacks: list[Callback]) -> Tx:
        """The calls' view; what they ask for after the commit is added to `callbacks`."""
        ...

    def translate(self, error: Exception) -> Exception:
        """The refusal for an error of the driver; any other error as it is."""
        ...


def run_batch(engine: Engine, jobs: Sequence[Job]) -> list[Callback] | None:
    """Run `jobs` in order in one transaction and commit it; what has to be called now that it is durable.

    Each job ends with its result or its error. A commit that fails is everyone's error, and gives None.
    """
    callbacks: list[Callback] = []
    try:
        engine.begin()
        groups = groups_of(jobs)
        for group in groups:
            _run_group(engine, group, callbacks, alone=len(groups) == 1)
        engine.commit()
    except Exception as exc:  # noqa: BLE001 - the writer's last resort: every waiter must hear of it
        engine.rollback()
        _fail(jobs, engine.translate(exc))
        return None
    return callbacks


def groups_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Neighbours with the same handler go together, so that the order of arrival holds; a `write` stands alone."""
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
    """Run one group; `alone` in its transaction it needs no savepoint, which saves two statements of a dozen."""
    wanted: list[Callback] = []
    if not alone:
        engine.mark()
    try:
        _call(engine.transaction(wanted), group)
        if not alone:
            engine.settle()
    except Exception as exc:  # a call's error is its own, whatever it is
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
    """A `write` raises its own error; where several share one, each gets a new exception with it as the cause."""
    for job in jobs:
        job.result = None
        if len(jobs) == 1 and job.fn is not None:
            job.error = error
            continue
        shared = type(error)(*error.args) if isinstance(error, StorageError) else HandlerFailed(repr(error))
        shared.__cause__ = error
        job.error = shared
