"""The key of a cohort, and what is sealed with it: names, members, keywords and results (decisions 20).

The key is random and is kept sealed by the node's secret. When it is destroyed, nobody opens any more what it sealed,
with the node's secret or without. Identities are found by a keyed digest, which the same key makes.

The sealed key stands at the end of more than a page of SQLite's, behind random bytes. So it is on pages that hold
nothing else and that are never moved, and writing zeros of the same length over it leaves no copy in the file.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from billing.errors import SealBroken
from billing.keys.sealing import NONCE_BYTES, Cipher

KEY_BYTES: Final = 32
SEALED_BYTES: Final = 96
KEPT_BYTES: Final = 4_200
"""The length of a kept key: from 4,062 on, SQLite puts the end of a row on pages of its own."""
ZEROS: Final = bytes(KEPT_BYTES)
DIGEST_BYTES: Final = 16


class CohortKey:
    """Seals and opens what belongs to one cohort."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes."""
        self._aead = AESGCM(key)
        self._index = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"sluice/cohort index/1").derive(key)

    def seal(self, body: bytes, bound_to: str) -> bytes:
        """Encrypt a body so that it opens only together with `bound_to`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, body, bound_to.encode())

    def unseal(self, sealed: bytes, bound_to: str) -> bytes:
        """Decrypt what `seal` gave.

        Raises:
            SealBroken: another key sealed it, it was altered, or it is bound to something else.
        """
        try:
            return self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError) as exc:
            raise SealBroken("a part of the cohort does not open with its key") from exc

    def digest(self, *parts: str) -> bytes:
        """A digest of these texts, by which a row is found; without the key nobody can try what it is of."""
        return hmac.digest(self._index, "\0".join(parts).encode(), "sha256")[:DIGEST_BYTES]


def make_key(cipher: Cipher, cohort_id: str) -> tuple[CohortKey, bytes]:
    """A new key, and the form in which it is kept."""
    key = secrets.token_bytes(KEY_BYTES)
    sealed = cipher.seal(base64.b64encode(key).decode(), bound_to=_key_of(cohort_id))
    return CohortKey(key), secrets.token_bytes(KEPT_BYTES - len(sealed)) + sealed.encode()


def open_key(cipher: Cipher, cohort_id: str, kept: bytes) -> CohortKey:
    """The key of a cohort.

    Raises:
        SealBroken: another secret sealed it, or it was destroyed.
    """
    sealed = kept[-SEALED_BYTES:].decode("latin-1")
    return CohortKey(base64.b64decode(cipher.unseal(sealed, bound_to=_key_of(cohort_id))))


def _key_of(cohort_id: str) -> str:
    return f"key of {cohort_id}"
