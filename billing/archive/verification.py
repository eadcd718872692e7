"""Verifies that the archive's files match the chain in the store and add up to the sums in the store."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from billing.archive.archives import Archive, read_archives
from billing.archive.files import ArchiveBroken, Member, chained, digest_of, members_of, read_manifest
from billing.archive.index import IndexCheck, index_name
from billing.archive.openings import Opening, openings_of
from billing.ledger.chain import MODULUS
from billing.ledger.rules import Violation
from billing.ledger.verification import unheard
from storage.store import Tx

CHAIN: Final = "each file of the archive is chained to the previous file"
DIGESTS: Final = "files of the archive are unmodified"
INDEXED: Final = "indexes of the archive's files match their rows"
SUMS: Final = "the archive's rows add up to the sums in the store"

OPENINGS: Final = "SELECT account, issued, spent, postings, chain FROM openings WHERE day = ?"
NEXT_DAY: Final = "SELECT MIN(day) FROM archives WHERE day > ?"


def verify_chain(tx: Tx, folder: Path) -> list[Violation]:
    """Return every violation in the store's chain of files and in the folder's manifest."""
    archives, before, found = read_archives(tx), "", []
    for archive in archives:
        file = archive.file
        if chained(before, file) != file:
            found.append(Violation(CHAIN, file.name, "its chain in the store does not follow from the previous file"))
        before = file.chain
    try:
        there = read_manifest(folder)
    except ArchiveBroken as exc:
        return [*found, Violation(CHAIN, str(folder), str(exc))]
    if there != [archive.file for archive in archives]:
        found.append(Violation(CHAIN, str(folder), "the manifest does not match the store's files"))
    return found


def next_day(tx: Tx, after: int) -> int | None:
    """Return the next day that has files in the archive, or None."""
    ((day,),) = tx.all(NEXT_DAY, (after,))
    return None if day is None else int(day)


def verify_day(tx: Tx, folder: Path, day: int, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Return every mismatch between a day's files and their digests, indexes and openings.

    `progress` is called on the same thread with the number of rows read so far. A missing index is not a violation,
    because the next archive run creates it.
    """
    archives = [archive for archive in read_archives(tx) if archive.file.day == day]
    openings = {row[0]: Opening(*row[1:]) for row in tx.all(OPENINGS, (day,))}
    sums: dict[int, Opening] = defaultdict(lambda: Opening(0, 0, 0, 0))
    found, rows = list[Violation](), 0
    try:
        found += _changed(archives, folder)
        for archive in archives:
            for member in _checked(archive, folder, found):
                rows += len(member.rows)
                progress(rows)
                if member.begin < archive.summed_to:
                    _add(sums, member)
    except ArchiveBroken as exc:
        return [*found, Violation(DIGESTS, f"day {day}", str(exc))]
    return [*found, *_compare(day, sums, openings)]


def _changed(archives: Sequence[Archive], folder: Path) -> Iterator[Violation]:
    for archive in archives:
        if digest_of(folder, archive.file.name) != archive.file.digest:
            yield Violation(DIGESTS, archive.file.name, "the file's digest differs from the recorded one")


def _checked(archive: Archive, folder: Path, found: list[Violation]) -> Iterator[Member]:
    """Yield the members of a file, and append violations of its index to `found`."""
    name = archive.file.name
    try:
        check = IndexCheck(folder, name)
    except FileNotFoundError:
        yield from members_of(folder, name)
        return
    with check:
        for member in members_of(folder, name):
            check.add(member)
            yield member
        if not check.is_sound():
            text = "the index does not match the file: delete the index, and `sluice ledger archive` rebuilds it"
            found.append(Violation(INDEXED, index_name(name), text))


def _add(sums: dict[int, Opening], member: Member) -> None:
    for account, one in openings_of(member.rows).items():
        sums[account] = _added(sums[account], one)


def _added(one: Opening, other: Opening) -> Opening:
    chain = (one.chain + other.chain) % MODULUS
    return Opening(one.issued + other.issued, one.spent + other.spent, one.postings + other.postings, chain)


def _compare(day: int, sums: dict[int, Opening], openings: dict[int, Opening]) -> Iterator[Violation]:
    for account in sorted(sums.keys() | openings.keys()):
        if sums.get(account) != openings.get(account):
            text = f"its files add up to {sums.get(account)}, but the store has {openings.get(account)}"
            yield Violation(SUMS, f"day {day}, account {account}", text)
