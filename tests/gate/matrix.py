"""Which part of a large matrix a run checks: a sixth of it, or all of it if `SLUICE_WHOLE_MATRIX` is set.

Each commit checks another sixth, chosen by the commit's hash, so nothing stays unchecked for long. All processes of a
run choose the same part, and a failure can be repeated on the same commit.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

WHOLE: Final = "SLUICE_WHOLE_MATRIX"
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
