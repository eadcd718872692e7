"""As `InlineStore`, on a PostgreSQL database: each call is done at once, without a thread."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from storage.migrations import MigrationSet
from storage.postgres_link import open_link
from storage.postgres_presence import Presence, new_id, prepare_writer
from storage.postgres_schema import migrate
from storage.postgres_transaction import PostgresEngine, run_patiently
from storage.store import BatchHandler, Req, Res, Tx
from storage.transactions import Job

T = TypeVar("T")


class InlinePostgres:
    """The calls of `InlineStore` that model tests make; reading is writing here."""

    def __init__(self, url: str, migrations: Sequence[MigrationSet]) -> None:
        id_ = new_id()
        link = open_link(url, name=id_)
        migrate(link, migrations)
        prepare_writer(link)
        self._presence = Presence(url, link, id_=id_, tell=lambda why: None)
        self._engine = PostgresEngine(self._presence, lambda doubts: None)

    def close(self) -> None:
        self._presence.close()

    def together(self, handler: BatchHandler[Req, Res], requests: Sequence[Req]) -> list[Res | Exception]:
        """The outcomes of requests that wait for the same commit."""
        jobs = [Job(handler=handler, request=request) for request in requests]  # type: ignore[arg-type]
        self._run(jobs)
        return [job.error or job.result for job in jobs]  # type: ignore[misc]

    async def write(self, fn: Callable[[Tx], T]) -> T:
        await trio.lowlevel.checkpoint()
        return self._finish(Job(fn=fn))  # type: ignore[return-value]

    async def read(self, fn: Callable[[Tx], T]) -> T:
        return await self.write(fn)

    async def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Res:
        await trio.lowlevel.checkpoint()
        return self._finish(Job(handler=handler, request=request))  # type: ignore[arg-type, return-value]

    def _finish(self, job: Job) -> object:
        self._run([job])
        if job.error is not None:
            raise job.error
        return job.result

    def _run(self, jobs: Sequence[Job]) -> None:
        for callback in run_patiently(self._engine, jobs) or []:
            callback()
