"""Suggestions for misspelled names. Their cost is nearly independent of the number of names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise
from typing import Final

_TEXT_MAX: Final = 200
"""The maximum number of characters of a text that are compared."""
_COMPARED_MAX: Final = 16
_BITS: Final = 512


class KnownNames:
    """A fixed set of names, with suggestions for misspelled ones.

    `get_close_matches` takes about 25 us per name, or 20 ms for 800 paths. Therefore, `nearest` compares only the names
    that share the most letter pairs with the text. A set of pairs is stored as bits of an integer.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._pairs: list[tuple[int, str]] | None = None

    def nearest(self, text: str, *, cutoff: float = 0.6) -> str | None:
        """Return the name that `text` probably means; None if no name has a similarity of `cutoff` (0 to 1)."""
        text = text[:_TEXT_MAX]
        if self._pairs is None:  # computed at the first misspelled name, so that it does not delay startup
            self._pairs = [(_pairs_in(name), name) for name in self._names]
        sent = _pairs_in(text)
        size = sent.bit_count()
        shared = (((sent & pairs).bit_count() / (size + pairs.bit_count() + 1), name) for pairs, name in self._pairs)
        likely = [name for _, name in nlargest(_COMPARED_MAX, shared)]
        return next(iter(get_close_matches(text, likely, n=1, cutoff=cutoff)), None)


def _pairs_in(text: str) -> int:
    """Return the pairs of adjacent letters in a text as a bit set."""
    found = 0
    for first, second in pairwise(text):
        found |= 1 << (ord(first) * 31 + ord(second)) % _BITS
    return found
