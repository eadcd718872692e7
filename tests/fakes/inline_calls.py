"""A store that performs each call immediately, without a thread, for model tests and virtual time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from storage.store import BatchHandler, Partitions, Req, Res, StoreSize, StoreStatistics, Tx
from storage.transactions import Callback, Engine, Job, run_batch

T = TypeVar("T")


class InlineCalls:
    """Implements `storage.store.Store` over an engine, for one task at a time."""

    partitions: Partitions | None = None
    failing: Exception | None = None
    """While set, every commit fails with this error and is rolled back."""
    _engine: Engine
    _calls = 0

    def look(self, fn: Callable[[Tx], T]) -> T:
        """Return the result of `fn`, for a caller outside Trio."""
        raise NotImplementedError

    def do(self, fn: Callable[[Tx], T]) -> T:
        """Like `write`, for a caller outside Trio."""
        return self._finish(Job(fn=fn))  # type: ignore[return-value]

    def close(self) -> None:
        """Close the store's connections."""
        raise NotImplementedError

    def together(self, handler: BatchHandler[Req, Res], requests: Sequence[Req]) -> list[Res | Exception]:
        """Return the outcomes of requests that wait for the same commit."""
        return self.mixed([(handler, request) for request in requests])

    def mixed(self, asked: Sequence[tuple[BatchHandler[Any, Any], Any]]) -> list[Any]:
        """Return the outcomes of requests, each with its handler, that wait for the same commit."""
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
        """Do nothing, because no other process would read the note."""

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(waiting=0, commits=self._calls, calls=self._calls, failed_commits=0, background_errors=0)

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
        """Run the jobs in one transaction. Return the callbacks to call afterwards, or None if it failed."""
        return run_batch(self._engine, jobs)


class FailingCommits:
    """Commits like the engine unless its store is set to fail."""

    def __init__(self, store: InlineCalls, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._store = store

    def commit(self) -> None:
        """Commit, or raise the store's `failing` error if it is set."""
        if self._store.failing is not None:
            raise self._store.failing
        super().commit()  # type: ignore[misc]  # the engine's
