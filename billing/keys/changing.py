"""Changes that make nodes look keys up anew: of a key's own terms, or of its account's state.

Where other nodes remember keys too, a change begins a new generation of each key that it touches, before its commit and
after it: a node that looks the key up in between does so again. While the shared state is away, the change is made all
the same and published once it is back. Until then another node may answer from its memory for `KNOWN_S` after its
look-up, at worst: but charge nothing, since every charge reads the rows of the key and its account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import trio

from billing.keys.cache import KeyCache
from limits.gate import Gate
from storage.errors import StateUnavailable
from storage.store import Store, T, Tx, Write

PUBLISH_S = 1.0


class TouchedKey(NamedTuple):
    """A key that a change touches, and the digest by which it is looked up."""

    id: str
    account_id: str
    digest: str


FindTouched = Callable[[Tx], Sequence[TouchedKey]]
"""Finds the keys that a change touches, behind whatever locks they must stay the same."""


class KeyChanges:
    """Makes such changes in `store`; `shared` is the gate that other nodes ask too, if there are any."""

    def __init__(self, store: Store, cache: KeyCache, shared: Gate | None) -> None:
        self._store = store
        self._cache = cache
        self._shared = shared

    async def run(self, find: FindTouched, change: Callable[[Tx], T], write: Write | None = None) -> T:
        """Make the change, which counts on the very next request, and return its result.

        `write` stands in for the store's own. Raises what `find` and `change` raise; then nothing was changed.
        """
        if self._shared is None:
            return await self._commit(find, change, write, set())
        touched = {(key.account_id, key.id) for key in await self._store.read(find)}
        await _begin_generations(self._shared, touched)
        try:
            return await self._commit(find, change, write, touched)
        finally:  # cancelled or failed, it may have happened
            with trio.move_on_after(PUBLISH_S, shield=True):
                await _begin_generations(self._shared, touched)

    async def _commit(
        self, find: FindTouched, change: Callable[[Tx], T], write: Write | None, touched: set[tuple[str, str]]
    ) -> T:
        """Commit it; keys that have come since they were found first are added to `touched`."""

        def run(tx: Tx) -> T:
            for key in find(tx):
                touched.add((key.account_id, key.id))
                tx.on_commit(partial(self._cache.forget, key.digest))
            return change(tx)

        return await (write or self._store.write)(run)


async def _begin_generations(shared: Gate, touched: Iterable[tuple[str, str]]) -> None:
    """Begin a new generation of each. The gate begins it later when it cannot now: no change waits for that."""
    for account_id, key_id in sorted(touched):
        with suppress(StateUnavailable):
            await shared.change_key(account_id, key_id)
