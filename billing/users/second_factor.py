"""The second factor: codes from an authenticator (RFC 6238), and recovery codes for users who lose it.

A code works only once. Its time step is stored, and codes from that step and from earlier steps are refused.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from billing.keys.sealing import Cipher
from billing.users import attempts
from billing.users.errors import CodeRefused
from billing.users.records import User, digest
from billing.users.users import end_factor
from storage.store import Store, Tx

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.twofactor.totp import TOTP

STEP_S: Final = 30
SECRET_BYTES: Final = 20
CODES: Final = 10
_CODE_BYTES: Final = 10
_STEPS_APART: Final = 1
"""By how many time steps the user's clock may differ from the server's."""
ISSUER: Final = "Sluice"

READ: Final = "SELECT totp, totp_step FROM users WHERE id = ?"
SET: Final = "UPDATE users SET totp = ?, totp_step = ? WHERE id = ?"
SET_STEP: Final = "UPDATE users SET totp_step = ? WHERE id = ? AND totp_step < ?"
ADD_CODE: Final = "INSERT INTO user_codes (hash, user_id) VALUES (?, ?)"
END_CODES: Final = "DELETE FROM user_codes WHERE user_id = ?"
USE_CODE: Final = "DELETE FROM user_codes WHERE hash = ? AND user_id = ?"
COUNT_CODES: Final = "SELECT COUNT(*) FROM user_codes WHERE user_id = ?"


class SecondFactor:
    """Turns the second factor on and off, and checks codes."""

    def __init__(self, store: Store, cipher: Cipher, *, now: Callable[[], float]) -> None:
        self._store = store
        self._cipher = cipher
        self._now = now

    def begin(self, user: User) -> str:
        """Return a new secret, sealed for this user.

        The secret is stored only when the user returns it together with its first code.
        """
        return self._cipher.seal(
            base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode(), bound_to=_new_secret_context(user)
        )

    def secret(self, user: User, sealed: str) -> str:
        """Return the secret from `begin` in the form that an authenticator expects. Raises SealBroken."""
        return self._cipher.unseal(sealed, bound_to=_new_secret_context(user))

    async def turn_on(self, user: User, sealed: str, code: str) -> list[str]:
        """Turn the second factor on and return the recovery codes, which are shown only once.

        Raises:
            CodeRefused: the code does not match the new secret; nothing was changed.
            SealBroken: `begin` did not create this secret for this user.
        """
        secret = self.secret(user, sealed)
        step = _step_of(secret, code, self._now())
        if step is None:
            raise CodeRefused
        kept = self._cipher.seal(secret, bound_to=_secret_context(user))
        codes = _new_codes()

        def turn_on(tx: Tx) -> list[str]:
            tx.run(SET, (kept, step, user.id))
            _set_codes(tx, user, codes)
            return codes

        return await self._store.write(turn_on)

    async def turn_off(self, user: User) -> None:
        """Stop requiring codes from this user."""
        await self._store.write(partial(end_factor, user_id=user.id))

    async def renew_codes(self, user: User) -> list[str]:
        """Return new recovery codes, shown only once. The old ones stop working."""
        codes = _new_codes()
        await self._store.write(partial(_set_codes, user=user, codes=codes))
        return codes

    async def codes_left(self, user: User) -> int:
        """Return how many recovery codes are unused."""
        rows = await self._store.read(lambda tx: tx.all(COUNT_CODES, (user.id,)))
        count: int = rows[0][0]
        return count

    async def check(self, user: User, code: str) -> None:
        """Accept a code of the authenticator or a recovery code, and mark it as used.

        Raises:
            CodeRefused: the code is wrong, or was used before.
            TooManyAttempts: too many codes were tried for this user.
        """
        await self._store.write(partial(attempts.enter, subjects=(attempts.of_user(user.id),), now=self._now()))
        await self._store.write(partial(self._use, user, code.replace(" ", "")))

    def _use(self, user: User, code: str, tx: Tx) -> None:
        row = tx.one(READ, (user.id,))
        if row is None or not row[0]:
            raise CodeRefused
        step = _step_of(self._cipher.unseal(row[0], bound_to=_secret_context(user)), code, self._now())
        is_used = step is not None and tx.run(SET_STEP, (step, user.id, step)) == 1
        if not is_used and tx.run(USE_CODE, (_code_digest(user, code), user.id)) != 1:
            raise CodeRefused
        attempts.clear(tx, attempts.of_user(user.id))


def enrolment_url(user: User, secret: str) -> str:
    """Return the URL that opens the authenticator on the same device."""
    return _authenticator(secret).get_provisioning_uri(user.email, ISSUER)


def _authenticator(secret: str) -> TOTP:
    from cryptography.hazmat.primitives.hashes import SHA1  # noqa: PLC0415 - loaded with the first code
    from cryptography.hazmat.primitives.twofactor.totp import TOTP  # noqa: PLC0415 - as above

    return TOTP(base64.b32decode(secret), 6, SHA1(), STEP_S)  # noqa: S303 - the algorithm of authenticators


def _step_of(secret: str, code: str, now: float) -> int | None:
    """Return the time step of a code, or None if the code matches no step near the current time."""
    if len(code) != 6 or not code.isascii() or not code.isdigit():
        return None
    made, current = _authenticator(secret), int(now) // STEP_S
    for step in range(current - _STEPS_APART, current + _STEPS_APART + 1):
        if hmac.compare_digest(made.generate(step * STEP_S), code.encode()):
            return step
    return None


def _new_codes() -> list[str]:
    """Return new codes of 80 random bits each, in groups that are easy to copy by hand."""
    texts = (base64.b32encode(secrets.token_bytes(_CODE_BYTES)).decode().lower() for _ in range(CODES))
    return ["-".join(text[start : start + 4] for start in range(0, len(text), 4)) for text in texts]


def _set_codes(tx: Tx, user: User, codes: list[str]) -> None:
    tx.run(END_CODES, (user.id,))
    for code in codes:
        tx.run(ADD_CODE, (_code_digest(user, code), user.id))


def _code_digest(user: User, code: str) -> str:
    return digest(f"{user.id} {code.replace('-', '').lower()}")


def _new_secret_context(user: User) -> str:
    return f"new totp of {user.id}"


def _secret_context(user: User) -> str:
    return f"totp of {user.id}"
