"""Keys that were looked up, so that a request with a known key waits for nothing."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

ENTRIES_MAX = 50_000

Refused: TypeAlias = Literal["unknown", "revoked"]
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is not revoked; it may have expired since it was looked up."""

    id: str
    account_id: str
    name: str
    expires_at: float | None


class KeyCache:
    """The newest findings by digest, good ones and bad ones apart so that guessing cannot push out real keys.

    Whoever changes a key forgets its digest after the commit. A look-up takes `changes` before it reads the store:
    what it read is kept only if no key changed in between.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._active: dict[str, Key] = {}
        self._refused: dict[str, Refused] = {}

    def active(self, digest: str) -> Key | None:
        """The key, if it is known to be active."""
        return self._active.get(digest)

    def refused(self, digest: str) -> Refused | None:
        """Why the key is known to be of no use."""
        return self._refused.get(digest)

    def keep(self, digest: str, found: Key | Refused, *, changes: int) -> None:
        """Remember what was read after `changes` was taken."""
        if changes != self.changes:
            return
        if isinstance(found, Key):
            _put(self._active, digest, found)
        else:
            _put(self._refused, digest, found)

    def forget(self, digest: str) -> None:
        """The key of this digest was changed."""
        self.changes += 1
        self._active.pop(digest, None)
        self._refused.pop(digest, None)


def _put(known: dict[str, _V], digest: str, value: _V) -> None:
    known[digest] = value
    if len(known) > ENTRIES_MAX:
        del known[next(iter(known))]
