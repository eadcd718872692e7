"""Caches the results of key look-ups, so that requests with a known key need not wait for the store."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import trio

from limits.gate import NO_GENERATION

ENTRIES_MAX = 50_000

Refused: TypeAlias = Literal["unknown", "revoked", "suspended"]
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is not revoked. It may have expired since it was looked up."""

    id: str
    account_id: str
    name: str
    expires_at: float | None
    generation: bytes = NO_GENERATION
    """The generation of the key's changes that was known before the look-up."""
    known_until: float | None = None
    """When the cached key expires, on Trio's clock. None if no other node can change keys: valid until forgotten."""


class KeyLookup(NamedTuple):
    """The state of the cache before a look-up reads the store. See `KeyCache.begin_lookup`."""

    changes: int
    known_until: float | None


class KeyCache:
    """The most recent look-up results by digest.

    Valid and refused keys are kept apart, so that guessing cannot evict real keys. Code that changes a key must call
    `forget` with its digest after the commit. A look-up calls `begin_lookup` before it reads the store; the result is
    kept only if no key changed in between. Valid keys are trusted for `known_s` seconds. If `known_s` is None, they are
    trusted until `forget` is called. A refused key stays refused, except for a key of a suspended account, which may
    become valid again. If other nodes can change keys, such a refusal is not cached.
    """

    def __init__(self, known_s: float | None = None) -> None:
        self._known_s = known_s
        self._changes = 0
        self._active: dict[str, Key] = {}
        self._refused: dict[str, Refused] = {}

    def active(self, digest: str) -> Key | None:
        """Return the key if it is known to be active, otherwise None."""
        key = self._active.get(digest)
        if key is None or key.known_until is None or trio.current_time() < key.known_until:
            return key
        del self._active[digest]
        return None

    def refused(self, digest: str) -> Refused | None:
        """Return the reason why the key is known to be unusable; None if no reason is known."""
        return self._refused.get(digest)

    def begin_lookup(self) -> KeyLookup:
        """Return a marker to pass to `keep`. Call this before reading the store."""
        return KeyLookup(self._changes, None if self._known_s is None else trio.current_time() + self._known_s)

    def keep(self, digest: str, found: Key | Refused, lookup: KeyLookup) -> None:
        """Cache the result of a look-up that began with the marker `lookup`, unless a key has changed since then."""
        if lookup.changes != self._changes:
            return
        if isinstance(found, Key):
            _put(self._active, digest, found)
        else:
            self._active.pop(digest, None)
            if found != "suspended" or lookup.known_until is None:
                _put(self._refused, digest, found)

    def forget(self, digest: str) -> None:
        """Drop the key with this digest, because it changed."""
        self._changes += 1
        self._active.pop(digest, None)
        self._refused.pop(digest, None)

    def forget_all(self) -> None:
        """Drop all keys, because any of them may have changed."""
        self._changes += 1
        self._active.clear()
        self._refused.clear()


def _put(known: dict[str, _V], digest: str, value: _V) -> None:
    known[digest] = value
    if len(known) > ENTRIES_MAX:
        del known[next(iter(known))]
