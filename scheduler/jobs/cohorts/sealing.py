"""The key of a cohort, and the data that it seals: names, members, keywords and results (decisions 20).

The key is random and is stored sealed with the node's secret. Once the key is destroyed, the data cannot be decrypted
any more, even with the node's secret. Identities are looked up by a keyed digest, whose key is derived from the same
key.

The sealed key is stored after random bytes that fill more than one SQLite page. It is therefore on pages that contain
nothing else and are never moved, and overwriting it with zeros of the same length leaves no copy in the file.
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
"""The length of a stored key in bytes. From 4,062 bytes on, SQLite puts the end of a row on separate overflow pages."""
ZEROS: Final = bytes(KEPT_BYTES)
DIGEST_BYTES: Final = 16


class CohortKey:
    """Seals and opens the data of one cohort."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes."""
        self._aead = AESGCM(key)
        self._index = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"sluice/cohort index/1").derive(key)

    def seal(self, body: bytes, bound_to: str) -> bytes:
        """Encrypt `body` so that it can be decrypted only together with `bound_to`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, body, bound_to.encode())

    def unseal(self, sealed: bytes, bound_to: str) -> bytes:
        """Decrypt the result of `seal`.

        Raises:
            SealBroken: the data was sealed with another key, was altered, or is bound to something else.
        """
        try:
            return self._aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError) as exc:
            raise SealBroken("the cohort's key cannot decrypt this data") from exc

    def digest(self, *parts: str) -> bytes:
        """Return the keyed digest of these texts, by which a row is found. Testing a guess requires the key."""
        return hmac.digest(self._index, "\0".join(parts).encode(), "sha256")[:DIGEST_BYTES]


def make_key(cipher: Cipher, cohort_id: str) -> tuple[CohortKey, bytes]:
    """Return a new key and its stored form."""
    key = secrets.token_bytes(KEY_BYTES)
    sealed = cipher.seal(base64.b64encode(key).decode(), bound_to=_key_of(cohort_id))
    return CohortKey(key), secrets.token_bytes(KEPT_BYTES - len(sealed)) + sealed.encode()


def open_key(cipher: Cipher, cohort_id: str, kept: bytes) -> CohortKey:
    """Return the key of a cohort.

    Raises:
        SealBroken: the key was sealed with another secret, or was destroyed.
    """
    sealed = kept[-SEALED_BYTES:].decode("latin-1")
    return CohortKey(base64.b64decode(cipher.unseal(sealed, bound_to=_key_of(cohort_id))))


def _key_of(cohort_id: str) -> str:
    return f"key of {cohort_id}"
