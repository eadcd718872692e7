"""Suggestions for misspelled names, at a cost that hardly grows with the number of names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise
from typing import Final

_TEXT_MAX: Final = 200
"""Characters of a text that are compared."""
_COMPARED_MAX: Final = 16
_BITS: Final = 512


class KnownNames:
    """A fixed set of names, and the one that a misspelled text probably means.

    `get_close_matches` takes about 25 us a name, which is 20 ms for 800 paths. So only the names that share most pairs
    of letters with the text are compared by it. A set of pairs is the bits of a number.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._pairs: list[tuple[int, str]] | None = None

    def nearest(self, text: str, *, cutoff: float = 0.6) -> str | None:
        """The name that `text` probably means; None if none is as similar as `cutoff`, from 0 to 1."""
        text = text[:_TEXT_MAX]
        if self._pairs is None:  # at the first mistake, so that a start does without it
            self._pairs = [(_pairs_in(name), name) for name in self._names]
        sent = _pairs_in(text)
        size = sent.bit_count()
        shared = (((sent & pairs).bit_count() / (size + pairs.bit_count() + 1), name) for pairs, name in self._pairs)
        likely = [name for _, name in nlargest(_COMPARED_MAX, shared)]
        return next(iter(get_close_matches(text, likely, n=1, cutoff=cutoff)), None)


def _pairs_in(text: str) -> int:
    """The pairs of neighbouring letters in a text, each as one bit of a number."""
    found = 0
    for first, second in pairwise(text):
        found |= 1 << (ord(first) * 31 + ord(second)) % _BITS
    return found
