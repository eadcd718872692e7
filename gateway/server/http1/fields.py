"""An answer's headers, names and values apart.

Answers have many values, but few sets of names. With the names known from an earlier answer only the values have to be
filled in, which is hot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Fields = tuple[tuple[bytes, ...], tuple[bytes, ...]]
"""The names, and a value for each."""
Pairs = Iterable[tuple[bytes, bytes]]
"""The same as ASGI has it."""

NO_FIELDS: Final[Fields] = ((), ())


def fields_of(pairs: Pairs) -> Fields:
    """The headers in one form."""
    headers = list(pairs)
    return tuple([name for name, _ in headers]), tuple([value for _, value in headers])


def pairs_of(fields: Fields) -> list[tuple[bytes, bytes]]:
    """And in the other."""
    return list(zip(*fields, strict=True))


def joined(some: Fields, others: Fields) -> Fields:
    """Both, one behind the other."""
    return some[0] + others[0], some[1] + others[1]
