"""The row of a named consumer, and the swaps that change it.

A call reads the row from a snapshot and computes the new row. The writer then replaces the old row with the new one. If
another call has changed the row in between, this swap fails and the call starts again. The writer therefore never
counts or scans events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from events.errors import TooManyConsumers
from events.filters import Filters
from events.log.kinds import expand
from events.positions import Position
from storage.store import Row, Tx, Value

CONSUMERS_MAX: Final = 100

COLUMNS: Final = """key_id, name, account_id, types, subjects, committed_pos, committed_at, served_pos, served_at,
quiet_pos, counted_pos, counted, created_at, seen_at, lapse_told"""
READ: Final = f"SELECT {COLUMNS} FROM consumers WHERE id IN {{in}}"  # noqa: S608 - constants
LIST: Final = f"SELECT {COLUMNS} FROM consumers WHERE key_id = ? ORDER BY name"  # noqa: S608 - constants
COUNT: Final = "SELECT key_id, COUNT(*) FROM consumers WHERE key_id IN {in} GROUP BY key_id"
SAVE: Final = f"""
INSERT INTO consumers (id, {COLUMNS}) VALUES {{rows}}
ON CONFLICT (id) DO UPDATE SET types = excluded.types, subjects = excluded.subjects,
    committed_pos = excluded.committed_pos, committed_at = excluded.committed_at, served_pos = excluded.served_pos,
    served_at = excluded.served_at, quiet_pos = excluded.quiet_pos, counted_pos = excluded.counted_pos,
    counted = excluded.counted, created_at = excluded.created_at, seen_at = excluded.seen_at,
    lapse_told = excluded.lapse_told
"""  # noqa: S608 - constants
DROP: Final = "DELETE FROM consumers WHERE id IN {in}"
KEYS: Final = "SELECT DISTINCT key_id FROM consumers WHERE key_id > ? ORDER BY key_id LIMIT ?"
DROP_OF_KEY: Final = "DELETE FROM consumers WHERE key_id = ?"
DROP_OF_ACCOUNT: Final = "DELETE FROM consumers WHERE account_id = ?"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A key's named position in the log.

    `committed` moves only when the client acknowledges; `served` is the end of the furthest page served since the
    consumer was created, reset or restarted. No event after `committed` up to `quiet_pos` matches the filters.
    `counted` is the number of matching events after `committed` up to `counted_pos`.
    """

    key_id: str
    name: str
    account_id: str
    filters: Filters
    committed: Position
    served: Position
    quiet_pos: int
    counted_pos: int
    counted: int
    created_at: float
    seen_at: float
    lapse_told: bool = False

    @property
    def id(self) -> str:
        """The key of the row."""
        return consumer_id(self.key_id, self.name)


@dataclass(frozen=True, slots=True)
class Swap:
    """Replace the row `before` with `after`; None means no row. Both have the same key and name."""

    before: Consumer | None
    after: Consumer | None

    @property
    def consumer(self) -> Consumer:
        """The row before the swap, or the new row if none exists yet."""
        consumer = self.before or self.after
        assert consumer is not None, "a swap needs a row"
        return consumer


def consumer_id(key_id: str, name: str) -> str:
    """Join a key's id and a consumer's name into the key of the row. Neither part contains a slash."""
    return f"{key_id}/{name}"


def read_consumer(tx: Tx, key_id: str, name: str) -> Consumer | None:
    """Return the key's consumer of this name, or None."""
    rows = tx.all_in(READ, [consumer_id(key_id, name)])
    return _consumer(rows[0]) if rows else None


def list_consumers(tx: Tx, key_id: str) -> list[Consumer]:
    """Return all consumers of a key, sorted by name."""
    return [_consumer(row) for row in tx.all(LIST, (key_id,))]


def keys_with_consumers(tx: Tx, after: str, limit: int) -> list[str]:
    """Return up to `limit` ids of keys that have consumers, in order, starting after the id `after`."""
    return [key_id for (key_id,) in tx.all(KEYS, (after, limit))]


