"""The ledger's commands: archive, verify and export days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
import trio

from gateway.node.stores import MIGRATIONS
from storage.opening import open_store
from tests.billing.archive.past import PastDesk, play
from tests.billing.desk import EPOCH
from tests.processes.commands import Commands
from tests.processes.place import Place

FIRST = datetime.fromtimestamp(EPOCH, UTC).date()


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A store with three old days, and an archive."""
    place = Place(tmp_path, commands)
    place.configure(ledger={"archive": str(tmp_path / "archive"), "detail_days": 7})

    async def fill() -> None:
        async with open_store(place.store_url, MIGRATIONS) as store:
            await play(PastDesk(store), days=3)

    place.operate("account", "list")  # creates the folder
    trio.run(fill)
    return place


def export(place: Place, days: int = 9) -> list[object]:
    last = FIRST + timedelta(days=days - 1)
    exported = place.operate("ledger", "export", "--from", FIRST.isoformat(), "--to", last.isoformat())
    assert exported.exit_code == 0, exported.err
    return [orjson.loads(line) for line in exported.out.splitlines()]


def test_days_are_archived_verified_and_exported(place: Place) -> None:
    before = export(place)
    assert (len(before), len(export(place, days=1))) == (3 * 11 + 2, 13)
    assert place.json_of("ledger", "archive") == {"files": 3, "rows": len(before)}
    assert place.json_of("ledger", "archive") == {"files": 0, "rows": 0}
    assert export(place) == before
    assert place.json_of("ledger", "verify", "--archives") == {"ok": True, "violations": []}
    assert place.operate("ledger", "verify", "--archives").out == "the ledger and its archive are consistent\n"
    file = min((place.folder / "archive").glob("journal-*.gz"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    said = place.operate("ledger", "verify", "--archives")
    assert (said.exit_code, said.out) == (1, "")
    assert file.name in said.err
    assert place.json_of("ledger", "verify")["ok"]


def test_running_node_verifies_archive_and_finds_index_fault(place: Place) -> None:
    place.json_of("ledger", "archive")
    with place.serve("--sandbox"):
        assert place.json_of("ledger", "verify", "--archives")["ok"]
        index = min((place.folder / "archive").glob("*.index"))
        content = bytearray(index.read_bytes())
        content[-1] ^= 1
        index.write_bytes(content)
        assert index.name in place.operate("ledger", "verify", "--archives").refused(1)
        index.unlink()
        place.json_of("ledger", "archive")
        assert place.json_of("ledger", "verify", "--archives")["ok"]


def test_impossible_archive_operation_is_rejected(place: Place) -> None:
    place.json_of("ledger", "archive")
    place.configure()
    for arguments in (("archive",), ("verify", "--archives")):
        assert "no archive is configured" in place.operate("ledger", *arguments).refused(1)
    days = ("--from", FIRST.isoformat(), "--to", FIRST.isoformat())
    assert "ledger.archive" in place.operate("ledger", "export", *days).refused(1)
    backwards = place.operate("ledger", "export", "--from", "2026-01-02", "--to", "2026-01-01")
    assert (backwards.exit_code, "--to" in backwards.err) == (2, True)
