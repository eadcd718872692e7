"""An export returns the same rows from the archive as from the journal."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from billing.archive import archiver
from billing.archive.archiver import Archiver
from billing.archive.export import ExportMoved, export_page
from billing.archive.files import ArchiveBroken, ArchivedRow
from billing.migrations import MIGRATIONS
from storage.store import Store
from tests.billing.archive.past import DAY_S, PastDesk, play
from tests.fakes.inline_store import open_inline


async def exported(store: Store, folder: Path | None, days: range, *, limit: int) -> list[ArchivedRow]:
    """Return every row of the days, page by page."""
    rows: list[ArchivedRow] = []
    after: str | None = ""
    while after is not None:
        page = await store.read(partial(export_page, folder=folder, days=days, after=after, limit=limit))
        assert page.following is None or len(page.rows) >= limit
        rows += page.rows
        after = page.following
    return rows


@pytest.mark.parametrize("limit", [1, 7, 10, 1_000])
async def test_export_is_identical_before_and_after_archiving(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver, "ROWS_A_MEMBER", 4)
    store = open_inline([MIGRATIONS])
    desk = PastDesk(store)
    first = int(desk.time // DAY_S)
    await play(desk, days=6)
    days = [
        range(first, first + 7),
        range(first + 1, first + 3),
        range(first + 5, first + 6),
        range(first + 90, 99_999),
    ]
    before = [await exported(store, None, one, limit=limit) for one in days]
    assert [len(rows) for rows in before] == [6 * 11 + 2, 22, 11, 0]
    await Archiver(store, tmp_path, detail_days=10).run((first + 14) * DAY_S)
    assert 0 < await store.read(lambda tx: len(tx.all("SELECT id FROM journal"))) < len(before[0])
    assert [await exported(store, tmp_path, one, limit=limit) for one in days] == before
    store.close()


async def test_export_fails_if_rows_are_archived_meanwhile(tmp_path: Path) -> None:
    store = open_inline([MIGRATIONS])
    desk = PastDesk(store)
    first = int(desk.time // DAY_S)
    await play(desk, days=3)
    pages = partial(export_page, folder=tmp_path, days=range(first, first + 9), limit=5)
    page = await store.read(partial(pages, after=""))
    assert page.following is not None
    await Archiver(store, tmp_path, detail_days=10).run(desk.time + 30 * DAY_S)
    with pytest.raises(ExportMoved):
        await store.read(partial(pages, after=page.following))
    with pytest.raises(ArchiveBroken, match="set ledger"):
        await store.read(partial(export_page, folder=None, days=range(first, first + 9), after="", limit=5))
    store.close()
