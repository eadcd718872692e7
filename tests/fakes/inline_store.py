"""A store on an in-memory database that does each call at once, without a thread: for model tests and virtual time."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from storage.migrations import MigrationSet
from storage.sqlite_files import migrate
from storage.sqlite_transaction import SqliteEngine, SqliteTx
from storage.store import BatchHandler, Req, Res, StoreStatistics, Tx
from storage.transactions import Job, run_batch

T = TypeVar("T")


class _Engine(SqliteEngine):
    """Commits, unless it is to fail: then what the transaction did is rolled back."""

    failing: Exception | None = None

    def commit(self) -> None:
        if self.failing is not None:
            raise self.failing
        super().commit()


class InlineStore:
    """As `storage.store.Store`, for one task at a time."""

    def __init__(self, migrations: Sequence[MigrationSet]) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.execute("PRAGMA foreign_keys = ON")
        migrate(self.connection, migrations)
        self._engine = _Engine(self.connection)
        self._calls = 0

    def close(self) -> None:
        self.connection.close()

    @property
    def failing(self) -> Exception | None:
        """While it is set, every commit fails with it."""
        return self._engine.failing

    @failing.setter
    def failing(self, error: Exception | None) -> None:
        self._engine.failing = error

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
        for callback in run_batch(self._engine, jobs) or []:
            callback()
