"""The certificate's files: each flaw and doubt has one line, and a bad renewal keeps the current certificate."""

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec.structs import replace

from gateway.config import ConfigError
from gateway.config.certificate import LiveCertificate, certificate_doubts, certificate_flaws, tls_context
from gateway.config.settings import ServerSettings
from tests.fakes.certified import Certified, certified

NOW = datetime.now(UTC)


def server_of(files: Certified) -> ServerSettings:
    return ServerSettings(engine="hypercorn", tls_cert=str(files.cert), tls_key=str(files.key))


def flaws(files: Certified) -> list[str]:
    """The lines of the flaws, without the folder's name."""
    return [str(problem).replace(f"{files.folder}/", "") for problem in certificate_flaws(server_of(files))]


def doubts(files: Certified) -> list[str]:
    return [line.replace(f"{files.folder}/", "") for line in certificate_doubts(server_of(files), NOW.timestamp())]


def test_valid_pair_has_no_flaw_or_doubt(tmp_path: Path) -> None:
    files = certified(tmp_path)
    assert (flaws(files), doubts(files)) == ([], [])
    assert (certificate_flaws(ServerSettings()), certificate_doubts(ServerSettings(), 0.0)) == ([], [])


def remove_both(files: Certified) -> None:
    files.cert.unlink()
    files.key.unlink()


def make_folder_of_cert(files: Certified) -> None:
    files.cert.unlink()
    files.cert.mkdir()


def make_pipe_of_key(files: Certified) -> None:
    files.key.unlink()
    os.mkfifo(files.key)


def swap(files: Certified) -> None:
    key = files.key.read_bytes()
    files.key.write_bytes(files.cert.read_bytes())
    files.cert.write_bytes(key)


def encrypt_key(files: Certified) -> None:
    key = load_pem_private_key(files.key.read_bytes(), None)
    sealed = BestAvailableEncryption(b"passphrase")
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))


def put_another_key(files: Certified) -> None:
    other = certified(files.folder / "other")
    files.key.write_bytes(other.key.read_bytes())


def put_a_key_of_another_kind(files: Certified) -> None:
    key = rsa.generate_private_key(65_537, 2_048)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


FLAWS: list[tuple[Callable[[Certified], object], list[str]]] = [
    (
        remove_both,
        [
            "server.tls_cert: 'cert.pem' cannot be read: No such file or directory",
            "server.tls_key: 'key.pem' cannot be read: No such file or directory",
        ],
    ),
    (make_folder_of_cert, ["server.tls_cert: 'cert.pem' cannot be read: Is a directory"]),
    (make_pipe_of_key, ["server.tls_key: 'key.pem' cannot be read: not a regular file"]),
    (
        swap,
        [
            "server.tls_cert: cert.pem does not contain a certificate in PEM format",
            "server.tls_key: key.pem does not contain a private key in PEM format",
        ],
    ),
    (
        lambda files: files.cert.write_bytes(ssl.PEM_cert_to_DER_cert(files.cert.read_text())),
        ["server.tls_cert: cert.pem does not contain a certificate in PEM format"],
    ),
    (
        lambda files: files.key.write_bytes(b""),
        ["server.tls_key: key.pem does not contain a private key in PEM format"],
    ),
    (
        encrypt_key,
        [
            "server.tls_key: key.pem is encrypted, and a node cannot enter its passphrase; decrypt it: "
            "openssl pkey -in FILE -out FILE"
        ],
    ),
    (put_another_key, ["server.tls_key: key.pem is not the key of the certificate in cert.pem"]),
    (put_a_key_of_another_kind, ["server.tls_key: key.pem is not the key of the certificate in cert.pem"]),
]


@pytest.mark.parametrize(("spoil", "lines"), FLAWS)
def test_unusable_files_have_one_line_each(
    tmp_path: Path, spoil: Callable[[Certified], object], lines: list[str]
) -> None:
    files = certified(tmp_path)
    spoil(files)
    assert flaws(files) == lines
    with pytest.raises(ConfigError):
        LiveCertificate(server_of(files))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_key_file_is_reported(tmp_path: Path) -> None:
    files = certified(tmp_path)
    files.key.chmod(0)
    assert flaws(files) == ["server.tls_key: 'key.pem' cannot be read: Permission denied"]


def test_expired_or_future_certificate_is_only_a_doubt(tmp_path: Path) -> None:
    files = Certified(tmp_path)
    day = timedelta(days=1)
    files.issue(not_before=NOW - 3 * day, not_after=NOW - day)
    (line,) = doubts(files)
    assert line.startswith(f"server.tls_cert: the certificate expired on {(NOW - day).date()}T")
    files.issue(not_before=NOW + day, not_after=NOW + 3 * day)
    (line,) = doubts(files)
    assert line.startswith(f"server.tls_cert: the certificate is not valid before {(NOW + day).date()}T")
    assert flaws(files) == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_key_readable_by_others_is_a_doubt(tmp_path: Path, mode: int) -> None:
    files = certified(tmp_path)
    files.key.chmod(mode)
    said = f"server.tls_key: other users can read key.pem (mode {mode:04o}); fix it: chmod go= key.pem"
    assert doubts(files) == [said]
    assert flaws(files) == []


def test_group_may_read_key_of_another_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: this process runs as another user, like a node whose key belongs to root."""
    files = certified(tmp_path)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    files.key.chmod(0o640)
    assert doubts(files) == []
    files.key.chmod(0o644)
    assert [line.rpartition(": ")[2] for line in doubts(files)] == ["chmod o= key.pem"]


def test_context_requires_tls_1_2_and_strong_ciphers(tmp_path: Path) -> None:
    context = tls_context(server_of(certified(tmp_path)))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    weak = [cipher["name"] for cipher in context.get_ciphers() if not cipher["aead"]]
    assert weak == []


def test_renewal_lists_changed_files_and_bad_one_changes_nothing(tmp_path: Path) -> None:
    files = certified(tmp_path)
    live = LiveCertificate(server_of(files))
    first = live.context()
    assert live.renew(server_of(files)) == []
    files.issue()
    assert live.renew(server_of(files)) == ["server.tls_cert", "server.tls_key"]
    second = live.context()
    assert second is not first
    put_another_key(files)
    with pytest.raises(ConfigError, match="is not the key of the certificate"):
        live.renew(server_of(files))
    assert live.context() is second


def test_moved_file_is_listed_and_absent_setting_keeps_certificate(tmp_path: Path) -> None:
    files = certified(tmp_path)
    live = LiveCertificate(server_of(files))
    moved = files.key.rename(tmp_path / "moved.pem")
    assert live.renew(replace(server_of(files), tls_key=str(moved))) == ["server.tls_key"]
    assert live.renew(ServerSettings()) == []
