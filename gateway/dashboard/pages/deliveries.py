"""The log of a webhook's deliveries, both for a Monitor and for the account."""

from __future__ import annotations

from typing import Any, Final

from quart import request

from gateway.dashboard.forms import position_of, position_text
from gateway.dashboard.frame import account_id
from scheduler.account_webhooks.batches import batch_id
from scheduler.monitors.webhooks import Logged, Webhooks

DELIVERIES: Final = 10
ATTEMPTS: Final = 6
"""The number of attempts shown, newest first: one full series of retries. The API returns all attempts."""
_ANSWER_MAX: Final = 500


async def read_log(webhooks: Webhooks, owner_id: str) -> dict[str, Any]:
    """Read the deliveries to an owner's webhook after the position in the URL, newest first.

    Raises:
        MonitorUnknown, AccountWebhookUnknown: the account has no such Monitor or webhook.
    """
    before = position_of(request.args.get("before", ""))
    page = await webhooks.deliveries(account_id(), owner_id, before=before, limit=DELIVERIES)
    last = page.entries[-1].delivery if page.has_more else None
    return {
        "entries": [_entry(one) for one in page.entries],
        "older": "" if last is None else position_text(last.created_at, last.id),
        "is_first": before is None,
    }


def _entry(logged: Logged) -> dict[str, Any]:
    delivery = logged.delivery
    return {
        "delivery": delivery,
        "subject": delivery.run_id or batch_id(delivery.id),
        "attempts": [{"row": each, "answer": each.answer[:_ANSWER_MAX]} for each in logged.attempts[-ATTEMPTS:]],
        "made": len(logged.attempts),
    }
