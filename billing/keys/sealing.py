"""Encrypts copies of keys, so that only the holder of the master secret can read them."""

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from billing.errors import SealBroken

NONCE_BYTES = 12


class Cipher:
    """AES-GCM with a fresh nonce for each text. The ciphertext is bound to the row that stores it."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes and is not used for anything else."""
        self._aead = AESGCM(key)

    def seal(self, text: str, *, bound_to: str) -> str:
        """Encrypt `text` so that it can be decrypted only together with `bound_to`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return base64.b64encode(nonce + self._aead.encrypt(nonce, text.encode(), bound_to.encode())).decode()

    def unseal(self, sealed: str, *, bound_to: str) -> str:
        """Decrypt a text that `seal` returned.

        Raises:
            SealBroken: another secret sealed it, it was altered, or it is bound to something else.
        """
        try:
            blob = base64.b64decode(sealed, validate=True)
            return self._aead.decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], bound_to.encode()).decode()
        except (InvalidTag, ValueError) as exc:
            raise SealBroken("the sealed key cannot be opened with this secret") from exc
