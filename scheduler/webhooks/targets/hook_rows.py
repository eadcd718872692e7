"""The SQL of webhooks. Each function runs in the caller's transaction.

Code that locks several kinds of rows locks monitors first, then webhooks, then runs and deliveries, and feeds last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.rows import values_of
from scheduler.webhooks.records import PAUSED, REMOVED, FailReason, Webhook
from storage.store import Tx

COLUMNS: Final = "monitor_id, url, secret, previous_secret, previous_until, status, failures, last_delivery_at, host"
ADD = f"INSERT INTO webhooks ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM webhooks WHERE monitor_id IN {{in}}"  # noqa: S608 - made of constants
LOCK = f"{READ} ORDER BY monitor_id {{lock}}"
SAVE_URL = "UPDATE webhooks SET url = ?, host = ?, status = 'active', failures = 0 WHERE monitor_id = ?"
MOVE = "UPDATE deliveries SET host = ? WHERE monitor_id = ? AND status = 'queued'"
RESUME = "UPDATE webhooks SET status = 'active', failures = 0 WHERE monitor_id = ?"
ROTATE = "UPDATE webhooks SET previous_secret = secret, previous_until = ?, secret = ? WHERE monitor_id = ?"
SAVE = """
WITH changed (monitor_id, status, failures, last_delivery_at) AS (VALUES {rows})
UPDATE webhooks SET status = changed.status, failures = changed.failures,
    last_delivery_at = CAST(changed.last_delivery_at AS DOUBLE PRECISION)
FROM changed WHERE webhooks.monitor_id = changed.monitor_id
"""
_values = values_of(Webhook)
REMOVE = "DELETE FROM webhooks WHERE monitor_id = ?"
DROP = "DELETE FROM deliveries WHERE monitor_id = ?"
# Attempts in progress are not interrupted.
DROP_QUEUED = """
UPDATE deliveries SET status = 'failed', next_at = NULL, failed_at = ?, fail_reason = ?
WHERE status = 'queued' AND lease_until IS NULL AND monitor_id IN {in}
"""


def add_webhook(tx: Tx, webhook: Webhook) -> None:
    """Store a new webhook."""
    tx.run(ADD, _values(webhook))


def read_webhooks(tx: Tx, monitor_ids: Sequence[str], *, locked: bool = False) -> Mapping[str, Webhook]:
    """Return the webhooks of these monitors by monitor id."""
    return {row[0]: Webhook(*row) for row in tx.all_in(LOCK if locked else READ, monitor_ids)}


def save_url(tx: Tx, monitor_id: str, url: str, host: str) -> None:
    """Save a sealed URL and its host, move queued deliveries to that host, and resume a paused webhook."""
    tx.run(SAVE_URL, (url, host, monitor_id))
    tx.run(MOVE, (host, monitor_id))


def resume(tx: Tx, monitor_id: str) -> bool:
    """Resume a webhook and reset its failure count. Return False if the webhook does not exist."""
    return tx.run(RESUME, (monitor_id,)) == 1


def rotate(tx: Tx, monitor_id: str, secret: str, *, previous_until: float) -> bool:
    """Save a new sealed secret. Until `previous_until`, deliveries are also signed with the previous secret.

    Return False if the webhook does not exist.
    """
    return tx.run(ROTATE, (previous_until, secret, monitor_id)) == 1


def save_webhooks(tx: Tx, webhooks: Sequence[Webhook], *, at: float) -> None:
    """Save the changes that attempts have made, and end the deliveries queued for paused webhooks."""
    if webhooks:
        tx.run_many(SAVE, [(one.monitor_id, one.status, one.failures, one.last_delivery_at) for one in webhooks])
        drop_queued(tx, [one.monitor_id for one in webhooks if one.status == "paused"], PAUSED, at=at)


def remove_webhook(tx: Tx, monitor_id: str, *, at: float) -> None:
    """Delete a webhook, if there is one, and end its queued deliveries."""
    tx.run(REMOVE, (monitor_id,))
    drop_queued(tx, [monitor_id], REMOVED, at=at)


def forget_webhook(tx: Tx, monitor_id: str) -> None:
    """Delete a webhook whose deliveries are deleted separately."""
    tx.run(REMOVE, (monitor_id,))


def forget_delivery(tx: Tx, job_id: str) -> None:
    """Delete the webhook of a job and its only delivery, if the job has a webhook."""
    tx.run(REMOVE, (job_id,))
    tx.run(DROP, (job_id,))


def drop_queued(tx: Tx, monitor_ids: Sequence[str], reason: FailReason, *, at: float) -> None:
    """End the queued deliveries of these monitors' webhooks as failed."""
    tx.run_in(DROP_QUEUED, monitor_ids, (at, reason))
