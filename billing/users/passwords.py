"""Checks passwords against the rules, and computes argon2id digests in a few threads.

The parameters are OWASP's for argon2id: 19 MiB, two passes, one lane. The digest is a PHC string, which any library can
read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final
from unicodedata import normalize

import trio

from billing.users.errors import PasswordRefused, TooManyAttempts
from storage.store import T

LENGTH_MIN: Final = 12
LENGTH_MAX: Final = 200
MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
AT_ONCE: Final = 2
WAITING_MAX: Final = 50
_BUSY_S: Final = 60.0
_DISTINCT_MIN: Final = 5
_DUMMY_DIGEST: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$YBjRIKuebr9ZKnno4KnfBw$E1Jd5LO3YkcuZnKViFh10hxczDK6MFkz5jY7Xvcn2fU"
)
"""The digest that is checked for unknown users, so that their check takes as long as for known users."""


def check_password(password: str, email: str) -> None:
    """Check that a user may choose this password. Raises PasswordRefused."""
    if len(password) < LENGTH_MIN:
        raise PasswordRefused(f"must have at least {LENGTH_MIN} characters")
    if len(password) > LENGTH_MAX:
        raise PasswordRefused(f"must have at most {LENGTH_MAX} characters")
    if "\0" in password or "\ufffd" in password:
        raise PasswordRefused("contains a character that cannot be typed")
    folded = password.casefold()
    if folded in (email, email.partition("@")[0]) or len(set(folded)) < _DISTINCT_MIN:
        raise PasswordRefused("is easily guessed; use a few unrelated words")


class Passwords:
    """Computes and checks digests."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(AT_ONCE)

    async def digest(self, password: str) -> str:
        """Return the digest to store. Raises TooManyAttempts if too many calls are waiting."""
        return await self._run(partial(_digest, password))

    async def fits(self, password: str, digest: str) -> bool:
        """Return whether a password matches a digest. An empty digest never matches, but the check takes the same time.

        Raises:
            TooManyAttempts: too many calls are waiting.
        """
        return await self._run(partial(_fits, password[: LENGTH_MAX + 1], digest or _DUMMY_DIGEST)) and digest != ""

    async def _run(self, work: Callable[[], T]) -> T:
        if self._limiter.statistics().tasks_waiting >= WAITING_MAX:
            await trio.lowlevel.checkpoint()
            raise TooManyAttempts(_BUSY_S)
        return await trio.to_thread.run_sync(work, limiter=self._limiter)


def _digest(password: str) -> str:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - loaded with the first password

    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=PASSES, lanes=1, memory_cost=MEMORY_KIB)
    return kdf.derive_phc_encoded(_bytes(password))


def _fits(password: str, digest: str) -> bool:
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 - as above

    try:
        Argon2id.verify_phc_encoded(_bytes(password), digest)
    except InvalidKey:
        return False
    return True


def _bytes(password: str) -> bytes:
    """Return the bytes to digest. Texts that look alike give the same bytes (NIST SP 800-63B, 5.1.1.2)."""
    return normalize("NFKC", password).encode("utf-8", "surrogatepass")
