"""The proof of the archive: its files are those of the store's chain, and add up to the sums that stayed behind."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from billing.archive.archiver import Archive, Opening, openings_of, read_archives
from billing.archive.files import ArchiveBroken, chained, digest_of, members_of, read_manifest
from billing.ledger.chain import MODULUS
from billing.ledger.verification import Violation
from storage.store import Tx

CHAIN: Final = "each file of the archive is chained to the one before it"
DIGESTS: Final = "files of the archive are as they were written"
SUMS: Final = "the archive's rows add up to what stayed behind for them"

OPENINGS: Final = "SELECT account, issued, spent, postings, chain FROM openings WHERE day = ?"
NEXT_DAY: Final = "SELECT MIN(day) FROM archives WHERE day > ?"


def verify_chain(tx: Tx, folder: Path) -> list[Violation]:
    """Every place where the store's chain, or the manifest in the folder, is not what was written."""
    archives, before, found = read_archives(tx), "", []
    for archive in archives:
        file = archive.file
        if chained(before, file) != file:
            found.append(Violation(CHAIN, file.name, "its line in the store does not follow from the one before it"))
        before = file.chain
    try:
        there = read_manifest(folder)
    except ArchiveBroken as exc:
        return [*found, Violation(CHAIN, str(folder), str(exc))]
    if there != [archive.file for archive in archives]:
        found.append(Violation(CHAIN, str(folder), "the manifest is not that of the store's files"))
    return found


def next_day(tx: Tx, after: int) -> int | None:
    """The next day that has files in the archive."""
    ((day,),) = tx.all(NEXT_DAY, (after,))
    return None if day is None else int(day)


def verify_day(tx: Tx, folder: Path, day: int) -> list[Violation]:
    """Every place where a day's files are not what was written, or not what its openings say."""
    archives = [archive for archive in read_archives(tx) if archive.file.day == day]
    openings = {row[0]: Opening(*row[1:]) for row in tx.all(OPENINGS, (day,))}
    try:
        return [*_changed(archives, folder), *_compare(day, _sum_up(archives, folder), openings)]
    except ArchiveBroken as exc:
        return [Violation(DIGESTS, f"day {day}", str(exc))]


def _changed(archives: Sequence[Archive], folder: Path) -> Iterator[Violation]:
    for archive in archives:
        if digest_of(folder, archive.file.name) != archive.file.digest:
            yield Violation(DIGESTS, archive.file.name, "the file has another digest than when it was written")


def _sum_up(archives: Sequence[Archive], folder: Path) -> dict[int, Opening]:
    """The sums of what has left the journal."""
    sums: dict[int, Opening] = defaultdict(lambda: Opening(0, 0, 0, 0))
    for archive in archives:
        for member in members_of(folder, archive.file.name):
            if member.begin >= archive.removed_to:
                break
            for account, one in openings_of(member.rows).items():
                sums[account] = _added(sums[account], one)
    return sums


def _added(one: Opening, other: Opening) -> Opening:
    chain = (one.chain + other.chain) % MODULUS
    return Opening(one.issued + other.issued, one.spent + other.spent, one.postings + other.postings, chain)


def _compare(day: int, sums: dict[int, Opening], openings: dict[int, Opening]) -> Iterator[Violation]:
    for account in sorted(sums.keys() | openings.keys()):
        if sums.get(account) != openings.get(account):
            text = f"its files give {sums.get(account)}, and {openings.get(account)} stayed behind"
            yield Violation(SUMS, f"day {day}, account {account}", text)
