"""Keys that were looked up, so that a request with a known key waits for nothing."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import trio

from limits.gate import NO_GENERATION

ENTRIES_MAX = 50_000

Refused: TypeAlias = Literal["unknown", "revoked", "suspended"]
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is not revoked; it may have expired since it was looked up."""

    id: str
    account_id: str
    name: str
    expires_at: float | None
    generation: bytes = NO_GENERATION
    """The generation of the key's changes that was known before the key was looked up."""
    known_until: float | None = None
    """On Trio's clock, where other nodes change keys too; None: until it is forgotten."""


class KeyLookup(NamedTuple):
    """The moment before a look into the store."""

    changes: int
    known_until: float | None


class KeyCache:
    """The newest findings by digest, good ones and bad ones apart so that guessing cannot push out real keys.

    Whoever changes a key forgets its digest after the commit. A look-up takes `look` before it reads the store: what it
    read is kept only if no key changed in between. Good ones are believed for `known_s`, or without it until they are
    forgotten; bad ones stay bad. Only a suspended account's may become good again: where other nodes change keys too,
    such a finding is not kept.
    """

    def __init__(self, known_s: float | None = None) -> None:
        self._known_s = known_s
        self._changes = 0
        self._active: dict[str, Key] = {}
        self._refused: dict[str, Refused] = {}

    def active(self, digest: str) -> Key | None:
        """The key, if it is known to be active."""
        key = self._active.get(digest)
        if key is None or key.known_until is None or trio.current_time() < key.known_until:
            return key
        del self._active[digest]
        return None

    def refused(self, digest: str) -> Refused | None:
        """Return the reason why the key is known to be of no use; None where none is known."""
        return self._refused.get(digest)

    def look(self) -> KeyLookup:
        """Taken before the store is read."""
        return KeyLookup(self._changes, None if self._known_s is None else trio.current_time() + self._known_s)

    def keep(self, digest: str, found: Key | Refused, look: KeyLookup) -> None:
        """Remember what was read after `look` was taken."""
        if look.changes != self._changes:
            return
        if isinstance(found, Key):
            _put(self._active, digest, found)
        else:
            self._active.pop(digest, None)
            if found != "suspended" or look.known_until is None:
                _put(self._refused, digest, found)

    def forget(self, digest: str) -> None:
        """The key of this digest was changed."""
        self._changes += 1
        self._active.pop(digest, None)
        self._refused.pop(digest, None)

    def forget_all(self) -> None:
        """Any key may have been changed."""
        self._changes += 1
        self._active.clear()
        self._refused.clear()


def _put(known: dict[str, _V], digest: str, value: _V) -> None:
    known[digest] = value
    if len(known) > ENTRIES_MAX:
        del known[next(iter(known))]
