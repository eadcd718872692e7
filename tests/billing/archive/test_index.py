"""An index lists the members of a file that hold an account's postings, and does not depend on how it was built."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from billing.archive import archiver, index
from billing.archive.archiver import Archiver
from billing.archive.files import ArchiveBroken, members_of, read_manifest
from billing.archive.index import IndexWriter, Span, index_name, make_index, members_with, spans_of
from billing.migrations import MIGRATIONS
from tests.billing.archive.past import DAY_S, PastDesk, play
from tests.fakes.inline_store import open_inline


@pytest.fixture(params=[2, 64])
async def archived(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of several members, whose indexes have one or several blocks."""
    monkeypatch.setattr(archiver, "ROWS_A_MEMBER", 4)
    monkeypatch.setattr(index, "MEMBERS_A_BLOCK", request.param)
    store = open_inline([MIGRATIONS])
    desk = PastDesk(store)
    await play(desk, days=2, calls=15)
    await Archiver(store, tmp_path, detail_days=10).run(desk.time + 30 * DAY_S)
    store.close()
    return tmp_path


async def test_index_lists_members_and_positions_of_an_account(archived: Path) -> None:
    for file in read_manifest(archived):
        due: dict[int, list[Span]] = {}
        for member in members_of(archived, file.name):
            for account in {row.account_number for row in member.rows}:
                rows = [row for row in member.rows if row.account_number == account]
                places = [place for row in rows for place in (row.place, row.refund_place, row.issued_place) if place]
                due.setdefault(account, []).append(Span(member.begin, min(places), max(places)))
        assert len(due) == 2
        assert all(spans_of(archived, file.name, account) == spans for account, spans in due.items())
        assert spans_of(archived, file.name, 999) == []


async def test_index_finds_the_member_of_a_row(archived: Path) -> None:
    for file in read_manifest(archived):
        for member in members_of(archived, file.name):
            for row in member.rows:
                found = members_with(archived, file.name, bytes.fromhex(row.id))
                assert member.begin in found
                assert len(found) <= 2
        assert members_with(archived, file.name, b"\0" * 6) == []


async def test_rebuilt_index_is_identical(archived: Path) -> None:
    for file in read_manifest(archived):
        path = archived / index_name(file.name)
        before = path.read_bytes()
        path.unlink()
        writer = IndexWriter(archived, file.name)
        begin: int | None = 0
        while begin is not None:
            begin = make_index(archived, file.name, writer, begin, 3)
        assert path.read_bytes() == before


async def test_damaged_index_is_refused_or_read_without_another_error(archived: Path) -> None:
    """Method: change a byte of the index or truncate it, a thousand times; no other error is raised."""
    rng, (file, *_rest) = Random(1), read_manifest(archived)
    path = archived / index_name(file.name)
    sound, refused = path.read_bytes(), 0
    for _ in range(1_000):
        content = bytearray(sound[: rng.randint(1, len(sound))])
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            spans_of(archived, file.name, 1)
            members_with(archived, file.name, rng.randbytes(16))
        except ArchiveBroken:
            refused += 1
    assert refused > 500
    path.unlink()
    with pytest.raises(ArchiveBroken):
        spans_of(archived, file.name, 1)
