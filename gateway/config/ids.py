"""Ids: a prefix and a time-ordered random part with the layout of a UUIDv7, in 32 hexadecimal digits (decisions 1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_FIXED = 1 << 128 | 7 << 76 | 2 << 62
"""Version and variant bits, and a leading 1 bit, so that there are always 32 digits after it."""
_RANDOM = (1 << 76) - 1 & ~(3 << 62)


def id_maker(now: Callable[[], float], rng: Random) -> Callable[[str], str]:
    """Return a function that makes a new id from a prefix such as `req_`."""

    def make_id(prefix: str) -> str:
        # `hex` of one number, because formatting with a width takes four times as long.
        return prefix + hex(int(now() * 1000) << 80 | _FIXED | rng.getrandbits(76) & _RANDOM)[3:]

    return make_id
