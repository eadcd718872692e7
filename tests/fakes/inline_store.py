"""A store on an in-memory database that does each call at once, without a thread: for model tests and virtual time."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import trio

from storage.migrations import MigrationSet
from storage.sqlite_files import migrate
from storage.sqlite_transaction import SqliteEngine, SqliteTx
from storage.store import BatchHandler, Req, Res, StoreStatistics, Tx
from storage.transactions import Job, run_batch

T = TypeVar("T")


class InlineStore:
    """As `storage.store.Store`, for one task at a time. `failing` makes the next calls fail with that error."""

    def __init__(self, migrations: Sequence[MigrationSet]) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.execute("PRAGMA foreign_keys = ON")
        migrate(self.connection, migrations)
        self._engine = SqliteEngine(self.connection)
        self.failing: Exception | None = None
        self._calls = 0

    def close(self) -> None:
        self.connection.close()

    def together(self, handler: BatchHandler[Req, Res], requests: Sequence[Req]) -> list[Res | Exception]:
        """The outcomes of requests that wait for the same commit."""
        jobs = [Job(handler=handler, request=request) for request in requests]  # type: ignore[arg-type]
        self._run(jobs)
        return [job.error or job.result for job in jobs]  # type: ignore[misc]

    async def write(self, fn: Callable[[Tx], T]) -> T:
        await trio.lowlevel.checkpoint()
        return self._finish(Job(fn=fn))  # type: ignore[return-value]

    async def read(self, fn: Callable[[Tx], T]) -> T:
        await trio.lowlevel.checkpoint()
        return fn(SqliteTx(self.connection.cursor()))

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

    def _finish(self, job: Job) -> object:
        self._run([job])
        if job.error is not None:
            raise job.error
        return job.result

    def _run(self, jobs: Sequence[Job]) -> None:
        self._calls += len(jobs)
        if self.failing is not None:
            for job in jobs:
                job.error = self.failing
            return
        for callback in run_batch(self._engine, jobs) or []:
            callback()
