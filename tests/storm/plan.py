"""The content that writers append. It is derived from numbers alone, so the plan determines every fact of every batch.

A fact's number contains the number of its process, the writer, the batch, and the position in the batch. It is also the
subject's id, so each fact is recognized wherever it is read.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from events.log.kinds import KINDS

BATCH_MAX = 50
PARENTS = 8
ACCOUNTS_PER_BATCH = 3
TYPES = tuple(sorted(KINDS))


class Account(Struct, frozen=True):
    """An account and the ids of its keys."""

    id: str
    key_ids: tuple[str, ...]


class Plan(Struct, frozen=True):
    """The parameters of writers. They write until the file `stop` exists, with pauses of up to `pause_s`."""

    seed: int
    writers: int
    pause_s: float
    folder: str
    accounts: tuple[Account, ...]


class Told(NamedTuple):
    """A fact as it must appear in the log."""

    account_id: str
    key_id: str | None
    type: str
    parent_id: str | None


def batch_of(life: int, writer: int, number: int) -> int:
    """Return the number of a batch."""
    return life << 32 | writer << 24 | number


def subject_of(fact: int) -> str:
    """Return the id of a fact's subject."""
    return f"s{fact:014x}"


def fact_of(subject_id: str) -> int:
    """Return the number of the fact with this subject."""
    return int(subject_id[1:], 16)


def facts_of(plan: Plan, batch: int) -> range:
    """Return the numbers of a batch's facts, in order."""
    first = batch << 8
    return range(first, first + 1 + _draw(plan.seed, batch, "size") % BATCH_MAX)


def is_undone(plan: Plan, batch: int) -> bool:
    """Return whether the batch's transaction is undone after appending."""
    return _draw(plan.seed, batch, "undone") % 40 == 0


def told(plan: Plan, fact: int) -> Told:
    """Return the content of a fact."""
    drawn = _draw(plan.seed, fact, "fact")
    account = plan.accounts[_accounts(plan.seed, fact >> 8, len(plan.accounts))[drawn % ACCOUNTS_PER_BATCH]]
    kind = TYPES[(drawn >> 8) % len(TYPES)]
    is_wide = KINDS[kind].account_wide or (drawn >> 16) % 3 == 0
    key_id = None if is_wide else account.key_ids[(drawn >> 24) % len(account.key_ids)]
    parent = (drawn >> 32) % (2 * PARENTS)
    return Told(account.id, key_id, kind, f"parent_{parent}" if parent < PARENTS else None)


@lru_cache(maxsize=1)
def _accounts(seed: int, batch: int, count: int) -> tuple[int, ...]:
    """Return the accounts of a batch; the first ones are the busy ones."""
    drawn = _draw(seed, batch, "accounts")
    pairs = ((drawn >> 16 * place, drawn >> (16 * place + 8)) for place in range(ACCOUNTS_PER_BATCH))
    return tuple(min(one % count, other % count) for one, other in pairs)


def _draw(seed: int, number: int, what: str) -> int:
    return int.from_bytes(blake2b(b"%d %d %b" % (seed, number, what.encode()), digest_size=8).digest(), "big")
