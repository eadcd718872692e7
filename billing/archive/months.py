"""The months of the journal, on databases that store each month in a partition and drop the whole partition at once.

The partition of a month is created before the month begins. Just before the first day of a month is archived, the store
starts to record the ids of later inserts in `journal_late`, so that the day files contain a fixed set of rows. When all
rows are in files and summed up in `openings`, the partition is detached. The same commit makes the sums effective.
Finally the partition is dropped.

Rows outside any month are deleted one by one: rows older than the first month, rows that arrived after their month was
dropped, and rows from a clock that was far ahead.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from billing.archive.days import date_of, first_id, following_month, month_of
from storage.errors import PartitionRefused
from storage.store import Partition, Partitions, PartitionTx, Store, Tx

AHEAD: Final = 2
"""How many months to create before they begin."""

READ_MONTHS: Final = "SELECT first, until, copied_to, detached FROM journal_months ORDER BY first"
ADD_MONTH: Final = "INSERT INTO journal_months (first, until) VALUES (?, ?) ON CONFLICT (first) DO NOTHING"
BEGIN_TO_COPY: Final = "UPDATE journal_months SET copied_to = first WHERE first = ? AND copied_to IS NULL"
SAVE_COPIED: Final = "UPDATE journal_months SET copied_to = ? WHERE first = ?"
DETACH: Final = "UPDATE journal_months SET detached = 1 WHERE first = ?"
FORGET: Final = "DELETE FROM journal_months WHERE first = ?"
FIND_LATE: Final = "SELECT id FROM journal_late WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"


class Month(NamedTuple):
    """A month with a partition, in days since 1970."""

    first: int
    until: int
    copied_to: int | None
    """The first day that has not been copied into files; None until the archiving of the month begins."""
    is_detached: bool

    @property
    def part(self) -> Partition:
        """The month's partition."""
        name = f"journal_{date_of(self.first):%Y_%m}"
        return Partition("journal", name, first_id(self.first), first_id(self.until))


class Stretch(NamedTuple):
    """A range of days, including `begin` and excluding `end`, that is in one month or outside all months."""

    begin: int
    end: int
    month: Month | None


def read_months(tx: Tx) -> list[Month]:
    """Return the months in order, including detached ones."""
    return [Month(first, until, copied_to, bool(detached)) for first, until, copied_to, detached in tx.all(READ_MONTHS)]


def stretches(months: Sequence[Month], *, end: int, today: int) -> Iterator[Stretch]:
    """Yield the days before `end` in order, except archived days whose rows are still in their month's partition.

    The days of a month are yielded only after the month is over. Otherwise every new row of the month would be a late
    row.
    """
    begin = 0
    for month in months:
        if month.is_detached:
            continue
        yield Stretch(begin, min(month.first, end), None)
        if month.until < today:
            yield Stretch(month.first if month.copied_to is None else month.copied_to, min(month.until, end), month)
        begin = month.until
    yield Stretch(begin, end, None)


async def make_months(store: Store, now: float) -> list[str]:
    """Create missing months, up to `AHEAD` months after `now`. Return the names of months that the database refused.

    Raises:
        StorageError: the store is unavailable, or the journal is in use for too long. The next call continues where
            this one stopped.
    """
    if store.partitions is None:
        await trio.lowlevel.checkpoint()
        return []
    refused = []
    for month in await store.read(partial(_missing, now=now)):
        try:
            await store.partitions.change(partial(make, month))
        except PartitionRefused:
            refused.append(month.part.name)
    return refused


def begin_to_copy(month: Month, tx: PartitionTx) -> None:
    """Start recording the ids of rows that are inserted into the month.

    When this returns, a reader sees all rows that were inserted earlier.
    """
    if tx.run(BEGIN_TO_COPY, (month.first,)):
        tx.note_inserts(month.part)


async def leave(partitions: Partitions, month: Month) -> bool:
    """Drop a month whose rows are in files and summed up. Return False if a late row has arrived.

    Raises:
        StoreContended: a long read blocks the journal.
    """
    if not month.is_detached and not await partitions.change(partial(_detach, month)):
        return False
    await partitions.change(partial(_drop, month))
    return True


def find_late(tx: Tx, month: Month) -> bytes | None:
    """Return the first id that was inserted into the month after its archiving began, or None."""
    row = tx.one(FIND_LATE, (month.part.begin, month.part.end))
    return None if row is None else row[0]


def months_from(first: int, now: float) -> Iterator[Month]:
    """Yield the months that should exist, from `first` on."""
    last = month_of(now)
    for _ in range(AHEAD):
        last = following_month(last)
    while first <= last:
        until = following_month(first)
        yield Month(first, until, None, is_detached=False)
        first = until


def _missing(tx: Tx, now: float) -> list[Month]:
    """Return the missing months after the first known one. All rows before the first month share one partition."""
    known = read_months(tx)
    first = max(month_of(now), known[0].first)
    return [month for month in months_from(first, now) if month.first not in {one.first for one in known}]


def make(month: Month, tx: PartitionTx) -> None:
    """Create the month's partition unless another node has done so. Raises PartitionRefused."""
    if tx.run(ADD_MONTH, (month.first, month.until)):
        tx.add_partition(month.part)


def _detach(month: Month, tx: PartitionTx) -> bool:
    tx.close_table(month.part.table)
    if find_late(tx, month) is not None:
        return False
    tx.detach_partition(month.part)
    tx.run(DETACH, (month.first,))
    return True


def _drop(month: Month, tx: PartitionTx) -> None:
    tx.drop_partition(month.part)
    tx.run(FORGET, (month.first,))
