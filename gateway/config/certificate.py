"""A node's TLS certificate: problems with its files, warnings about them, and the SSL context for new handshakes."""

from __future__ import annotations

import os
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config.errors import ConfigError, Problem
from gateway.config.settings import ServerSettings
from storage.private_files import OTHERS, read_small

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

CERT, KEY = "server.tls_cert", "server.tls_key"
_BYTES_MAX = 1_048_576
_WORLD = 0o007
_PROTOCOLS = ["h2", "http/1.1"]
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The TLS 1.2 ciphers that have forward secrecy and that HTTP/2 allows (RFC 9113, 9.2.2)."""


class _FileUnusable(Exception):
    """The certificate's file or its key's file cannot be used."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def certificate_flaws(server: ServerSettings) -> list[Problem]:
    """Return the reasons why the certificate or its key cannot be used; empty if they are fine or not configured."""
    if not (server.tls_cert and server.tls_key):
        return []
    problems = []
    for read in (_read_certificate, _read_key):
        try:
            read(server)
        except _FileUnusable as exc:
            problems.append(exc.problem)
    return problems or _flaws_of_pair(server)


def certificate_doubts(server: ServerSettings, now: float) -> list[str]:
    """Return warnings that do not prevent serving: the certificate is not valid now, or others can read its key."""
    if not (server.tls_cert and server.tls_key):
        return []
    try:
        own = _read_certificate(server)
    except _FileUnusable:
        return []
    doubts, at = [], datetime.fromtimestamp(now, UTC)
    if at > own.not_valid_after_utc:
        doubts.append(f"{CERT}: the certificate expired on {own.not_valid_after_utc.isoformat()}; renew it")
    if at < own.not_valid_before_utc:
        doubts.append(f"{CERT}: the certificate is not valid before {own.not_valid_before_utc.isoformat()}")
    return [*doubts, *_key_exposure(Path(server.tls_key))]


def tls_context(server: ServerSettings) -> ssl.SSLContext:
    """Return an SSL context that uses the certificate, and offers HTTP/2 and HTTP/1.1 over TLS 1.2 and 1.3.

    Raises:
        OSError, ssl.SSLError: the certificate or its key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(_PROTOCOLS)
    context.load_cert_chain(server.tls_cert, server.tls_key, password=_refuse_password)
    return context


class LiveCertificate:
    """Holds the SSL context for new handshakes.

    A reload creates a new context. Open connections continue to use the context that they started with.
    """

    def __init__(self, server: ServerSettings) -> None:
        """Read the certificate and its key. Raises ConfigError if they cannot be used."""
        self._files = (b"", b"")
        self._paths = ("", "")
        self.renew(server)

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        return self._context

    def renew(self, server: ServerSettings) -> list[str]:
        """Read the files again, and return the names of the settings whose files have changed.

        If the settings no longer name any files, the current certificate stays in use until a restart turns off TLS.

        Raises:
            ConfigError: the files cannot be used. The current certificate stays in use.
        """
        if not server.tls_cert:
            return []
        if flaws := certificate_flaws(server):
            raise ConfigError(server.tls_cert, tuple(flaws))
        paths = (server.tls_cert, server.tls_key)
        try:
            files = (_read(CERT, server.tls_cert), _read(KEY, server.tls_key))
            context = tls_context(server)
        except _FileUnusable as exc:
            raise ConfigError(server.tls_cert, (exc.problem,)) from exc
        except OSError as exc:  # ssl.SSLError is an OSError
            raise ConfigError(server.tls_cert, (_unloadable(exc, server),)) from exc
        before = (*zip(self._paths, self._files, strict=True),)
        after = (*zip(paths, files, strict=True),)
        self._context, self._paths, self._files = context, paths, files
        return [name for name, old, new in zip((CERT, KEY), before, after, strict=True) if old != new]


def _flaws_of_pair(server: ServerSettings) -> list[Problem]:
    try:
        if _read_certificate(server).public_key() != _read_key(server).public_key():
            return [Problem(KEY, f"{server.tls_key} is not the key of the certificate in {server.tls_cert}")]
        tls_context(server)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        return [_unloadable(exc, server)]
    return []


def _unloadable(exc: OSError | ValueError, server: ServerSettings) -> Problem:
    return Problem(CERT, f"{server.tls_cert} and its key cannot be used: {getattr(exc, 'strerror', None) or exc}")


def _read_certificate(server: ServerSettings) -> Certificate:
    """Read the node's own certificate, the first in its file."""
    from cryptography import x509  # noqa: PLC0415 - imported only by nodes that serve TLS
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see above

    content = _read(CERT, server.tls_cert)
    try:
        own = x509.load_pem_x509_certificates(content)[0]
        own.public_key()
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _FileUnusable(Problem(CERT, f"{server.tls_cert} does not contain a certificate in PEM format")) from exc
    return own


def _read_key(server: ServerSettings) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - see above

    content = _read(KEY, server.tls_key)
    try:
        return load_pem_private_key(content, password=None)
    except TypeError as exc:
        wanted = "is encrypted, and a node cannot enter its passphrase; decrypt it: openssl pkey -in FILE -out FILE"
        raise _FileUnusable(Problem(KEY, f"{server.tls_key} {wanted}")) from exc
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _FileUnusable(Problem(KEY, f"{server.tls_key} does not contain a private key in PEM format")) from exc


def _read(key_path: str, file: str) -> bytes:
    try:
        return read_small(Path(file), bytes_max=_BYTES_MAX)
    except (OSError, ValueError) as exc:
        reason = (exc.strerror if isinstance(exc, OSError) else None) or "not a path"
        raise _FileUnusable(Problem(key_path, f"{file!r} cannot be read: {reason}")) from exc


def _key_exposure(key: Path) -> list[str]:
    """Return a warning if other users can read the key.

    If another user owns the key, its group may read it, because the operator must have intended that.
    """
    try:
        found = key.stat()
    except OSError:
        return []
    mode, is_own = stat.S_IMODE(found.st_mode), found.st_uid == os.geteuid()
    if not mode & (OTHERS if is_own else _WORLD):
        return []
    return [f"{KEY}: other users can read {key} (mode {mode:04o}); fix it: chmod {'go=' if is_own else 'o='} {key}"]


def _refuse_password() -> str:
    """Reject an encrypted key, because OpenSSL would prompt for its passphrase on the terminal."""
    raise ssl.SSLError("the key is encrypted")
