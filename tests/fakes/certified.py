"""A self-made certificate: the TLS files for a node, and the trust settings for its clients."""

import ssl
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import trustme

NAMES = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Certified:
    """Two files in a folder, and the authority that signed their certificate."""

    folder: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    @property
    def cert(self) -> Path:
        """Return the certificate's file."""
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        """Return the key's file."""
        return self.folder / "key.pem"

    @property
    def settings(self) -> dict[str, object]:
        """Return the settings of [server]."""
        return {"engine": "hypercorn", "tls_cert": str(self.cert), "tls_key": str(self.key)}

    def issue(self, *, not_before: datetime | None = None, not_after: datetime | None = None) -> int:
        """Write a new certificate and its key. Return the certificate's serial number."""
        made = self.authority.issue_cert(*NAMES, not_before=not_before, not_after=not_after)
        self.folder.mkdir(exist_ok=True)
        self.cert.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        self.key.touch(mode=0o600)
        self.key.write_bytes(made.private_key_pem.bytes())
        return serial_of(ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode()))

    def trusting(self, *protocols: str) -> ssl.SSLContext:
        """Return a client's TLS context that trusts this authority and offers these protocols."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if protocols:
            context.set_alpn_protocols([*protocols])
        return context


def certified(folder: Path) -> Certified:
    """A valid certificate."""
    made = Certified(folder)
    made.issue()
    return made


def serial_of(der: bytes) -> int:
    """Return the serial number of a certificate."""
    from cryptography import x509  # noqa: PLC0415 - few tests need it

    return x509.load_der_x509_certificate(der).serial_number
