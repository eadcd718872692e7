"""A store that does each call at once, without a thread: for model tests and virtual time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from storage.store import BatchHandler, Partitions, Req, Res, StoreSize, StoreStatistics, Tx
from storage.transactions import Callback, Engine, Job, run_batch

T = TypeVar("T")


class InlineCalls:
    """As `storage.store.Store`, for one task at a time, over an engine."""

    partitions: Partitions | None = None
    failing: Exception | None = None
    """While it is set, every commit fails with it, and what the transaction did is rolled back."""
    _engine: Engine
    _calls = 0

    def look(self, fn: Callable[[Tx], T]) -> T:
        """The result of `fn`, for a caller that is no task."""
        raise NotImplementedError

    def do(self, fn: Callable[[Tx], T]) -> T:
        """`write` for whoever is no task."""
        return self._finish(Job(fn=fn))  # type: ignore[return-value]

    def close(self) -> None:
        """Close its connections."""
        raise NotImplementedError

    def together(self, handler: BatchHandler[Req, Res], requests: Sequence[Req]) -> list[Res | Exception]:
        """The outcomes of requests that wait for the same commit."""
        return self.mixed([(handler, request) for request in requests])

    def mixed(self, asked: Sequence[tuple[BatchHandler[Any, Any], Any]]) -> list[Any]:
        """The outcomes of requests, each with its handler, that wait for the same commit."""
        jobs = [Job(handler=handler, request=request) for handler, request in asked]
        self._run(jobs)
        return [job.error or job.result for job in jobs]

    async def write(self, fn: Callable[[Tx], T]) -> T:
        await trio.lowlevel.checkpoint()
        return self.do(fn)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        await trio.lowlevel.checkpoint()
        return self.look(fn)

    async def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Res:
        await trio.lowlevel.checkpoint()
        return self._finish(Job(handler=handler, request=request))  # type: ignore[arg-type, return-value]

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        if isinstance(self.together(handler, [request])[0], Exception) and on_failure is not None:
            on_failure()

    async def ping(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.failing is not None:
            raise self.failing

    def announce(self, note: Mapping[str, str]) -> None:
        """Nobody reads it."""

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(waiting=0, commits=self._calls, calls=self._calls, failed_commits=0, unheard_errors=0)

    async def measure(self) -> StoreSize:
        await trio.lowlevel.checkpoint()
        return StoreSize(0, None, ())

    async def scrub(self, table: str) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    async def flush_log(self) -> None:
        await trio.lowlevel.checkpoint()

    async def disk(self) -> None:
        await trio.lowlevel.checkpoint()

    def _finish(self, job: Job) -> object:
        self._run([job])
        if job.error is not None:
            raise job.error
        return job.result

    def _run(self, jobs: Sequence[Job]) -> None:
        self._calls += len(jobs)
        for callback in self.run_batch(jobs) or []:
            callback()

    def run_batch(self, jobs: Sequence[Job]) -> list[Callback] | None:
        """The jobs in one transaction; what has to be called then, None when it failed."""
        return run_batch(self._engine, jobs)


class FailingCommits:
    """An engine's commits, for as long as its store is not to fail."""

    def __init__(self, store: InlineCalls, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._store = store

    def commit(self) -> None:
        """Commit, or fail as the store is told to."""
        if self._store.failing is not None:
            raise self._store.failing
        super().commit()  # type: ignore[misc]  # the engine's
