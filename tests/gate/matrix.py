"""Which part of a large matrix a run checks: a sixth of it, or all of it if `SLUICE_WHOLE_MATRIX` is set.

Each commit checks another sixth, chosen by the commit's hash, so nothing stays unchecked for long. All processes of a
run choose the same part, and a failure can be repeated on the same commit. Of a platform that the change under test
touches (`tests.gate.changed`), a run checks everything.

`SLUICE_WHOLE_MATRIX` is `1` for everything, or the slugs of platforms, separated by commas. With slugs, matrices over
platforms contain only these. `python -m tests.gate.whole` sets it.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from tests.gate.changed import changed_platforms

T = TypeVar("T")

WHOLE: Final = "SLUICE_WHOLE_MATRIX"
EVERYTHING: Final = "1"
SHARE: Final = 6


@cache
def seed() -> str:
    """Return the hash of the checked-out commit, or a constant outside a repository."""
    command = ["git", "rev-parse", "--verify", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "no repository"


def sample(items: Iterable[T], group: Callable[[T], Hashable] = lambda _: None, share: int = SHARE) -> tuple[T, ...]:
    """Return one in `share` of the items of each group, at least one, in their order; all items of a whole matrix."""
    listed = tuple(items)
    if WHOLE in os.environ:
        return listed
    grouped: dict[Hashable, list[int]] = defaultdict(list)
    for position, item in enumerate(listed):
        grouped[group(item)].append(position)
    chance = Random(seed())
    chosen = {number for found in grouped.values() for number in chance.sample(found, -(-len(found) // share))}
    return tuple(item for position, item in enumerate(listed) if position in chosen)


def of_run(items: Iterable[T], slug_of: Callable[[T], str]) -> tuple[T, ...]:
    """Return the items of the platforms that this run checks: of all, or of those that `SLUICE_WHOLE_MATRIX` names."""
    told = os.environ.get(WHOLE, EVERYTHING)
    return tuple(item for item in items if told == EVERYTHING or slug_of(item) in told.split(","))


def sample_platforms(items: Iterable[T], slug_of: Callable[[T], str], share: int = SHARE) -> tuple[T, ...]:
    """Return one in `share` of the items, in their order, and all items of the platforms that the change touches.

    Of each `share` consecutive items, one is chosen. Every platform with many items is therefore in the part, but small
    platforms take turns. `slug_of` returns the slug of an item's platform. A whole matrix has all items (`of_run`).
    """
    listed = of_run(items, slug_of)
    if WHOLE in os.environ:
        return listed
    touched, chance = changed_platforms(), Random(seed())
    chosen = {start + chance.randrange(share) for start in range(0, len(listed), share)}
    chosen.add(chance.randrange(max(1, len(listed))))  # the items may be fewer than `share`
    return tuple(item for place, item in enumerate(listed) if place in chosen or slug_of(item) in touched)


def by_platform(items: Iterable[T], slug_of: Callable[[T], str], share: int = SHARE) -> dict[str, tuple[T, ...]]:
    """Return `sample_platforms` by the slug of the platform. The items of a platform must be consecutive."""
    chosen = sample_platforms(items, slug_of, share)
    return {slug: tuple(found) for slug, found in groupby(chosen, slug_of)}
