"""Tracks the live nodes of a shared store by their heartbeats. Another node takes over the work of a silent node.

Times are on the database's clock. A node that was declared dead stays dead, and must use a new id if it still runs. For
an hour, its work can be taken over repeatedly. This closes work that remained because the node that took over died too,
and work that the node began before it noticed that it had been declared dead.
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
# A single statement, so that if two nodes run it at the same time, the second one sees the changes of the first.
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
    """Join with an unused id.

    `shares_state` says whether this node shares its limits and changes of keys with other nodes.
    """
    tx.run(JOIN, (node_id, int(shares_state)))


def rivals(tx: Tx, node_id: str, *, shares_state: bool, dead_after_s: float = DEAD_AFTER_S) -> dict[str, float]:
    """Return the live nodes that conflict with `node_id`, and when each of them was last seen.

    `node_id` may not have joined yet. Times are on the database's clock. A node that does not share its state must run
    alone. If two nodes conflict, the one that joined later must stop.
    """
    found = tx.all(RIVALS, (node_id, node_id, dead_after_s, int(shares_state)))
    return dict(found)


def beat(tx: Tx, node_id: str) -> bool:
    """Record a heartbeat. Return False if the node was declared dead and another node has taken over its work."""
    return tx.run(BEAT, (node_id,)) == 1


def leave(tx: Tx, node_id: str) -> None:
    """Leave the store.

    Call this only when all work is closed; a node with open work must be declared dead by another one.
    """
    tx.run(LEAVE, (node_id,))


def take_over(tx: Tx, node_id: str, *, dead_after_s: float = DEAD_AFTER_S) -> list[str]:
    """Return the dead nodes whose work `node_id` must close now.

    Each dead node is assigned to one node at a time. Report a completed recovery with `recovered`.
    """
    tx.run(FORGET, (FORGET_AFTER_S,))
    taken = tx.all(TAKE_OVER, (node_id, dead_after_s, dead_after_s, node_id))
    return sorted(id_ for (id_,) in taken)


def unknown(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Return the ids that do not belong to a known node: the node has left, or it died and was deleted later."""
    return sorted(id_ for (id_,) in tx.all_in(UNKNOWN, ids))


def recovered(tx: Tx, node_id: str, dead_id: str) -> None:
    """Record that `node_id` has closed everything that `dead_id` had open."""
    tx.run(RECOVERED, (dead_id, node_id))


def living(tx: Tx, *, dead_after_s: float = DEAD_AFTER_S) -> list[str]:
    """Return the live nodes."""
    return [id_ for (id_,) in tx.all(LIVING, (dead_after_s,))]


def m0001_nodes(schema: Schema) -> None:
    """Create `nodes`, with one row per node. A node with a `taken_at` was declared dead."""
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
    """Add a column for whether a node shares its volatile state. Nodes that joined earlier are assumed to share it."""
    schema.execute(
        "ALTER TABLE nodes ADD COLUMN shares_state INTEGER NOT NULL DEFAULT 1 CHECK (shares_state IN (0, 1))"
    )


MIGRATIONS = MigrationSet("nodes", (m0001_nodes, m0002_shares_state))
