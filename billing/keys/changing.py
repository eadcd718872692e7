"""Makes all nodes look up a key again after a change to the key's terms or to its account's state.

If other nodes cache keys too, a change begins a new generation of each affected key before its commit, and another one
after it. A node that looked up the key in between therefore looks it up again. If the shared state is unavailable, the
change is made anyway and published once it is back. Until then another node may answer from its cache for at most
`KNOWN_S` after its look-up, but cannot charge anything, because every charge reads the rows of the key and its account.
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
    """A key that is affected by a change, and the digest used to look it up."""

    id: str
    account_id: str
    digest: str


FindTouched = Callable[[Tx], Sequence[TouchedKey]]
"""Returns the affected keys, and locks their rows until the end of the transaction."""


class KeyChanges:
    """Runs changes of keys and accounts in `store`. `shared` is the gate shared with other nodes, if any."""

    def __init__(self, store: Store, cache: KeyCache, shared: Gate | None) -> None:
        self._store = store
        self._cache = cache
        self._shared = shared

    async def run(self, find: FindTouched, change: Callable[[Tx], T], write: Write | None = None) -> T:
        """Make the change, effective from the very next request, and return its result.

        `write` replaces the store's own `write`. Raises whatever `find` and `change` raise; in that case nothing was
        changed.
        """
        if self._shared is None:
            return await self._commit(find, change, write, set())
        touched = {(key.account_id, key.id) for key in await self._store.read(find)}
        await _begin_generations(self._shared, touched)
        try:
            return await self._commit(find, change, write, touched)
        finally:  # the change may have been committed even if the call was cancelled or failed
            with trio.move_on_after(PUBLISH_S, shield=True):
                await _begin_generations(self._shared, touched)

    async def _commit(
        self, find: FindTouched, change: Callable[[Tx], T], write: Write | None, touched: set[tuple[str, str]]
    ) -> T:
        """Commit the change. Add keys to `touched` that were created since the first search."""

        def run(tx: Tx) -> T:
            for key in find(tx):
                touched.add((key.account_id, key.id))
                tx.on_commit(partial(self._cache.forget, key.digest))
            return change(tx)

        return await (write or self._store.write)(run)


async def _begin_generations(shared: Gate, touched: Iterable[tuple[str, str]]) -> None:
    """Begin a new generation of each key. If the shared state is unavailable, the gate retries it in the background."""
    for account_id, key_id in sorted(touched):
        with suppress(StateUnavailable):
            await shared.change_key(account_id, key_id)
