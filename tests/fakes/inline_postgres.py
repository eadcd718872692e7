"""A store on a PostgreSQL database that uses no threads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from storage.migrations import MigrationSet
from storage.postgres.link import open_link
from storage.postgres.membership import WriterConnection, new_id, prepare_writer
from storage.postgres.partitions import PostgresPartitions
from storage.postgres.schema import migrate
from storage.postgres.store import PostgresReaders
from storage.postgres.transaction import PostgresEngine, run_patiently
from storage.store import Tx
from storage.transactions import Callback, Job
from tests.fakes.inline_calls import FailingCommits, InlineCalls

T = TypeVar("T")


class InlinePostgres(InlineCalls):
    """A store on PostgreSQL. `migrations` are applied when it is opened."""

    _engine: PostgresEngine

    def __init__(self, url: str, migrations: Sequence[MigrationSet]) -> None:
        id_ = new_id()
        self.partitions = PostgresPartitions(url)
        link = open_link(url, name=id_)
        migrate(link, migrations)
        prepare_writer(link)
        self._membership = WriterConnection(url, link, id_=id_, publish=lambda why: None)
        self._readers = PostgresReaders(url)
        self._engine = _Engine(self, self._membership, lambda doubts: None)

    def look(self, fn: Callable[[Tx], T]) -> T:
        return self._readers.run(fn)

    def close(self) -> None:
        self._readers.close()
        self._membership.close()

    def run_batch(self, jobs: Sequence[Job]) -> list[Callback] | None:
        return run_patiently(self._engine, jobs)


class _Engine(FailingCommits, PostgresEngine):
    """PostgreSQL's engine, whose commits can be made to fail."""
