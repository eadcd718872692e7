"""The store's records of archive files, and the form in which files store journal rows."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from billing.archive.days import first_id
from billing.archive.files import ArchivedRow, ArchiveFile
from storage.store import Tx, Value

_ROW: Final = """
SELECT journal.id, kind, accounts.id, journal.account, keys.id, endpoints.platform, endpoints.path, taken, refunded,
    issued, taken_at, taken_at + closed_after, balance_after, balance_closed, journal.place, refund_place,
    issued_place, notes.text
FROM journal JOIN accounts ON accounts.number = journal.account LEFT JOIN keys ON keys.number = journal.key
LEFT JOIN endpoints ON endpoints.id = journal.endpoint LEFT JOIN notes ON notes.id = journal.note
"""
_BETWEEN: Final = "WHERE journal.id > ? AND journal.id < ? ORDER BY journal.id LIMIT ?"
READ_ROWS: Final = f"{_ROW} {_BETWEEN}"
READ_LATE: Final = f"{_ROW} JOIN journal_late ON journal_late.id = journal.id {_BETWEEN}"
# Rows that arrived late for their month are archived after all other rows of the month.
NOT_LATE: Final = "NOT EXISTS (SELECT 1 FROM journal_late WHERE journal_late.id = journal.id)"
READ_DUE: Final = f"{_ROW} {_BETWEEN.replace('ORDER', f'AND {NOT_LATE} ORDER')}"
READ_ARCHIVES: Final = """
SELECT number, day, name, row_count, digest, chain, summed, summed_to, EXISTS (
    SELECT 1 FROM journal_months WHERE detached = 0 AND archives.day >= first AND archives.day < until
) FROM archives ORDER BY number
"""
ADD_ARCHIVE: Final = """
INSERT INTO archives (number, day, name, row_count, digest, chain, until_id, summed, summed_to)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)
"""


class Archive(NamedTuple):
    """The store's record of an archive file, including how much of the file is summed up in `openings`."""

    file: ArchiveFile
    summed: int
    """The number of rows that are summed up."""
    summed_to: int
    """The offset in the file after the last member that is summed up."""
    is_standing: bool
    """Whether all rows of the file are still in the journal. If so, they are removed when their month is dropped."""

    @property
    def left(self) -> int:
        """The number of rows that have left the journal."""
        return 0 if self.is_standing else self.summed

    @property
    def left_to(self) -> int:
        """The offset after the last member whose rows have left the journal."""
        return 0 if self.is_standing else self.summed_to


def read_archives(tx: Tx) -> list[Archive]:
    """Return every file of the archive, in order."""
    return [Archive(ArchiveFile(*row[:6]), row[6], row[7], bool(row[8])) for row in tx.all(READ_ARCHIVES)]


def add_archive(tx: Tx, file: ArchiveFile) -> None:
    """Record a durable file. After the commit, the database allows deleting rows of the file's day."""
    values: Sequence[Value] = (file.number, file.day, file.name, file.rows, file.digest, file.chain)
    tx.run(ADD_ARCHIVE, (*values, first_id(file.day + 1)))


def read_rows(tx: Tx, after: bytes, end: bytes, limit: int, *, sql: str = READ_ROWS) -> list[ArchivedRow]:
    """Return rows of the journal with ids between `after` and `end` (both exclusive), in id order."""
    return [ArchivedRow(row[0].hex(), *row[1:]) for row in tx.all(sql, (after, end, limit))]
