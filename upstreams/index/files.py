"""Stores the index, and finds the stored index that fits the packages.

1. A file in the cache folder, whose name contains the stamp of the packages: names, sizes and times of their files.
   A start reads only this file.
2. The file `compiled.json` next to this module, which a wheel contains. It is used if its digest is the digest of the
   packages' content, and then copied to the cache folder, because reading the content takes 10 ms.
3. A new index, which is then written to the cache folder.

The index names the hosts that receive the operator's secrets. So a file is ignored if another user could have written
it, like a file that is damaged. Files are replaced atomically, so several processes may write them at once.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

import upstreams
from storage.private_files import FILE_MODE, make_folder, read_small

_BYTES_MAX: Final = 64 * 1024 * 1024
_FILES_KEPT: Final = 4
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
COMPILED: Final = Path(__file__).with_name("compiled.json")
"""The index in a wheel."""


def read_index(build: Callable[[], dict[str, Any]], warn: Callable[[str], None]) -> dict[str, Any]:
    """Return the index that fits the packages. If there is none, build and store it, and `warn` if that fails."""
    folder, name = cache_folder(), f"index-{_stamp()}.json"
    if folder is not None and (found := _read(folder / name, folder)) is not None:
        return found
    digest = content_digest()
    found = _read(COMPILED, COMPILED.parent)
    is_built = found is None or found["digest"] != digest
    if found is None or is_built:
        found = {"digest": digest, **build()}
    problem = "no home folder" if folder is None else _write(found, folder, name)
    if problem and is_built:
        warn(f"cannot store the index of the platforms, so each start builds it again: {problem}")
    return found


def write_compiled(build: Callable[[], dict[str, Any]]) -> Path:
    """Write the index that a wheel contains, and return its path. Raises OSError."""
    COMPILED.write_bytes(_framed({"digest": content_digest(), **build()}))
    return COMPILED


def cache_folder() -> Path | None:
    """Return the folder for stored indexes, or None if the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "sluice"
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "sluice"
    return None


def content_digest() -> str:
    """Return the digest of the packages' content."""
    digest = sha256()
    for name, entry in _sources():
        content = Path(entry.path).read_bytes()
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return digest.hexdigest()


def _stamp() -> str:
    """Return a digest of the names, sizes and times of the packages' files.

    It includes the time of the last change of a file's status, because tools that unpack archives restore the others.
    """
    digest = sha256(f"{sys.version_info[:2]}{_root()}".encode())
    for name, entry in _sources():
        found = entry.stat()
        digest.update(f"{name}\0{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _root() -> str:
    return upstreams.__path__[0]


def _sources() -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the source files of this package, with their relative names, in a fixed order."""
    yield from _sources_in(_root(), "")


def _sources_in(folder: str, name: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield f"{name}{entry.name}", entry
        elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
            yield from _sources_in(entry.path, f"{name}{entry.name}/")


def _read(file: Path, folder: Path) -> dict[str, Any] | None:
    """Return the index in a file; None if the file is missing or damaged, or another user could have written it."""
    try:
        if not (_is_ours(folder) and _is_ours(file)):
            return None
        content = read_small(file, bytes_max=_BYTES_MAX)
    except OSError:
        return None
    check, _, body = content.partition(b"\n")
    if check != sha256(body).hexdigest().encode():
        return None
    found: dict[str, Any] = orjson.loads(body)
    return found


def _is_ours(path: Path) -> bool:
    """Return whether only this user, or the superuser, can write to a file or folder. Raises OSError."""
    found = path.lstat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(found.st_mode)


def _framed(index: dict[str, Any]) -> bytes:
    body = orjson.dumps(index)
    return sha256(body).hexdigest().encode() + b"\n" + body


def _write(index: dict[str, Any], folder: Path, name: str) -> str:
    """Write the index to the cache folder. Return the reason if that fails."""
    temporary = folder / f".{name}.{secrets.token_hex(8)}"
    try:
        make_folder(folder)
        if not _is_ours(folder):
            return f"another user can write to {folder}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(_framed(index))
            temporary.replace(folder / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _remove_old(folder)
    except OSError as exc:
        return str(exc)
    return ""


def _remove_old(folder: Path) -> None:
    """Remove all but the newest files. A process that is about to read one of them builds it again."""
    files = sorted(folder.glob("index-*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_FILES_KEPT:]:
        file.unlink(missing_ok=True)
