"""Compressed bodies in the store, and the limits on decompressing them for one page of a response.

A body of a few kilobytes may decompress to many megabytes. A page is therefore limited twice: a transaction reads rows
up to `PAGE_BYTES` in stored form, and `Unpacker` decompresses them one by one up to `PAGE_BYTES`. The first row always
fits, no matter how long it is, so that every page makes progress.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

PAGE_BYTES: Final = 4_000_000
"""The maximum size of a page in bytes, both stored and decompressed, unless its first row alone is larger."""
PIECE_BYTES: Final = 500_000
"""The same limit for one piece of a streamed response."""


def packed(body: bytes) -> bytes:
    """Compress a body to store it."""
    return zlib.compress(body)


def unpacked(body: bytes) -> bytes:
    """Decompress a stored body."""
    return zlib.decompress(body)


def rows_within(sizes: Iterable[int], bytes_max: int = PAGE_BYTES) -> int:
    """Return how many of the first rows have at most `bytes_max` bytes in total. The first row always counts."""
    count = total = 0
    for size in sizes:
        total += size
        if count and total > bytes_max:
            break
        count += 1
    return count


class Unpacker:
    """Decompresses the rows of one page, up to `bytes_max` in total."""

    def __init__(self, bytes_max: int = PAGE_BYTES) -> None:
        self._left = bytes_max
        self._is_empty = True

    def take(self, *bodies: bytes | None) -> list[bytes | None] | None:
        """Return the decompressed bodies of the next row, or None if the page has no room for them.

        Decompression stops once the row exceeds the remaining room, so a rejected row is never decompressed in full.
        """
        left, found = self._left, list[bytes | None]()
        for body in bodies:
            whole = None if body is None else unpacked(body) if self._is_empty else _within(body, left)
            if whole is None and body is not None:
                return None
            found.append(whole)
            left -= 0 if whole is None else len(whole)
        self._left, self._is_empty = max(0, left), False
        return found


def _within(body: bytes, bytes_max: int) -> bytes | None:
    """Return a decompressed body, or None if it has more than `bytes_max` bytes."""
    stream = zlib.decompressobj()
    whole = stream.decompress(body, bytes_max + 1)  # `+ 1`, because 0 would mean no limit
    if len(whole) > bytes_max:
        return None
    if not stream.eof:
        raise zlib.error("the stored body is incomplete")
    return whole
