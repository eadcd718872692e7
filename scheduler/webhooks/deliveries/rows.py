"""The SQL of deliveries and attempts. Each function runs in the caller's transaction.

A delivery is ready once its `next_at` has passed. A lease moves `next_at` to the end of the lease, so a delivery whose
node died becomes ready again like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.rows import values_of
from scheduler.webhooks.deliveries.turns import DueDelivery
from scheduler.webhooks.records import PAUSED, REMOVED, AttemptRow, Delivery, Leased, Webhook
from scheduler.webhooks.targets import hook_rows
from storage.store import Item, Tx

POSTPONED_S: Final = 30.0
COLUMNS: Final = """
deliveries.id, deliveries.run_id, deliveries.monitor_id, deliveries.account_id, deliveries.host, deliveries.status,
deliveries.attempts, deliveries.next_at, deliveries.node, deliveries.lease_until, deliveries.created_at,
deliveries.delivered_at, deliveries.failed_at, deliveries.last_status, deliveries.redelivered_after,
deliveries.fail_reason
"""
ADD = """
INSERT INTO deliveries (id, run_id, monitor_id, account_id, host, body, status, attempts, next_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, 'queued', 0, ?, ?)
"""
DUE = """
SELECT next_at, host, account_id, id FROM deliveries WHERE status = 'queued' AND next_at <= ?
ORDER BY next_at, id LIMIT ?
"""
NEXT = "SELECT MIN(next_at) FROM deliveries WHERE status = 'queued' AND next_at > ?"
# The query moves from line to line with one index step each, and in a ready line from one delivery to the next.
# Deliveries further back in a line are never read. COALESCE is needed because SQLite seeks by all columns of a pair
# only if they are compared with an untyped expression; otherwise it scans a host's whole queue.
WALK = """
WITH RECURSIVE walked (next_at, host, account_id, id, place, seen) AS (
    SELECT next_at, host, account_id, id, 1, 1 FROM deliveries WHERE id = (
        SELECT id FROM deliveries WHERE status = 'queued' AND (host, account_id) > (?, ?)
        ORDER BY host, account_id, next_at, id LIMIT 1)
    UNION ALL
    SELECT found.next_at, found.host, found.account_id, found.id,
        CASE WHEN found.host = walked.host AND found.account_id = walked.account_id THEN walked.place + 1 ELSE 1 END,
        walked.seen + 1
    FROM walked JOIN deliveries AS found ON found.id = COALESCE(
        CASE WHEN walked.place < ? THEN (
            SELECT id FROM deliveries AS behind
            WHERE status = 'queued' AND behind.host = walked.host AND behind.account_id = walked.account_id
            AND (behind.next_at, behind.id) > (walked.next_at, COALESCE(walked.id, '')) AND behind.next_at <= ?
            ORDER BY behind.next_at, behind.id LIMIT 1) END,
        (SELECT id FROM deliveries AS beside
            WHERE status = 'queued'
            AND (beside.host, beside.account_id) > (walked.host, COALESCE(walked.account_id, ''))
            ORDER BY beside.host, beside.account_id, beside.next_at, beside.id LIMIT 1))
    WHERE walked.seen < ?
)
SELECT next_at, host, account_id, id FROM walked
"""
LOCK = """
SELECT id, status, next_at, (SELECT state FROM accounts WHERE accounts.id = account_id) FROM deliveries
WHERE id IN {in} ORDER BY id {lock}
"""
POSTPONE = "UPDATE deliveries SET next_at = ? WHERE id IN {in}"
READ_BODIES = "SELECT id, body FROM deliveries WHERE id IN {in}"
READ_MANY = f"SELECT {COLUMNS} FROM deliveries WHERE id IN {{in}}"  # noqa: S608 - made of constants
LOCK_MANY = f"{READ_MANY} ORDER BY id {{lock}}"
LEASE = "UPDATE deliveries SET node = ?, lease_until = ?, next_at = ? WHERE id IN {in}"
END_UNTRIED = """
UPDATE deliveries SET status = 'failed', next_at = NULL, node = NULL, lease_until = NULL, failed_at = ?, fail_reason = ?
WHERE id IN {in}
"""
END_LEASES = "UPDATE deliveries SET node = NULL, lease_until = NULL, next_at = ? WHERE lease_until IS NOT NULL"
END_LEASES_OF = f"{END_LEASES} AND node = ?"
SAVE = """
WITH changed (id, status, attempts, next_at, delivered_at, failed_at, last_status, fail_reason) AS (VALUES {rows})
UPDATE deliveries SET status = changed.status, attempts = changed.attempts, node = NULL, lease_until = NULL,
    next_at = CAST(changed.next_at AS DOUBLE PRECISION), delivered_at = CAST(changed.delivered_at AS DOUBLE PRECISION),
    failed_at = CAST(changed.failed_at AS DOUBLE PRECISION), last_status = CAST(changed.last_status AS BIGINT),
    fail_reason = changed.fail_reason
