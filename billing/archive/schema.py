"""The tables of the archive: its files, the sums of their rows, and the months of the journal."""

from typing import Final

from billing.archive.days import first_id, following_month, month_of
from billing.archive.months import make, months_from
from storage.migrations import Schema

# The sums of an account's archived rows, which are needed to verify the account.
OPENINGS = """
CREATE TABLE openings (
    account INTEGER NOT NULL,
    day INTEGER NOT NULL,
    issued BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    postings BIGINT NOT NULL,
    chain BIGINT NOT NULL,
    PRIMARY KEY (account, day)
) {clustered}
"""
# The files of the archive (see `billing.archive.files`), and how much of each has left the journal.
ARCHIVES = """
CREATE TABLE archives (
    number BIGINT NOT NULL PRIMARY KEY,
    day INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,
    row_count BIGINT NOT NULL CHECK (row_count > 0),
    digest TEXT NOT NULL,
    chain TEXT NOT NULL,
    until_id BYTEA NOT NULL,
    removed BIGINT NOT NULL CHECK (removed BETWEEN 0 AND row_count),
    removed_to BIGINT NOT NULL
)
"""
# The months of the journal that have a partition, on databases with partitions, in days since 1970. While a month is
# archived, days below `copied_to` are in files. A detached month is no longer part of the journal.
MONTHS = """
CREATE TABLE journal_months (
    first INTEGER NOT NULL PRIMARY KEY,
    until INTEGER NOT NULL CHECK (until > first),
    copied_to INTEGER CHECK (copied_to BETWEEN first AND until),
    detached INTEGER NOT NULL DEFAULT 0 CHECK (detached IN (0, 1))
)
"""
# Rows that were inserted into a month after its archiving began. The month's day files do not contain them.
LATE = "CREATE TABLE journal_late (id BYTEA NOT NULL PRIMARY KEY) {clustered}"
# The range of places of an account's postings on a day, used to find statement lines in the archive.
PLACES = (
    "ALTER TABLE openings ADD COLUMN low BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE openings ADD COLUMN high BIGINT NOT NULL DEFAULT 9223372036854775807",
)
NOW_AND_NEW: Final = "SELECT {now}, NOT EXISTS (SELECT 1 FROM journal)"


def m0008_archives(schema: Schema) -> None:
    """Add the table of archive files, and allow deleting journal rows once a file contains their day."""
    schema.execute(ARCHIVES)
    schema.execute("CREATE INDEX archives_by_end ON archives (until_id)")  # used to check whether a row may be deleted
    schema.execute("CREATE INDEX openings_by_day ON openings (day)")  # to compare a day with its archive files
    schema.allow_deletes("journal", "EXISTS (SELECT 1 FROM archives WHERE archives.until_id > OLD.id)")


def m0010_months(schema: Schema) -> None:
    """Add the months of the journal. A file can now be summed up before its rows leave the journal."""
    schema.execute(MONTHS)
    schema.execute(LATE)
    schema.execute("ALTER TABLE archives RENAME COLUMN removed TO summed")
    schema.execute("ALTER TABLE archives RENAME COLUMN removed_to TO summed_to")
    for statement in PLACES:
        schema.execute(statement)


def m0011_partitions(schema: Schema) -> None:
    """Partition the journal by month, on databases that support it. Existing rows stay in place.

    Partitions start with the current month if the journal is empty, otherwise with the next month.
    """
    ((now, is_new),) = schema.tx.all(NOW_AND_NEW)
    begin = month_of(now) if is_new else following_month(month_of(now))
    tx = schema.partition("journal", below=first_id(begin), late="journal_late")
    if tx is not None:
        for month in months_from(begin, now):
            make(month, tx)
