"""The node's secrets: one master secret, and the separate keys derived from it."""

import base64
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from storage.private_files import make_folder

MASTER_CHARACTERS_MIN = 16
_FILE_BYTES_MAX = 4096


class SecretUnusable(Exception):
    """The master secret can not be used; the text says why and what to do, never the secret."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Keys for one purpose each, 32 bytes: sealing API keys, signing cursors; and the admin API's token."""

    sealing: bytes = field(repr=False)
    cursors: bytes = field(repr=False)
    admin_token: str = field(repr=False)


def load_secret(environ: Mapping[str, str], data_dir: Path) -> Secrets:
    """Derive the keys from SLUICE_SECRET, or from `<data_dir>/secret`, which is made when it is missing.

    Raises:
        SecretUnusable: the secret is too short, or its file can not be made, read or trusted.
    """
    master = environ.get("SLUICE_SECRET")
    place = "SLUICE_SECRET"
    if master is None:
        file = data_dir / "secret"
        place, master = str(file), _read_or_make(file)
    if len(master) < MASTER_CHARACTERS_MIN:
        raise SecretUnusable(f"{place}: the secret has fewer than {MASTER_CHARACTERS_MIN} characters")
    return Secrets(
        sealing=_derive(master, "sealing"),
        cursors=_derive(master, "cursors"),
        admin_token=base64.urlsafe_b64encode(_derive(master, "admin_token")).decode().rstrip("="),
    )


def _derive(master: str, purpose: str) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"sluice/{purpose}/1".encode())
    return kdf.derive(master.encode("utf-8", "surrogateescape"))


def _read_or_make(file: Path) -> str:
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as exc:
        raise SecretUnusable(f"{file}: {exc.strerror}; set SLUICE_SECRET or make the folder usable") from exc


def _read(file: Path) -> str:
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SecretUnusable(f"{file}: not a regular file")
        if status.st_mode & 0o077:
            raise SecretUnusable(f"{file}: others may read it; allow its owner only (chmod 600) or set SLUICE_SECRET")
        return opened.read(_FILE_BYTES_MAX).decode("utf-8", "surrogateescape").strip()


def _make(file: Path) -> None:
    """Put a new secret in place whole and durable, or leave the one that another process just put there."""
    make_folder(file.parent)
    draft = file.with_name(f".secret-{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "w") as opened:
            os.fchmod(handle, 0o600)  # whatever the umask
            opened.write(secrets.token_urlsafe(32) + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(draft, file)
        _sync_folder(file.parent)
    finally:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
