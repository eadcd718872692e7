"""The SQL of account webhooks. Each function runs in the caller's transaction.

The URL, the secrets and the failure count are in `webhooks` under the same id, as for Monitors. Code that locks both
rows must lock the row in this module's table first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from events.filters import ALL, Filters
from events.log import kinds
from scheduler.rows import values_of
from scheduler.webhooks.errors import AccountWebhookUnknown
from scheduler.webhooks.targets import hook_rows
from storage.store import Tx

QUEUED_MAX: Final = 8
"""The maximum number of batches that a webhook has queued or in progress.

Later events stay in the feed and are sent in larger batches.
"""
DROPPED_AT_ONCE: Final = 25
COLUMNS: Final = "id, account_id, description, types, pos, created_at, updated_at"
ADD = f"INSERT INTO account_webhooks ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM account_webhooks WHERE id = ?"  # noqa: S608 - made of constants
COUNT = "SELECT COUNT(*) FROM account_webhooks WHERE account_id = ?"
NEWEST = f"""
SELECT {COLUMNS} FROM account_webhooks WHERE account_id = ? ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
NEXT = f"""
SELECT {COLUMNS} FROM account_webhooks WHERE account_id = ? AND (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?
"""  # noqa: S608 - made of constants
SAVE = "UPDATE account_webhooks SET description = ?, types = ?, updated_at = ? WHERE id = ?"
MOVE = "UPDATE account_webhooks SET pos = ? WHERE id = ?"
REMOVE = "DELETE FROM account_webhooks WHERE id = ?"
ACCOUNTS = "SELECT DISTINCT account_id FROM account_webhooks"
QUEUED = "(SELECT COUNT(*) FROM deliveries WHERE monitor_id = {} AND status = 'queued' AND run_id IS NULL)"
DUE = f"""
SELECT hooks.id, {QUEUED.format("hooks.id")} FROM account_webhooks AS hooks
JOIN feeds ON feeds.account_id = hooks.account_id JOIN webhooks ON webhooks.monitor_id = hooks.id
WHERE feeds.last_pos > hooks.pos AND webhooks.status = 'active' AND hooks.id > ? ORDER BY hooks.id LIMIT ?
"""  # noqa: S608 - made of constants
COUNT_QUEUED = f"SELECT {QUEUED.format('?')}"
DROP_DELIVERIES = """
DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE monitor_id = ? LIMIT ?)
"""


@dataclass(frozen=True, slots=True)
class AccountWebhook:
    """A webhook's row. `types` is the comma-separated list that the owner sent.

    Every event of the account up to position `pos` either was queued in a delivery or was not selected.
    """

    id: str
    account_id: str
    description: str
    types: str
    pos: int
    created_at: float
    updated_at: float

    @property
    def names(self) -> tuple[str, ...]:
        """The event types and families that the webhook selects."""
        return kinds.named_in(self.types)

    @property
    def filters(self) -> Filters:
        """The events that the webhook selects. Families are expanded here, because later versions may extend them."""
        return ALL if kinds.ALL in self.names else Filters(types=kinds.expand(self.names))


_values = values_of(AccountWebhook)


def add(tx: Tx, webhook: AccountWebhook) -> None:
    """Store a new webhook."""
    tx.run(ADD, _values(webhook))


def read(tx: Tx, webhook_id: str, *, locked: bool = False) -> AccountWebhook | None:
    """Return the webhook with this id, or None.

    If `locked`, lock it until the end of the transaction, so that one node at a time queues for it.
    """
    row = tx.one(f"{READ} {{lock}}" if locked else READ, (webhook_id,))
    return None if row is None else AccountWebhook(*row)


def owned(tx: Tx, account_id: str, webhook_id: str, *, locked: bool = False) -> AccountWebhook:
    """Return the account's webhook.

    Raises:
        AccountWebhookUnknown: the account has no such webhook.
    """
    webhook = read(tx, webhook_id, locked=locked)
    if webhook is None or webhook.account_id != account_id:
        raise AccountWebhookUnknown(webhook_id)
    return webhook


def check_owner(tx: Tx, account_id: str, webhook_id: str, *, locked: bool = False) -> None:
    """Check that the webhook belongs to the account. Raises AccountWebhookUnknown."""
    owned(tx, account_id, webhook_id, locked=locked)


def count(tx: Tx, account_id: str) -> int:
    """Return the number of webhooks of the account."""
    row = tx.one(COUNT, (account_id,))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def page(tx: Tx, account_id: str, *, before: tuple[float, str] | None, limit: int) -> list[AccountWebhook]:
    """Return a page of the account's webhooks, newest first."""
    found = tx.all(NEWEST, (account_id, limit)) if before is None else tx.all(NEXT, (account_id, *before, limit))
    return [AccountWebhook(*row) for row in found]


def save(tx: Tx, webhook: AccountWebhook) -> None:
    """Save the fields that the owner may change."""
    tx.run(SAVE, (webhook.description, webhook.types, webhook.updated_at, webhook.id))


def move(tx: Tx, webhook_id: str, pos: int) -> None:
    """Record that all events up to position `pos` have been processed."""
    tx.run(MOVE, (pos, webhook_id))


def accounts(tx: Tx) -> frozenset[str]:
    """Return the ids of the accounts that have webhooks."""
    return frozenset(row[0] for row in tx.all(ACCOUNTS))


def due(tx: Tx, after: str, limit: int) -> Sequence[tuple[str, int]]:
    """Return active webhooks with unprocessed events, ordered by id, and how many batches each has queued."""
    return [(id_, queued) for id_, queued in tx.all(DUE, (after, limit))]


def count_queued(tx: Tx, webhook_id: str) -> int:
    """Return the number of the webhook's batches that are queued or in progress."""
    row = tx.one(COUNT_QUEUED, (webhook_id,))
    assert row is not None, "COUNT returns one row"
    return int(row[0])


def remove(tx: Tx, webhook_id: str) -> None:
    """Delete a webhook. Its queued deliveries end at their next attempt; `drop_deliveries` deletes all of them."""
    tx.run(REMOVE, (webhook_id,))
    hook_rows.forget_webhook(tx, webhook_id)


def drop_deliveries(tx: Tx, webhook_id: str) -> int:
    """Delete a batch of deliveries that belong to a deleted webhook, and return their number."""
    return tx.run(DROP_DELIVERIES, (webhook_id, DROPPED_AT_ONCE))


def forget_webhooks_of(tx: Tx, account_id: str) -> int:
    """Delete a batch of rows that belong to the account's webhooks; the webhooks themselves come last.

    Return 0 once none are left.
    """
    for webhook in page(tx, account_id, before=None, limit=1):
        if not (dropped := drop_deliveries(tx, webhook.id)):
            remove(tx, webhook.id)
        return dropped or 1
    return 0
