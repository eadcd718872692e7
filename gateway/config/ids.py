"""Ids: a prefix and 32 hexadecimal digits with the layout of a UUIDv7: a time, then random bits (decisions 1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_FIXED = 1 << 128 | 7 << 76 | 2 << 62
"""The version and variant bits, and a leading 1 bit, which `hex` needs to return all 32 digits after it."""
_RANDOM = (1 << 76) - 1 & ~(3 << 62)


def id_maker(now: Callable[[], float], rng: Random) -> Callable[[str], str]:
    """Return a function that returns a new id for a prefix such as `req_`.

    Ids are ordered by the millisecond in which they were created. Within a millisecond their order is random.
    """

    def make_id(prefix: str) -> str:
        # Formatting with a width takes four times as long as `hex`.
        return prefix + hex(int(now() * 1000) << 80 | _FIXED | rng.getrandbits(76) & _RANDOM)[3:]

    return make_id
