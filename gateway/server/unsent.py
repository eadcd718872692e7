"""Counts and limits the response bytes that wait for clients to read them, per key and in total.

Whole buffers are counted, because a buffer stays in memory until its last byte is sent, even if the cache has dropped
it. A buffer that several responses share is counted once. A response that the kernel accepts immediately is not
counted, so ordinary requests cause no work here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gateway.server.bounds import Bounds


class AnswerReader(Protocol):
    """A connection that waits for its client to read."""

    owner: bytes
    """The API key of the request; empty if the request has none."""

    def give_up(self) -> None:
        """End the connection, although some data is unsent."""


class _Tally:
    """The total size of a set of buffers, in which each buffer counts only once."""

    __slots__ = ("_counts", "size")

    def __init__(self) -> None:
        # The keys are `id`s, which are unique because the readers keep their buffers alive until they are removed.
        self._counts: dict[int, int] = {}
        self.size = 0

    def add(self, buffers: Iterable[bytes]) -> None:
        for buffer in buffers:
            count = self._counts.get(id(buffer), 0)
            self._counts[id(buffer)] = count + 1
            self.size += 0 if count else len(buffer)

    def remove(self, buffers: Iterable[bytes]) -> None:
        for buffer in buffers:
            count = self._counts.pop(id(buffer)) - 1
            if count:
                self._counts[id(buffer)] = count
            else:
                self.size -= len(buffer)


class _Owner:
    """The readers of one key, ordered by their last progress. The reader that has waited longest is first."""

    __slots__ = ("readers", "tally")

    def __init__(self) -> None:
        self.readers: dict[AnswerReader, tuple[bytes, ...]] = {}
        self.tally = _Tally()


class Unsent:
    """Counts the bytes that a server's clients have not read, and ends connections if there are too many bytes.

    Connections report each wait. If the total limit is exceeded, a connection of the key with the most bytes is ended,
    so that a key with few bytes does not suffer from the others. It is the connection that has made no progress for the
    longest time.
    """

    def __init__(self, bounds: Bounds = Bounds(), *, owner_headers: tuple[bytes, ...] = ()) -> None:  # noqa: B008 - the default is immutable
        self._bounds = bounds
        self._owner_headers = owner_headers
        self._owners: dict[bytes, _Owner] = {}
        self._all = _Tally()
        self.ended = {"too_slow": 0, "key_full": 0, "node_full": 0}
        """Number of connections that were ended since the start, by reason."""

    @property
    def held_bytes(self) -> int:
        """Return the number of response bytes that wait in memory."""
        return self._all.size

    @property
    def readers(self) -> int:
        """Return the number of connections that wait for their clients."""
        return sum(len(owner.readers) for owner in self._owners.values())

    def owner_of(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the owner of a response: the API key in the headers of its request."""
        return next((value for name, value in headers if name in self._owner_headers), b"")

    def add(self, reader: AnswerReader, buffers: Iterable[bytes]) -> None:
        """Add `reader`, which waits with these buffers.

        If a limit is exceeded, `reader.give_up` may be called immediately.
        """
        held = tuple(buffers)
        owner = self._owners.setdefault(reader.owner, _Owner())
        assert reader not in owner.readers, "a connection waits only once at a time"
        owner.readers[reader] = held
        owner.tally.add(held)
        self._all.add(held)
        while reader.owner and owner.tally.size > self._bounds.unsent_key_bytes and len(owner.readers) > 1:
            self._end_one(reader.owner, "key_full")
        while self._all.size > self._bounds.unsent_bytes:
            self._end_one(max(self._owners, key=lambda name: self._owners[name].tally.size), "node_full")

    def moved(self, reader: AnswerReader) -> None:
        """Record that the reader's client has read some bytes."""
        owner = self._owners.get(reader.owner)
        if owner is not None and reader in owner.readers:
            owner.readers[reader] = owner.readers.pop(reader)

    def discard(self, reader: AnswerReader) -> None:
        """Remove the reader if it is present."""
        owner = self._owners.get(reader.owner)
        if owner is None or reader not in owner.readers:
            return
        held = owner.readers.pop(reader)
        owner.tally.remove(held)
        self._all.remove(held)
        if not owner.readers:
            del self._owners[reader.owner]

    def _end_one(self, name: bytes, reason: str) -> None:
        reader = next(iter(self._owners[name].readers))
        self.discard(reader)
        self.ended[reason] += 1
        reader.give_up()
