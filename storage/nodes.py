"""Tracks the live nodes: each node of a shared store beats by the database's own clock, and a silent one is taken over.

A node that was declared dead stays so: it must take a new id. It is offered for taking over again and again for an
hour, so that nothing stays behind of one that died while it took another over, or that was only paused and went on for
a moment before it noticed.
"""

from collections.abc import Sequence
from typing import Final

from storage.migrations import MigrationSet, Schema
from storage.store import Tx

BEAT_S: Final = 5.0
DEAD_AFTER_S: Final = 20.0
FORGET_AFTER_S: Final = 3600.0

JOIN = "INSERT INTO nodes (id, started_at, seen_at, shares_state) VALUES (?, {now}, {now}, ?)"
BEAT = "UPDATE nodes SET seen_at = {now} WHERE id = ? AND taken_at IS NULL"
LEAVE = "DELETE FROM nodes WHERE id = ? AND taken_at IS NULL"
# One statement, so that of two nodes the second looks at the row again after the first has changed it.
TAKE_OVER = """
UPDATE nodes SET taken_by = ?, taken_at = {now}
WHERE seen_at < {now} - ? AND (taken_at IS NULL OR taken_at < {now} - ?) AND id <> ? RETURNING id
"""
RECOVERED = "UPDATE nodes SET recovered_at = {now} WHERE id = ? AND taken_by = ?"
FORGET = "DELETE FROM nodes WHERE seen_at < {now} - ? AND recovered_at IS NOT NULL"
UNKNOWN = "SELECT asked.value FROM {in} AS asked LEFT JOIN nodes ON nodes.id = asked.value WHERE nodes.id IS NULL"
RIVALS = """
SELECT other.id, other.seen_at FROM nodes AS other LEFT JOIN nodes AS own ON own.id = ?
WHERE other.id <> ? AND other.taken_at IS NULL AND other.seen_at >= {now} - ? AND (other.shares_state = 0 OR ? = 0)
AND (own.id IS NULL OR (other.started_at, other.id) < (own.started_at, own.id))
"""
LIVING = "SELECT id FROM nodes WHERE taken_at IS NULL AND seen_at >= {now} - ? ORDER BY id"


def join(tx: Tx, node_id: str, *, shares_state: bool) -> None:
    """Begin to live under an id that nobody has had; tell whether limits and keys' changes are shared with others."""
    tx.run(JOIN, (node_id, int(shares_state)))


def rivals(tx: Tx, node_id: str, *, shares_state: bool, dead_after_s: float = DEAD_AFTER_S) -> dict[str, float]:
    """Return the nodes that must not live beside `node_id`, which may not have joined yet, and when each was last seen.

    Instants are those of the database's clock. A node that keeps its state to itself has to be alone; of two that do
    not, the one that joined later is wrong.
    """
    found = tx.all(RIVALS, (node_id, node_id, dead_after_s, int(shares_state)))
    return dict(found)


def beat(tx: Tx, node_id: str) -> bool:
    """Say that the node lives; False: it was declared dead, and what it had begun is another's now."""
    return tx.run(BEAT, (node_id,)) == 1


def leave(tx: Tx, node_id: str) -> None:
    """Go, with everything closed. Whoever leaves something open must die instead."""
    tx.run(LEAVE, (node_id,))


def take_over(tx: Tx, node_id: str, *, dead_after_s: float = DEAD_AFTER_S) -> list[str]:
    """The dead nodes that `node_id` has now to recover, each given to one node at a time; see `recovered`."""
    tx.run(FORGET, (FORGET_AFTER_S,))
    taken = tx.all(TAKE_OVER, (node_id, dead_after_s, dead_after_s, node_id))
    return sorted(id_ for (id_,) in taken)


def unknown(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Return those of the ids that are nobody's: their nodes left, or died so long ago that they are forgotten."""
    return sorted(id_ for (id_,) in tx.all_in(UNKNOWN, ids))


def recovered(tx: Tx, node_id: str, dead_id: str) -> None:
    """Say that `node_id` has closed all that `dead_id` had open."""
    tx.run(RECOVERED, (dead_id, node_id))


def living(tx: Tx, *, dead_after_s: float = DEAD_AFTER_S) -> list[str]:
    """The nodes that live."""
    return [id_ for (id_,) in tx.all(LIVING, (dead_after_s,))]


def m0001_nodes(schema: Schema) -> None:
    """One row a node; `taken_at` tells that it was declared dead."""
    schema.execute("""
    CREATE TABLE nodes (
        id TEXT PRIMARY KEY,
        started_at DOUBLE PRECISION NOT NULL,
        seen_at DOUBLE PRECISION NOT NULL,
        taken_by TEXT,
        taken_at DOUBLE PRECISION,
        recovered_at DOUBLE PRECISION,
        CHECK ((taken_by IS NULL) = (taken_at IS NULL))
    )
    """)


def m0002_shares_state(schema: Schema) -> None:
    """Whether the node shares what may be lost with others; of those that joined before, it is believed."""
    schema.execute(
        "ALTER TABLE nodes ADD COLUMN shares_state INTEGER NOT NULL DEFAULT 1 CHECK (shares_state IN (0, 1))"
    )


MIGRATIONS = MigrationSet("nodes", (m0001_nodes, m0002_shares_state))
