"""The index of an archive file, which lists the members that contain each account's postings.

The index is a sequence of blocks, each for a fixed number of members, so that writing or reading it needs only the
memory for one block or one account. A block contains:

- the number of its members, and of its entries;
- for each member, its offset in the file and the beginning of its first row's id;
- the entries sorted by account: account, member, lowest and highest place.

The index can be rebuilt from the file. Rows are always read from the file, so a damaged index can hide lines but never
change them.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from billing.archive.files import ArchiveBroken, ArchivedRow, Member, members_of, sync_folder
from billing.archive.openings import places_of
from storage.private_files import FILE_MODE

MEMBERS_A_BLOCK: Final = 64
ID_BYTES: Final = 8
_COUNTS: Final = struct.Struct(">4sHI")
_MEMBER: Final = struct.Struct(f">Q{ID_BYTES}s")
_ENTRY: Final = struct.Struct(">IHQQ")
_NUMBER: Final = struct.Struct(">I")
_MAGIC: Final = b"idx1"


class Span(NamedTuple):
    """An index entry: the member at `offset` contains postings of the account, at places from `low` to `high`."""

    offset: int
    low: int
    high: int


class IndexWriter:
    """Builds the index of a file from its members, which are added in order as they are written or read."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / index_name(name)
        self._part = folder / f".{index_name(name)}.part"
        self._members: list[bytes] = []
        self._entries: list[bytes] = []
        self._file: IO[bytes] | None = None

    def add(self, begin: int, rows: Sequence[ArchivedRow]) -> None:
        """Add the member that begins at `begin`. Raises OSError."""
        if self._file is None:
            self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb")
        _enter(self._members, self._entries, begin, rows)
        if len(self._members) == MEMBERS_A_BLOCK:
            self._write_block()

    def finish(self) -> None:
        """Make the index durable under its final name; the caller must sync the folder. Raises OSError."""
        assert self._file is not None, "a file of the archive has members"
        self._write_block()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.rename(self._path)

    def close(self) -> None:
        """Close the file. An unfinished index stays unreferenced."""
        if self._file is not None:
            self._file.close()

    def _write_block(self) -> None:
        assert self._file is not None
        if not self._members:
            return
        self._file.write(_block(self._members, self._entries))
        self._members.clear()
        self._entries.clear()


def index_name(name: str) -> str:
    """Return the name of the index of an archive file."""
    return name.removesuffix(".jsonl.gz") + ".index"


def make_index(folder: Path, name: str, writer: IndexWriter, begin: int, members_max: int) -> int | None:
    """Index some members of an existing file. Return the next member's offset, or None once the index is finished.

    Raises:
        ArchiveBroken: the file cannot be read.
        OSError: the index cannot be written.
    """
    for number, member in enumerate(members_of(folder, name, begin)):
        if number == members_max:
            return member.begin
        writer.add(member.begin, member.rows)
    writer.finish()
    sync_folder(folder)
    return None


class IndexCheck:
    """Compares a file's index with the file's members, which are added in order."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raise FileNotFoundError if the index is missing, OSError if it cannot be read."""
        self._file = (folder / index_name(name)).open("rb")
        self._members: list[bytes] = []
        self._entries: list[bytes] = []
        self._matches = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def add(self, member: Member) -> None:
        """Compare the index with the next member."""
        _enter(self._members, self._entries, member.begin, member.rows)
        if len(self._members) == MEMBERS_A_BLOCK:
            self._compare()

    def is_sound(self) -> bool:
        """Return whether the index matches all members and has no further entries."""
        if self._members:
            self._compare()
        return self._matches and not self._file.read(1)

    def _compare(self) -> None:
        block = _block(self._members, self._entries)
        self._matches = self._matches and self._file.read(len(block)) == block
        self._members.clear()
        self._entries.clear()


def spans_of(folder: Path, name: str, account: int) -> list[Span]:
    """Return the members that contain postings of the account, in file order.

    Raises:
        ArchiveBroken: the index is missing or cannot be read.
    """
    found = []
    for block in _blocks(folder, name):
        first = bisect_left(range(block.entries), account, key=block.account)
        for number in range(first, block.entries):
            owner, member, low, high = block.entry(number)
            if owner != account:
                break
            if member >= block.members:
                raise ArchiveBroken(f"{folder / index_name(name)} refers to a missing member")
            found.append(Span(block.member(member)[0], low, high))
    return found


def members_with(folder: Path, name: str, id_: bytes) -> list[int]:
    """Return the offsets of the members that may contain the row with this id.

    Raises:
        ArchiveBroken: the index is missing or cannot be read.
    """
    begin, found = id_[:ID_BYTES].ljust(ID_BYTES, b"\0"), list[int]()
    for block in _blocks(folder, name):
        for number in range(block.members):
            offset, first = block.member(number)
            if first > begin:
                return found
            if first < begin:
                found.clear()
            found.append(offset)
    return found


class _Block(NamedTuple):
    """A block of an open index, at the offset `at`."""

    descriptor: int
    at: int
    members: int
    entries: int

    @property
    def end(self) -> int:
        return self._entry_at(self.entries)

    def member(self, number: int) -> tuple[int, bytes]:
        offset, first = _MEMBER.unpack(self._read(self.at + _COUNTS.size + number * _MEMBER.size, _MEMBER.size))
        return offset, first

    def account(self, number: int) -> int:
        (account,) = _NUMBER.unpack(self._read(self._entry_at(number), _NUMBER.size))
        return int(account)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        account, member, low, high = _ENTRY.unpack(self._read(self._entry_at(number), _ENTRY.size))
        return account, member, low, high

    def _entry_at(self, number: int) -> int:
        return self.at + _COUNTS.size + self.members * _MEMBER.size + number * _ENTRY.size

    def _read(self, at: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, at)


def _blocks(folder: Path, name: str) -> Iterator[_Block]:
    path, at = folder / index_name(name), 0
    try:
        with path.open("rb") as opened:
            descriptor, size = opened.fileno(), os.fstat(opened.fileno()).st_size
            while at < size:
                magic, members, entries = _COUNTS.unpack(os.pread(descriptor, _COUNTS.size, at))
                block = _Block(descriptor, at, members, entries)
                if magic != _MAGIC or block.end > size:
                    raise ArchiveBroken(f"{path} is damaged at byte {at}")
                yield block
                at = block.end
    except (OSError, struct.error) as exc:
        raise ArchiveBroken(f"{path} cannot be read: {exc}") from exc


def _enter(members: list[bytes], entries: list[bytes], begin: int, rows: Sequence[ArchivedRow]) -> None:
    """Append the bytes for a member, and for an entry of each of its accounts."""
    places: dict[int, list[int]] = {}
    for row in rows:
        places.setdefault(row.account_number, []).extend(places_of(row))
    number = len(members)
    entries += [_ENTRY.pack(account, number, min(of), max(of)) for account, of in places.items()]
    members.append(_MEMBER.pack(begin, bytes.fromhex(rows[0].id)[:ID_BYTES]))


def _block(members: list[bytes], entries: list[bytes]) -> bytes:
    """Return the bytes of a block. Sorting the entries as bytes sorts them by account and member."""
    counts = _COUNTS.pack(_MAGIC, len(members), len(entries))
    return b"".join((counts, *members, *sorted(entries)))
