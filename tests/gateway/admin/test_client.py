"""A command waits for a slow proof as long as it makes progress, and no longer."""

from typing import Any

import orjson
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from gateway.admin.client import AdminAnswer, AdminQuestion, AdminSilent, ask_watched
from gateway.admin.ledger_operations import LedgerOperations

PROOF, PROGRESS = AdminQuestion("POST", "/admin/ledger.verify"), AdminQuestion("POST", "/admin/ledger.progress")
PATIENCE_S = 30.0


class SlowNode:
    """A node whose proof takes a second per row, for a given number of rows, and stops at `stuck_at`."""

    def __init__(self, rows: int, stuck_at: int | None = None) -> None:
        self.rows = rows
        self.done = 0
        self._stuck_at = stuck_at

    async def ask(self, question: AdminQuestion) -> AdminAnswer:
        """Prove, or report the progress."""
        if question == PROGRESS:
            await trio.lowlevel.checkpoint()
            return AdminAnswer(200, b"", orjson.dumps({"rows": self.done}))
        while self.done < self.rows:
            if self.done == self._stuck_at:
                await trio.sleep_forever()
            await trio.sleep(1)
            self.done += 1
        return AdminAnswer(200, b"", b"{}")


async def test_proof_may_outlast_patience_while_rows_advance(autojump_clock: MockClock) -> None:
    said: list[int] = []
    node = SlowNode(rows=600)
    answer = await ask_watched(node.ask, PROOF, PROGRESS, say_rows=said.append, patience_s=PATIENCE_S)
    assert answer.status == 200
    assert trio.current_time() > 10 * PATIENCE_S
    assert said == sorted(set(said))
    assert said[-1] > 500


async def test_proof_without_progress_is_given_up(autojump_clock: MockClock) -> None:
    node = SlowNode(rows=600, stuck_at=50)
    with pytest.raises(trio.TooSlowError):
        await ask_watched(node.ask, PROOF, PROGRESS, say_rows=lambda _rows: None, patience_s=PATIENCE_S)
    assert 50 < trio.current_time() < 50 + PATIENCE_S + 10


async def test_silent_node_is_reported(autojump_clock: MockClock) -> None:
    async def ask(question: AdminQuestion) -> AdminAnswer:
        await trio.sleep(0 if question == PROGRESS else 12)
        raise AdminSilent("it closed the connection")

    with pytest.raises(AdminSilent, match="closed"):
        await ask_watched(ask, PROOF, PROGRESS, say_rows=lambda _rows: None, patience_s=PATIENCE_S)


class SlowStore:
    """A store whose reader has added up some rows of a proof, and continues on request."""

    def __init__(self, rows: int) -> None:
        self.may_end = trio.Event()
        self._rows = rows

    async def read(self, prove: Any) -> list[object]:
        """Record the rows proved so far."""
        prove.__self__._progress(self._rows)
        await self.may_end.wait()
        return []


class Table(dict[str, Any]):
    """The operations by name."""

    def add(self, name: str, operation: Any) -> None:
        """Register an operation."""
        self[name] = operation

    async def run(self, name: str, **arguments: str) -> Any:
        """Run an operation."""
        return await self[name].do(self[name].takes(**arguments))


async def test_running_proof_reports_progress_by_name() -> None:
    store, table, proved = SlowStore(40_000), Table(), []
    LedgerOperations(store, None, now=lambda: 0.0).add_to(table)  # type: ignore[arg-type]  # what they use of them

    async def prove() -> None:
        proved.append(await table.run("ledger.verify", proof="proof_of_ours"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prove)
        await trio.testing.wait_all_tasks_blocked()
        assert await table.run("ledger.progress", proof="proof_of_ours") == {"rows": 40_000}
        assert await table.run("ledger.progress", proof="proof_of_others") == {"rows": None}
        store.may_end.set()
    assert proved == [{"ok": True, "violations": []}]
    assert await table.run("ledger.progress", proof="proof_of_ours") == {"rows": None}