def forget_consumers(tx: Tx, key_id: str) -> int:
    """Delete all consumers of a key (at most `CONSUMERS_MAX`). Return how many."""
    return tx.run(DROP_OF_KEY, (key_id,))


def forget_consumers_of(tx: Tx, account_id: str) -> int:
    """Delete all consumers of an account, at most `CONSUMERS_MAX` per key. Return how many."""
    return tx.run(DROP_OF_ACCOUNT, (account_id,))


def swap_consumers(tx: Tx, swaps: Sequence[Swap]) -> list[bool | TooManyConsumers]:
    """Perform the swaps in order. For each, return whether it took effect, or the error (a batch handler).

    The keys are locked against other nodes.
    """
    key_ids = sorted({swap.consumer.key_id for swap in swaps})
    tx.lock([f"consumers {key_id}" for key_id in key_ids])
    rows = [_consumer(row) for row in tx.all_in(READ, sorted({swap.consumer.id for swap in swaps}))]
    counts: dict[str, int] = {}
    if any(swap.before is None for swap in swaps):
        counts = dict(tx.all_in(COUNT, key_ids))
    outcomes, changed = judge_swaps({row.id: row for row in rows}, counts, swaps)
    tx.run_many(SAVE, [_columns(one) for one in changed.values() if one is not None])
    tx.run_in(DROP, [id_ for id_, one in changed.items() if one is None])
    return outcomes


def judge_swaps(
    rows: Mapping[str, Consumer], counts: Mapping[str, int], swaps: Sequence[Swap]
) -> tuple[list[bool | TooManyConsumers], dict[str, Consumer | None]]:
    """Decide in order which `swaps` take effect on the current `rows`. `counts` is the number of consumers per key.

    Return the outcomes, and the changed rows by id; None means that the row is deleted.
    """
    held = dict(counts)
    changed: dict[str, Consumer | None] = {}
    outcomes: list[bool | TooManyConsumers] = []
    for swap in swaps:
        id_, key_id = swap.consumer.id, swap.consumer.key_id
        if (changed[id_] if id_ in changed else rows.get(id_)) != swap.before:
            outcomes.append(False)
        elif swap.before is None and held.get(key_id, 0) >= CONSUMERS_MAX:
            outcomes.append(TooManyConsumers(limit=CONSUMERS_MAX))
        else:
            held[key_id] = held.get(key_id, 0) + (swap.before is None) - (swap.after is None)
            changed[id_] = swap.after
            outcomes.append(True)
    return outcomes, changed


def _consumer(row: Row) -> Consumer:
    key_id, name, account_id, types, subjects, *places, quiet_pos, counted_pos, counted, created_at, seen_at, told = row
    return Consumer(
        key_id,
        name,
        account_id,
        _filters(_names(types), _names(subjects)),
        Position(places[0], places[1]),
        Position(places[2], places[3]),
        quiet_pos,
        counted_pos,
        counted,
        created_at,
        seen_at,
        bool(told),
    )


def _filters(named: frozenset[str] | None, subjects: frozenset[str] | None) -> Filters:
    """Return the filters, with families expanded on each read.

    A consumer therefore also gets types that were added to a family later.
    """
    return Filters(None if named is None else expand(named), subjects, named)


def _columns(one: Consumer) -> tuple[Value, ...]:
    texts = (_text(one.filters.named or one.filters.types), _text(one.filters.subjects))
    places = (*one.committed, *one.served, one.quiet_pos, one.counted_pos, one.counted)
    head = (one.id, one.key_id, one.name, one.account_id)
    return (*head, *texts, *places, one.created_at, one.seen_at, int(one.lapse_told))


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(msgspec.json.decode(text, type=list[str]))


def _text(names: frozenset[str] | None) -> str | None:
    return None if names is None else msgspec.json.encode(sorted(names)).decode()
