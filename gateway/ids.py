"""Ids: a prefix and a time-ordered random part, as UUIDv7 lays it out, in 32 hexadecimal digits (decisions 1)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


def id_maker(now: Callable[[], float], rng: Random) -> Callable[[str], str]:
    """A function from a prefix, such as `req_`, to a new id."""

    def make_id(prefix: str) -> str:
        random = rng.getrandbits(74)
        high = int(now() * 1000) << 80 | 7 << 76 | (random >> 62) << 64
        return f"{prefix}{high | 2 << 62 | random & 0x3FFF_FFFF_FFFF_FFFF:032x}"

    return make_id
