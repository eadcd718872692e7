"""Group commit on an engine that fails on demand."""

import pytest

from storage.errors import StoreUnavailable
from storage.transactions import Callback, Job, run_batch
from tests.storage.tables import add_note


class DiskGone(Exception):
    pass


class BrittleEngine:
    """An engine without a database that records each step and fails at a chosen one."""

    def __init__(self, fails_at: str) -> None:
        self.steps: list[str] = []
        self._fails_at = fails_at

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name == self._fails_at:
            raise DiskGone(name)

    def begin(self) -> None:
        self._step("begin")

    def commit(self) -> None:
        self._step("commit")

    def rollback(self) -> None:
        self.steps.append("rollback")

    def mark(self) -> None:
        self._step("mark")

    def settle(self) -> None:
        pass

    def keep(self) -> None:
        self._step("keep")

    def undo(self) -> bool:
        self._step("undo")
        return self._fails_at != "dropped"

    def transaction(self, callbacks: list[Callback]) -> "BrittleTx":
        return BrittleTx(self, callbacks)

    def translate(self, error: Exception) -> Exception:
        return StoreUnavailable("gone") if isinstance(error, DiskGone) else error


class BrittleTx:
    def __init__(self, engine: BrittleEngine, callbacks: list[Callback]) -> None:
        self._engine = engine
        self._callbacks = callbacks

    def run(self, sql: str, params: object = ()) -> int:
        self._engine._step("run")
        self._callbacks.append(lambda: None)
        return 1


@pytest.mark.parametrize("step", ["begin", "mark", "keep", "commit"])
def test_failure_at_any_step_reaches_every_caller(step: str) -> None:
    engine = BrittleEngine(step)
    jobs = [Job(fn=add_note("a")), Job(fn=add_note("b"))]
    assert run_batch(engine, jobs) is None
    assert [type(job.error) for job in jobs] == [StoreUnavailable] * 2
    assert [job.result for job in jobs] == [None, None]
    assert jobs[0].error is not jobs[1].error
    assert engine.steps[-1] == "rollback"


@pytest.mark.parametrize("step", ["undo", "dropped"])
def test_batch_whose_rollback_fails_is_lost_as_a_whole(step: str) -> None:
    def breaks(tx: object) -> None:
        raise LookupError

    engine = BrittleEngine(step)
    jobs = [Job(fn=add_note("a")), Job(fn=breaks)]
    assert run_batch(engine, jobs) is None
    assert [type(job.error) for job in jobs] == [StoreUnavailable] * 2


def test_committed_batch_returns_its_callbacks() -> None:
    engine = BrittleEngine("nowhere")
    callbacks = run_batch(engine, [Job(fn=add_note("a")), Job(fn=add_note("b"))])
    assert callbacks is not None
    assert len(callbacks) == 2
    assert engine.steps == ["begin", "mark", "run", "keep", "mark", "run", "keep", "commit"]


def test_handler_with_too_few_results_fails_its_requests() -> None:
    engine = BrittleEngine("nowhere")
    jobs = [Job(handler=lambda tx, requests: [1], request=number) for number in range(2)]
    jobs[1].handler = jobs[0].handler
    assert run_batch(engine, jobs) == []
    assert all(job.error is not None for job in jobs)
