"""A transaction recalls a value that matches the current rows, or nothing."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.sqlite.engine import SqliteEngine
from storage.sqlite.transaction import SqliteTx, connect
from storage.store import Tx
from storage.transactions import Job, run_batch

READ = "SELECT number FROM numbers"
WRITE = "UPDATE numbers SET number = number + 1"


class Known:
    """What a memo knows: the number in the only row, or None in a new store."""

    def __init__(self) -> None:
        self.number: int | None = None


class Writing:
    """An engine on a file, together with another program's connection."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.connection = connect(path)
        self.connection.execute("CREATE TABLE numbers (number BIGINT CHECK (number < 1000))")
        self.connection.execute("INSERT INTO numbers VALUES (0)")
        self.other = sqlite3.connect(path, isolation_level=None)
        self.engine = SqliteEngine(self.connection)
        self.recalled = 0

    def run(self, *calls: Callable[[Tx], object]) -> None:
        """Run these calls in one transaction."""
        run_batch(self.engine, [Job(fn=call) for call in calls])

    def add(self, tx: Tx) -> None:
        """Add one to the number, based on the recalled value, and keep it."""
        known = tx.recall(Known)
        assert known is not None
        ((number,),) = tx.all(READ)
        if known.number is not None:
            assert known.number == number
            self.recalled += 1
        tx.run("UPDATE numbers SET number = ?", (number + 1,))
        known.number = number + 1
        tx.remember(known)

    def add_and_fail(self, tx: Tx) -> None:
        """Like `add`, but rolled back."""
        self.add(tx)
        raise LookupError

    def write(self, tx: Tx) -> None:
        """Change the number with another statement."""
        tx.run(WRITE)

    def write_elsewhere(self) -> None:
        """Change the number from another program."""
        self.other.execute(WRITE)

    def break_commit(self) -> None:
        """Run a transaction that keeps a value and fails at its commit."""
        commit = self.engine.commit
        self.engine.commit = lambda: (_ for _ in ()).throw(sqlite3.OperationalError("disk"))  # type: ignore[method-assign]
        try:
            self.run(self.add)
        finally:
            self.engine.commit = commit  # type: ignore[method-assign]

    def close(self) -> None:
        self.connection.close()
        self.other.close()


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    with closing(Writing(tmp_path / "memo.db")) as one:
        yield one


def test_remembered_value_is_recalled_until_another_write(writing: Writing) -> None:
    for _ in range(5):
        writing.run(writing.add)
    writing.run(writing.add, writing.add)
    assert writing.recalled == 6


@pytest.mark.parametrize("between", ["write", "write_elsewhere", "add_and_fail", "break_commit"])
def test_any_other_write_invalidates_the_value(writing: Writing, between: str) -> None:
    writing.run(writing.add)
    if between in {"write", "add_and_fail"}:
        writing.run(getattr(writing, between))
    else:
        getattr(writing, between)()
    before = writing.recalled
    writing.run(writing.add)
    assert writing.recalled == before
    writing.run(writing.add)
    assert writing.recalled == before + 1


def test_reader_does_not_keep_values(writing: Writing) -> None:
    tx = SqliteTx(writing.other.cursor())
    assert tx.recall(Known) is None
    tx.remember(Known())


STEPS = ("add", "write", "add_and_fail")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.lists(st.sampled_from(STEPS), min_size=1, max_size=3) | st.sampled_from(["write_elsewhere", "break_commit"]),
        max_size=12,
    )
)
def test_stale_value_is_never_recalled_after_any_operations(tmp_path: Path, steps: list[list[str] | str]) -> None:
    """Method: `add` compares the recalled value with the row."""
    with closing(Writing(tmp_path / "any.db")) as writing:
        for step in steps:
            if isinstance(step, str):
                getattr(writing, step)()
            else:
                jobs = [Job(fn=getattr(writing, name)) for name in step]
                run_batch(writing.engine, jobs)
                assert [type(job.error) for job in jobs if job.error is not None] == [
                    LookupError for name in step if name == "add_and_fail"
                ]
