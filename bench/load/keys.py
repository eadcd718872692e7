"""Chooses the handle of each request: always the same one, always a new one, or a realistic mix."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from random import Random
from types import MappingProxyType

NEW_FROM = 1_000_000
"""Numbers below this one are the known handles of the mix. New handles are never below it."""
KNOWN = 1_000
HIT_SHARE = 0.8

Keys = Iterator[int]


def new_keys(first: int, step: int) -> Keys:
    """Yield numbers that were never requested before: `first`, then every `step`th, above `NEW_FROM`."""
    return itertools.count(NEW_FROM + first, step)


def mixed_keys(first: int, step: int) -> Keys:
    """Yield 80 % known numbers, distributed by Zipf's law (exponent 1) and soon cached, and 20 % new numbers."""
    rng = Random(first)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KNOWN + 1)))
    known = range(KNOWN)
    for new in new_keys(first, step):
        while rng.random() < HIT_SHARE:
            yield rng.choices(known, cum_weights=weights)[0]
        yield new


KEYS: Mapping[str, Callable[[int, int], Keys]] = MappingProxyType(
    {"one": lambda *_: itertools.repeat(0), "new": new_keys, "mixed": mixed_keys}
)
"""Generators of keys by name. Each receives the first number and the step. `one` always yields the same number."""
