"""The SQL of the delivery log, as its owner reads it: each function runs in a transaction of its caller's."""

from __future__ import annotations

from scheduler.webhooks.deliveries.rows import COLUMNS
from scheduler.webhooks.records import AttemptRow, Delivery
from storage.store import Tx

READ = f"SELECT {COLUMNS} FROM deliveries WHERE id = ?"  # noqa: S608 - made of constants
NEWEST = f"""
SELECT {COLUMNS} FROM deliveries WHERE monitor_id = ? ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
NEXT = f"""
SELECT {COLUMNS} FROM deliveries WHERE monitor_id = ? AND (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
ATTEMPTS = """
SELECT delivery_id, number, at, status, error, latency_ms, answer FROM attempts WHERE delivery_id = ?
ORDER BY number
"""
QUEUE_AGAIN = """
UPDATE deliveries SET status = 'queued', next_at = ?, host = ?, redelivered_after = attempts, node = NULL,
    lease_until = NULL, delivered_at = NULL, failed_at = NULL, fail_reason = NULL
WHERE id = ?
"""


def read_delivery(tx: Tx, delivery_id: str, *, locked: bool = False) -> Delivery | None:
    """The delivery of this id."""
    row = tx.one(f"{READ} {{lock}}" if locked else READ, (delivery_id,))
    return None if row is None else Delivery(*row)


def deliveries_of(tx: Tx, monitor_id: str, *, before: tuple[float, str] | None, limit: int) -> list[Delivery]:
    """A monitor's deliveries, newest first."""
    found = tx.all(NEWEST, (monitor_id, limit)) if before is None else tx.all(NEXT, (monitor_id, *before, limit))
    return [Delivery(*row) for row in found]


def attempts_of(tx: Tx, delivery_id: str) -> list[AttemptRow]:
    """The attempts of a delivery in their order."""
    return [AttemptRow(*row) for row in tx.all(ATTEMPTS, (delivery_id,))]


def queue_again(tx: Tx, delivery_id: str, host: str, *, at: float) -> None:
    """Begin a new series of attempts, due at once."""
    tx.run(QUEUE_AGAIN, (at, host, delivery_id))
