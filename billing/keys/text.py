"""API keys as their holders see them: a 3-character prefix and 32 random bytes in base64url (spec 2.5)."""

import hashlib
import re
import secrets
from functools import lru_cache

from billing.errors import KeyUnusable

KEY_CHARS = 46


class KeyText:
    """Makes and recognizes keys with one prefix."""

    def __init__(self, prefix: str) -> None:
        """`prefix` has 3 characters."""
        assert len(prefix) == 3
        self._prefix = prefix
        self._shape = re.compile(re.escape(prefix) + r"[A-Za-z0-9_-]{43}").fullmatch

    def make(self) -> str:
        """Return a new key."""
        return self._prefix + secrets.token_urlsafe(32)

    def check(self, presented: str) -> None:
        """Raise KeyUnusable if the text does not look like a key."""
        if len(presented) != KEY_CHARS or self._shape(presented) is None:
            raise KeyUnusable("malformed")


def digest(key: str) -> str:
    """Return the digest used to look up a key, for any text.

    If a text has the length of a key, its digest is cached in memory. Only the most recent digests are kept.
    """
    return _remembered(key) if len(key) == KEY_CHARS else _digest(key)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


_remembered = lru_cache(maxsize=2_000)(_digest)
