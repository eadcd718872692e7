"""Answers that wait for their clients to read: the bytes they hold, counted for each key and in all, and bounded.

Counted are whole buffers, since a buffer stays in memory until its last byte has left: also one that the cache has
dropped meanwhile, and one that several answers share only once. An answer that leaves at once is never counted, so what
clients usually ask for costs nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gateway.server.bounds import Bounds


class AnswerReader(Protocol):
    """A connection whose client has to read before more can be sent."""

    owner: bytes
    """The API key that its request carries; empty for none."""

    def give_up(self) -> None:
        """End it, whatever it still has to send."""


class _Tally:
    """The bytes of distinct buffers."""

    __slots__ = ("_counts", "size")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}  # by id: who adds a buffer keeps it alive until it is removed
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
    """The readers of one key, those that have taken nothing for longest first."""

    __slots__ = ("readers", "tally")

    def __init__(self) -> None:
        self.readers: dict[AnswerReader, tuple[bytes, ...]] = {}
        self.tally = _Tally()


class Unsent:
    """Counts the bytes that a server's clients have not read, and ends the readers that hold too many.

    The connections report every wait. Where the bound of all is passed, the key that holds most loses a reader: one
    that holds little is safe from those that hold much. Of a key's readers it is the one that has taken nothing for
    longest.
    """

    def __init__(self, bounds: Bounds = Bounds(), *, owner_headers: tuple[bytes, ...] = ()) -> None:  # noqa: B008 - frozen
        self._bounds = bounds
        self._owner_headers = owner_headers
        self._owners: dict[bytes, _Owner] = {}
        self._all = _Tally()
        self.ended = {"too_slow": 0, "key_full": 0, "node_full": 0}
        """Connections that were ended, by the reason, since the start."""

    @property
    def held_bytes(self) -> int:
        """The memory that waits."""
        return self._all.size

    @property
    def readers(self) -> int:
        """How many connections wait."""
        return sum(len(owner.readers) for owner in self._owners.values())

    def owner_of(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The owner of an answer, by the headers of its request."""
        return next((value for name, value in headers if name in self._owner_headers), b"")

    def add(self, reader: AnswerReader, buffers: Iterable[bytes]) -> None:
        """`reader` waits, and holds these; it may be given up at once."""
        held = tuple(buffers)
        owner = self._owners.setdefault(reader.owner, _Owner())
        assert reader not in owner.readers, "a connection waits once at a time"
        owner.readers[reader] = held
        owner.tally.add(held)
        self._all.add(held)
        while reader.owner and owner.tally.size > self._bounds.unsent_key_bytes and len(owner.readers) > 1:
            self._end_one(reader.owner, "key_full")
        while self._all.size > self._bounds.unsent_bytes:
            self._end_one(max(self._owners, key=lambda name: self._owners[name].tally.size), "node_full")

    def moved(self, reader: AnswerReader) -> None:
        """It has taken some bytes."""
        owner = self._owners.get(reader.owner)
        if owner is not None and reader in owner.readers:
            owner.readers[reader] = owner.readers.pop(reader)

    def discard(self, reader: AnswerReader) -> None:
        """It waits no more, if it did."""
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
