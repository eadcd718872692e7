"""The files of the archive: a day's journal rows as JSON lines, and the manifest that chains their digests.

A file is a sequence of gzip members with up to 70 lines each, so that any tool can unpack it and a reader can start at
any member. A file is written under a temporary name, renamed when it is durable, and never changed after that.
`manifest.jsonl` has one line per file. Each line contains a digest over the previous line's digest and its own fields,
so changing, swapping or removing a file invalidates all later lines.
"""

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from billing.archive.days import date_of
from storage.private_files import FILE_MODE, make_folder

MANIFEST: Final = "manifest.jsonl"
LEVEL: Final = 6
READ_BYTES: Final = 65_536
_GZIP: Final = 31


class ArchivedRow(msgspec.Struct, frozen=True):
    """A row of the journal with names instead of numbers. Amounts are in credits, timestamps in microseconds."""

    id: str
    """The id in hexadecimal digits."""
    kind: int
    account: str
    account_number: int
    key: str | None
    platform: str | None
    endpoint: str | None
    taken: int
    refunded: int
    issued: int
    taken_at: int
    closed_at: int
    balance_after: int
    balance_closed: int
    place: int
    refund_place: int | None
    issued_place: int | None
    note: str | None


class ArchiveFile(msgspec.Struct, frozen=True):
    """A file of the archive, as its manifest line describes it."""

    number: int
    day: int
    """The day of all rows in the file, in days since 1970. It is part of each row's id."""
    name: str
    rows: int
    digest: str
    """The file's SHA-256."""
    chain: str = ""
    """SHA-256 over the previous file's chain and all fields above."""


class Member(NamedTuple):
    """A gzip member of a file: its rows, and the offsets where it begins and ends."""

    rows: list[ArchivedRow]
    begin: int
    end: int


class ArchiveBroken(Exception):
    """The archive was changed or damaged. The message says where."""


def chained(before: str, file: ArchiveFile) -> ArchiveFile:
    """Return the file with its chain, computed from the chain of the previous file (empty for the first file)."""
    words = f"{before}\n{file.number}\n{file.day}\n{file.name}\n{file.rows}\n{file.digest}\n"
    return msgspec.structs.replace(file, chain=hashlib.sha256(words.encode()).hexdigest())


class FileWriter:
    """Writes a file of the archive one member at a time, on the thread that reads the rows."""

    def __init__(self, folder: Path, *, number: int, day: int) -> None:
        self.name = f"journal-{date_of(day)}-{number:06d}.jsonl.gz"
        self.rows = 0
        self.end = 0
        self._folder = folder
        self._part = folder / f".{self.name}.part"
        self._digest = hashlib.sha256()
        self._file: IO[bytes] | None = None

    def add(self, rows: Sequence[ArchivedRow]) -> None:
        """Append one member; the first one creates the file. Raises OSError."""
        if self._file is None:
            make_folder(self._folder)
            self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb")
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
        packed = packer.compress(msgspec.json.Encoder().encode_lines(rows)) + packer.flush()
        self._file.write(packed)
        self._digest.update(packed)
        self.rows += len(rows)
        self.end += len(packed)

    def close(self) -> None:
        """Close the file. An unfinished file stays unreferenced."""
        if self._file is not None:
            self._file.close()

    def finish(self) -> str:
        """Make the file durable under its final name and return its digest. Raises OSError."""
        assert self._file is not None, "a day of the archive has rows"
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.rename(self._folder / self.name)
        sync_folder(self._folder)
        return self._digest.hexdigest()


def write_manifest(folder: Path, files: Iterable[ArchiveFile]) -> None:
    """Replace the manifest with a new, durable one that lists these files. Raises OSError."""
    part = folder / f".{MANIFEST}.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as opened:
        opened.write(msgspec.json.Encoder().encode_lines(list(files)))
        opened.flush()
        os.fsync(opened.fileno())
    part.rename(folder / MANIFEST)
    sync_folder(folder)


def read_manifest(folder: Path) -> list[ArchiveFile]:
    """Return the manifest's lines, or an empty list without a manifest.

    Raises:
        ArchiveBroken: the manifest cannot be read.
    """
    try:
        return msgspec.json.Decoder(ArchiveFile).decode_lines((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as exc:
        raise ArchiveBroken(f"{folder / MANIFEST} cannot be read: {exc}") from exc


def digest_of(folder: Path, name: str) -> str:
    """Return a file's SHA-256. Raises ArchiveBroken if the file cannot be read."""
    try:
        with (folder / name).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as exc:
        raise ArchiveBroken(f"{folder / name} cannot be read: {exc.strerror}") from exc


def read_member(folder: Path, name: str, begin: int) -> Member | None:
    """Return the member that begins at `begin`, or None at the end of the file.

    Raises:
        ArchiveBroken: the file cannot be read at that offset.
    """
    unpacker, lines, end = zlib.decompressobj(_GZIP), bytearray(), begin
    try:
        with (folder / name).open("rb") as opened:
            opened.seek(begin)
            while not unpacker.eof:
                packed = opened.read(READ_BYTES)
                if not packed:
                    if end == begin:
                        return None
                    raise ArchiveBroken(f"{folder / name} is truncated inside a member")
                lines += unpacker.decompress(packed)
                end += len(packed)
        rows = msgspec.json.Decoder(ArchivedRow).decode_lines(bytes(lines))
    except (OSError, zlib.error, msgspec.DecodeError) as exc:
        raise ArchiveBroken(f"{folder / name} cannot be read after byte {begin}: {exc}") from exc
    return Member(rows, begin, end - len(unpacker.unused_data))


def members_of(folder: Path, name: str, begin: int = 0) -> Iterator[Member]:
    """Yield the file's members from the offset `begin` on. Raises ArchiveBroken, like `read_member`."""
    while (member := read_member(folder, name, begin)) is not None:
        yield member
        begin = member.end


def sync_folder(folder: Path) -> None:
    """Sync the folder, so that the names of its new files survive a crash. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
