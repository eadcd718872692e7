"""Webhooks of monitors as rows, and the SQL that reads and writes them; secrets are sealed, each for its monitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final, Literal

from storage.store import Tx

COLUMNS: Final = "monitor_id, url, secret, previous_secret, previous_until, status, failures, last_delivery_at"
ADD = f"INSERT INTO webhooks ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - made of constants
READ = f"SELECT {COLUMNS} FROM webhooks WHERE monitor_id IN {{in}}"  # noqa: S608 - made of constants
SAVE_URL = "UPDATE webhooks SET url = ?, status = 'active', failures = 0 WHERE monitor_id = ?"
REMOVE = "DELETE FROM webhooks WHERE monitor_id = ?"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's row; while a rotation lasts, the previous secret signs too, until `previous_until`."""

    monitor_id: str
    url: str
    secret: str
    previous_secret: str | None = None
    previous_until: float | None = None
    status: Literal["active", "paused"] = "active"
    failures: int = 0
    last_delivery_at: float | None = None


def sealed_for(monitor_id: str) -> str:
    """What a webhook's secrets are bound to when they are sealed."""
    return f"webhook of {monitor_id}"


def add_webhook(tx: Tx, webhook: Webhook) -> None:
    """Keep a new webhook."""
    tx.run(ADD, astuple(webhook))


def read_webhooks(tx: Tx, monitor_ids: Sequence[str]) -> Mapping[str, Webhook]:
    """The webhooks of these monitors, by the monitor's id."""
    return {row[0]: Webhook(*row) for row in tx.all_in(READ, monitor_ids)}


def save_url(tx: Tx, monitor_id: str, url: str) -> bool:
    """Deliver there from now on; a webhook that was paused goes on. False: there is none."""
    return tx.run(SAVE_URL, (url, monitor_id)) == 1


def remove_webhook(tx: Tx, monitor_id: str) -> None:
    """Deliver nothing more; harmless where there is none."""
    tx.run(REMOVE, (monitor_id,))
