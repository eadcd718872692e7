"""Creates files and folders that only their owner can access, whatever the umask, and warns about exposed ones."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Create the folder if it is missing. Raises OSError."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER_MODE)
        folder.chmod(FOLDER_MODE)
    if not folder.is_dir():
        folder.mkdir()  # raises the error that prevented creating the folder


def open_private(file: Path) -> int:
    """Open a regular file for reading and writing, and return its descriptor. The file is created if missing.

    This never blocks: a pipe or a device in the file's place is refused.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        descriptor = os.open(file, flags)
        try:
            refuse_other_kinds(descriptor)
        except OSError:
            os.close(descriptor)
            raise
    else:
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def read_small(file: Path, *, bytes_max: int) -> bytes:
    """Return the content of a regular file. This never blocks, because pipes and devices are refused.

    Raises:
        OSError: the file cannot be read, is longer than `bytes_max`, or is not a regular file.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as opened:
        refuse_other_kinds(descriptor)
        content = opened.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"longer than {bytes_max} bytes")
    return content


def exposures(database: Path) -> list[str]:
    """Return warnings if other users can enter the folder or read the file of a database."""
    found = []
    for place, verb in ((database.parent, "enter"), (database, "read")):
        with suppress(OSError):
            mode = stat.S_IMODE(place.stat().st_mode)
            if mode & OTHERS:
                found.append(
                    f"other users can {verb} {place} (mode {mode:04o}); restrict it to its owner: chmod go= {place}"
                )
    return found


def refuse_other_kinds(file: Path | int) -> None:
    """Raise OSError unless the file is a regular one."""
    kind = os.stat(file).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "not a regular file")
