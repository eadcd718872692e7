"""The headers of a response, with their names and values in separate tuples.

This is on the hot path. Responses have many different values but few sets of names, so if an earlier response had the
same names, only the values must be inserted into its template.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Fields = tuple[tuple[bytes, ...], tuple[bytes, ...]]
"""The names, and the value of each name in the same order."""
Pairs = Iterable[tuple[bytes, bytes]]
"""The same headers in ASGI's form."""

NO_FIELDS: Final[Fields] = ((), ())


def fields_of(pairs: Pairs) -> Fields:
    """Convert headers from ASGI's form."""
    headers = list(pairs)
    return tuple([name for name, _ in headers]), tuple([value for _, value in headers])


def pairs_of(fields: Fields) -> list[tuple[bytes, bytes]]:
    """Convert headers to ASGI's form."""
    return list(zip(*fields, strict=True))


def joined(some: Fields, others: Fields) -> Fields:
    """Concatenate two sets of headers."""
    return some[0] + others[0], some[1] + others[1]