FROM changed WHERE deliveries.id = changed.id
"""
_attempt_values = values_of(AttemptRow)
ADD_ATTEMPTS = """
INSERT INTO attempts (delivery_id, number, at, status, error, latency_ms, answer) VALUES {rows}
"""
LOG_READ = f"SELECT {COLUMNS} FROM deliveries WHERE id = ?"  # noqa: S608 - made of constants
LOG_NEWEST = f"""
SELECT {COLUMNS} FROM deliveries WHERE monitor_id = ? ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
LOG_NEXT = f"""
SELECT {COLUMNS} FROM deliveries WHERE monitor_id = ? AND (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
LOG_ATTEMPTS = """
SELECT delivery_id, number, at, status, error, latency_ms, answer FROM attempts WHERE delivery_id IN {in}
ORDER BY delivery_id, number
"""
LOG_SIZES = "SELECT delivery_id, SUM(LENGTH(answer)) FROM attempts WHERE delivery_id IN {in} GROUP BY delivery_id"
QUEUE_AGAIN = """
UPDATE deliveries SET status = 'queued', next_at = ?, host = ?, redelivered_after = attempts, node = NULL,
    lease_until = NULL, delivered_at = NULL, failed_at = NULL, fail_reason = NULL
WHERE id = ?
"""


class QueuedDelivery(NamedTuple):
    """The row of a new delivery. Its body never changes, and every attempt sends these bytes."""

    id: str
    run_id: str | None
    monitor_id: str
    account_id: str
    host: str
    body: bytes


def add_delivery(tx: Tx, queued: QueuedDelivery, *, at: float) -> None:
    """Store a new delivery, which is ready immediately."""
    tx.run(ADD, (*queued, at, at))


def due_first(tx: Tx, at: float, *, limit: int) -> list[DueDelivery]:
    """Return the deliveries that have been ready the longest."""
    return [DueDelivery(*row) for row in tx.all(DUE, (at, limit))]


def next_at(tx: Tx, at: float) -> float | None:
    """Return when the next delivery after `at` becomes ready, or the next lease expires; None if there is neither."""
    row = tx.one(NEXT, (at,))
    return None if row is None else row[0]


def walk_lines(tx: Tx, after: tuple[str, str], at: float, *, each: int, limit: int) -> list[DueDelivery]:
    """Return the first ready deliveries of each line after `after`, which is a host and an account.

    A line without a ready delivery is included with its next delivery, so that a later walk can start after it.
    """
    return [DueDelivery(*row) for row in tx.all(WALK, (*after, each, at, limit))]


def lease(tx: Tx, ids: Sequence[str], node: str, *, at: float, until: float) -> list[Leased]:
    """Lease the given deliveries that are still available for `node`, and return them.

    Deliveries without a webhook end here without an attempt. Deliveries of a suspended account are postponed and
    checked again at intervals until the account is resumed.
    """
    rows = [row for row in tx.all_in(LOCK, ids) if row[1] == "queued" and row[2] <= at]
    tx.run_in(POSTPONE, [row[0] for row in rows if row[3] != "active"], (at + POSTPONED_S,))
    free = [row[0] for row in rows if row[3] == "active"]
    tx.run_in(LEASE, free, (node, until, until))
    found = {row[0]: Delivery(*row) for row in tx.all_in(READ_MANY, free)}
    webhooks = hook_rows.read_webhooks(tx, sorted({one.monitor_id for one in found.values()}))
    usable = _end_untried(tx, found, webhooks, at=at)
    bodies: dict[str, bytes] = dict(tx.all_in(READ_BODIES, usable))
    return [Leased(found[id_], bodies[id_], webhooks[found[id_].monitor_id]) for id_ in usable]


def _end_untried(tx: Tx, found: Mapping[str, Delivery], webhooks: Mapping[str, Webhook], *, at: float) -> list[str]:
    """End the deliveries without an active webhook, and return the others."""
    usable: list[str] = []
    removed: list[str] = []
    paused: list[str] = []
    for id_, one in found.items():
        webhook = webhooks.get(one.monitor_id)
        kind = removed if webhook is None else paused if webhook.status == "paused" else usable
        kind.append(id_)
    tx.run_in(END_UNTRIED, removed, (at, REMOVED))
    tx.run_in(END_UNTRIED, paused, (at, PAUSED))
    return usable


def end_leases(tx: Tx, node: str | None, *, at: float) -> int:
    """Make the deliveries leased by `node` ready again, and return their number. None means all nodes."""
    return tx.run(END_LEASES, (at,)) if node is None else tx.run(END_LEASES_OF, (at, node))


def read_locked(tx: Tx, ids: Sequence[str]) -> dict[str, Delivery]:
    """Lock and return these deliveries."""
    return {row[0]: Delivery(*row) for row in tx.all_in(LOCK_MANY, ids)}


def save_deliveries(tx: Tx, deliveries: Sequence[Delivery]) -> None:
    """Save the progress of deliveries, which ends their leases."""
    if deliveries:
        tx.run_many(SAVE, [_saved(one) for one in deliveries])


def add_attempts(tx: Tx, attempts: Sequence[AttemptRow]) -> None:
    """Store finished attempts."""
    if attempts:
        tx.run_many(ADD_ATTEMPTS, [_attempt_values(one) for one in attempts])


def _saved(one: Delivery) -> tuple[Item, ...]:
    counted = (one.id, one.status, one.attempts)
    return (*counted, one.next_at, one.delivered_at, one.failed_at, one.last_status, one.fail_reason)


def read_delivery(tx: Tx, delivery_id: str, *, locked: bool = False) -> Delivery | None:
    """Return the delivery with this id, or None."""
    row = tx.one(f"{LOG_READ} {{lock}}" if locked else LOG_READ, (delivery_id,))
    return None if row is None else Delivery(*row)


def deliveries_of(tx: Tx, monitor_id: str, *, before: tuple[float, str] | None, limit: int) -> list[Delivery]:
    """Return a monitor's deliveries, newest first."""
    found = (
        tx.all(LOG_NEWEST, (monitor_id, limit)) if before is None else tx.all(LOG_NEXT, (monitor_id, *before, limit))
    )
    return [Delivery(*row) for row in found]


def attempts_of(tx: Tx, delivery_ids: Sequence[str]) -> dict[str, list[AttemptRow]]:
    """Return the attempts of each of these deliveries, in order. Deliveries without attempts are left out."""
    found: dict[str, list[AttemptRow]] = {}
    for row in tx.all_in(LOG_ATTEMPTS, delivery_ids):
        found.setdefault(row[0], []).append(AttemptRow(*row))
    return found


def answer_sizes(tx: Tx, delivery_ids: Sequence[str]) -> dict[str, int]:
    """Return the total length of the stored responses of each delivery. Deliveries without responses are left out."""
    return {delivery_id: int(size or 0) for delivery_id, size in tx.all_in(LOG_SIZES, delivery_ids)}


def queue_again(tx: Tx, delivery_id: str, host: str, *, at: float) -> None:
    """Start a new series of attempts, ready immediately."""
    tx.run(QUEUE_AGAIN, (at, host, delivery_id))
