"""The months of the journal, where the database keeps each in a partition that goes as a whole.

A month is made ahead of its time, and takes rows in. Once its first day is to be archived, ids of rows that come later
are noted in `journal_late`, so that what the files of its days are to hold is fixed. When all that it holds is in files
whose sums stand in `openings`, it is detached; these sums count from the same commit on. Then it is dropped.

Rows that have no month leave one by one: those from before the first month, those that came for a month that is gone,
and those whose clock stood far ahead.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from billing.archive.days import date_of, first_id, following_month, month_of
from storage.errors import PartitionRefused
from storage.store import Partition, Partitions, PartitionTx, Store, Tx

AHEAD: Final = 2
"""Months that are made before they begin."""

READ_MONTHS: Final = "SELECT first, until, copied_to, detached FROM journal_months ORDER BY first"
ADD_MONTH: Final = "INSERT INTO journal_months (first, until) VALUES (?, ?) ON CONFLICT (first) DO NOTHING"
BEGIN_TO_COPY: Final = "UPDATE journal_months SET copied_to = first WHERE first = ? AND copied_to IS NULL"
SAVE_COPIED: Final = "UPDATE journal_months SET copied_to = ? WHERE first = ?"
DETACH: Final = "UPDATE journal_months SET detached = 1 WHERE first = ?"
FORGET: Final = "DELETE FROM journal_months WHERE first = ?"
FIND_LATE: Final = "SELECT id FROM journal_late WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"


class Month(NamedTuple):
    """A month with a partition; days since 1970."""

    first: int
    until: int
    copied_to: int | None
    """The first day of which nothing was copied into files; None as long as no day of it is to be archived."""
    is_detached: bool

    @property
    def part(self) -> Partition:
        """Its partition."""
        name = f"journal_{date_of(self.first):%Y_%m}"
        return Partition("journal", name, first_id(self.first), first_id(self.until))


class Stretch(NamedTuple):
    """Days from one on and before another: of a month, or of rows that have none."""

    begin: int
    end: int
    month: Month | None


def read_months(tx: Tx) -> list[Month]:
    """The months, in order; those that are detached too."""
    return [Month(first, until, copied_to, bool(detached)) for first, until, copied_to, detached in tx.all(READ_MONTHS)]


def stretches(months: Sequence[Month], *, end: int, today: int) -> Iterator[Stretch]:
    """The days before `end`, in order, but for those that are in files and stand in their month still.

    Those of a month wait for its end too, since rows of one that is under way would all be late.
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
    """Make those that are missing, up to some ahead of the instant `now`; gives the names of those that cannot be made.

    Raises:
        StorageError: the store is away, or the journal is used without an end; the next call goes on there.
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
    """Note the ids of its rows from now on: all that came before can be read now."""
    if tx.run(BEGIN_TO_COPY, (month.first,)):
        tx.note_inserts(month.part)


async def leave(partitions: Partitions, month: Month) -> bool:
    """Let a month go whose rows are in files, and summed up; whether it did, and no further row had come.

    Raises:
        StoreContended: the journal is being read without an end.
    """
    if not month.is_detached and not await partitions.change(partial(_detach, month)):
        return False
    await partitions.change(partial(_drop, month))
    return True


def find_late(tx: Tx, month: Month) -> bytes | None:
    """The first id of those that came into the month once its days were being archived."""
    row = tx.one(FIND_LATE, (month.part.begin, month.part.end))
    return None if row is None else row[0]


def months_from(first: int, now: float) -> Iterator[Month]:
    """Those that are to be, from that one on."""
    last = month_of(now)
    for _ in range(AHEAD):
        last = following_month(last)
    while first <= last:
        until = following_month(first)
        yield Month(first, until, None, is_detached=False)
        first = until


def _missing(tx: Tx, now: float) -> list[Month]:
    """Months that are to be, without any before the first that was ever made: all before it lie together."""
    known = read_months(tx)
    first = max(month_of(now), known[0].first)
    return [month for month in months_from(first, now) if month.first not in {one.first for one in known}]


def make(month: Month, tx: PartitionTx) -> None:
    """Make its partition, unless somebody else has. Raises PartitionRefused."""
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
