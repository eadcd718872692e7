"""Reads the rows of a range of days in pages: first from the archive, then from the journal."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from billing.archive.archives import Archive, read_archives, read_rows
from billing.archive.days import first_id
from billing.archive.files import ArchiveBroken, ArchivedRow, members_of
from storage.store import Tx


class ExportPage(NamedTuple):
    """A page of rows, and the `after` argument for the next page, which is None on the last page."""

    rows: list[ArchivedRow]
    following: str | None


class ExportMoved(Exception):
    """Rows moved from the journal to the archive after the first page was read."""


class _Place(NamedTuple):
    """The position where a page begins. `left` is how many rows had left the journal before the first page was read."""

    left: int
    file: int = 0
    offset: int = 0
    after: str = ""

    def text(self) -> str:
        return f"{self.left}.{self.file}.{self.offset}.{self.after}"


def export_page(tx: Tx, folder: Path | None, days: range, *, after: str, limit: int) -> ExportPage:
    """Return `limit` rows or slightly more, starting after the page that returned `after` (empty for the first page).

    Raises:
        ExportMoved: rows were archived since the earlier pages; start from the first page.
        ArchiveBroken: a file cannot be read, or `folder` is None although the store has an archive.
        ValueError: `after` did not come from a page.
    """
    tx.pin("journal")
    archives = [one for one in read_archives(tx) if one.file.day in days and one.left]
    left = sum(one.left for one in archives)
    place = _read_place(after) if after else _Place(left)
    if place.left != left:
        raise ExportMoved("more days were archived during the export: start again")
    rows: list[ArchivedRow] = []
    for at, members in _archived(archives, folder, place):
        if len(rows) >= limit:
            return ExportPage(rows, at.text())
        rows += members
    if len(rows) >= limit:
        return ExportPage(rows, _Place(left, len(archives)).text())
    begin = bytes.fromhex(place.after) or first_id(days.start)
    found = read_rows(tx, begin, first_id(days.stop), limit)
    is_last = len(found) < limit
    return ExportPage(rows + found, None if is_last else _Place(left, len(archives), 0, found[-1].id).text())


def _archived(
    archives: list[Archive], folder: Path | None, place: _Place
) -> Iterator[tuple[_Place, list[ArchivedRow]]]:
    """Yield each member whose rows have left the journal, from `place` on, together with its place."""
    for number, archive in enumerate(archives):
        if number < place.file:
            continue
        if folder is None:
            raise ArchiveBroken("the store has an archive: set ledger.archive to its folder")
        begin = place.offset if number == place.file else 0
        for member in members_of(folder, archive.file.name, begin):
            if member.begin >= archive.left_to:
                break
            yield place._replace(file=number, offset=member.begin), member.rows


def _read_place(text: str) -> _Place:
    left, file, offset, after = text.split(".")
    return _Place(int(left), int(file), int(offset), after)
