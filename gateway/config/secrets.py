"""The node's secrets: one master secret, and the separate keys derived from it."""

import base64
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway.config.strength import judge_strength
from storage.private_files import make_folder

MASTER_CHARACTERS_MIN = 16
_FILE_BYTES_MAX = 4096
_ADVICE = "generate one with: openssl rand -base64 32"


class SecretUnusable(Exception):
    """The master secret cannot be used. The text says why and what to do, but never contains the secret."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The keys that a node derives from its master secret, 32 bytes each.

    They seal API keys, sign cursors, and authorize requests to the admin API. `smtp_password` is not derived, but
    copied from the environment: it is the password for the mail server.
    """

    sealing: bytes = field(repr=False)
    cursors: bytes = field(repr=False)
    admin_token: str = field(repr=False)
    smtp_password: str = field(repr=False, default="")


def load_secret(environ: Mapping[str, str], data_dir: Path) -> Secrets:
    """Derive the keys from SLUICE_SECRET, or from the file `<data_dir>/secret`, which is created if it is missing.

    Raises:
        SecretUnusable: the secret is too short, or its file cannot be created, read or trusted.
    """
    master, file = _from_environment(environ), data_dir / "secret"
    if master is None:
        place, master = str(file), _read_or_make(file)
    else:
        place = "SLUICE_SECRET"
    _refuse_short(master, place)
    return replace(derive_secrets(master), smtp_password=environ.get("SLUICE_SMTP_PASSWORD", ""))


def doubt_of(environ: Mapping[str, str], data_dir: Path) -> str | None:
    """Return why the node's secret is weak; None if it is strong, or if its file is missing or not readable.

    Raises:
        SecretUnusable: the secret is too weak to accept, or its file cannot be trusted.
    """
    master, file = _from_environment(environ), data_dir / "secret"
    if master is not None:
        return _weakness_of(master, "SLUICE_SECRET")
    return _weakness_of(_read_or_make(file), str(file)) if os.access(file, os.R_OK) else None


def _from_environment(environ: Mapping[str, str]) -> str | None:
    """Return SLUICE_SECRET without surrounding whitespace, such as a line end; None if the variable is not set."""
    master = environ.get("SLUICE_SECRET")
    return None if master is None else master.strip()


def _refuse_short(master: str, place: str) -> None:
    if len(master) < MASTER_CHARACTERS_MIN:
        raise SecretUnusable(f"{place}: the secret has fewer than {MASTER_CHARACTERS_MIN} characters")


def _weakness_of(master: str, place: str) -> str | None:
    """Return a warning about a weak secret that a node accepts; None if the secret is strong.

    Raises:
        SecretUnusable: the secret is too weak to accept.
    """
    _refuse_short(master, place)
    strength = judge_strength(master)
    if strength == "guessable":
        raise SecretUnusable(f"{place}: the secret is easy to guess; {_ADVICE}")
    return f"{place}: the secret could be guessed; {_ADVICE}" if strength == "doubtful" else None


def derive_secrets(master: str) -> Secrets:
    """Derive the keys from a master secret. The same secret always results in the same keys."""
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
        raise SecretUnusable(f"{file}: {exc.strerror}; set SLUICE_SECRET or fix the folder") from exc


def _read(file: Path) -> str:
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SecretUnusable(f"{file}: not a regular file")
        if status.st_mode & 0o077:
            raise SecretUnusable(
                f"{file}: other users can read it; restrict it to its owner (chmod 600) or set SLUICE_SECRET"
            )
        return opened.read(_FILE_BYTES_MAX).decode("utf-8", "surrogateescape").strip()


def _make(file: Path) -> None:
    """Create a secret atomically and durably. If another process has just created one, keep that secret."""
    make_folder(file.parent)
    draft = file.with_name(f".secret-{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "w") as opened:
            os.fchmod(handle, 0o600)  # set the mode explicitly, because the umask may have changed it
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
