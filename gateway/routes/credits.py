"""The account's money: balance and transactions, free and never cached (decisions 4)."""

from __future__ import annotations

from typing import Any

import orjson

from billing.ledger import Ledger, Transaction
from events.instants import iso
from gateway.params import CURSOR, read_free
from gateway.replies import Replies, account_fragment
from gateway.request import Caller, Reply, Request
from gateway.routing import Route
from upstreams.cursors import CursorSigner
from upstreams.params import Param

_TRANSACTIONS = (
    Param("limit", "Entries on a page.", "50", type="integer", default=50, minimum=1, maximum=100),
    Param("request_id", "Only the entries of this request.", "req_..."),
    CURSOR,
)


class Credits:
    """Answers `/v1/credits/*`."""

    def __init__(self, ledger: Ledger, *, signer: CursorSigner, replies: Replies) -> None:
        self._ledger = ledger
        self._signer = signer
        self._replies = replies

    @property
    def routes(self) -> tuple[Route, ...]:
        """The two routes."""
        return (Route("/v1/credits/balance", self.balance), Route("/v1/credits/transactions", self.transactions))

    async def balance(self, request: Request, caller: Caller) -> Reply:
        """What can be spent, what is held, what was deducted lately."""
        read_free(request.query, ())
        report = await self._ledger.report(caller.key.account_id)
        data = {
            "balance": report.balance,
            "held": report.held,
            "recent_deductions": {"last_24h": report.last_24h, "last_7d": report.last_7d},
        }
        return await self._replies.free(request, caller, account_fragment(request.path, data))

    async def transactions(self, request: Request, caller: Caller) -> Reply:
        """The statement, newest first."""
        values = read_free(request.query, _TRANSACTIONS)
        limit, request_id = int(values["limit"]), values.get("request_id")
        binding = orjson.dumps([request.path, caller.key.account_id, request_id])
        before = None
        if "cursor" in values:
            before = int(self._signer.open(binding, str(values["cursor"]))["id"])
        found = await self._ledger.transactions(
            caller.key.account_id,
            limit=limit + 1,
            before=before,
            request_id=None if request_id is None else str(request_id),
        )
        page = found[:limit]
        more = self._signer.seal(binding, {"id": page[-1].id}) if len(found) > limit else None
        pagination = {"next_cursor": more, "has_more": more is not None, "page_size": len(page)}
        stored = account_fragment(request.path, {"items": [_item(entry) for entry in page]}, pagination)
        return await self._replies.free(request, caller, stored)


def _item(entry: Transaction) -> dict[str, Any]:
    return {
        "id": f"txn_{entry.id}",
        "type": entry.type,
        "amount": entry.amount,
        "balance_after": entry.balance_after,
        "description": entry.description,
        "endpoint": entry.endpoint,
        "platform": entry.platform,
        "request_id": entry.request_id,
        "key_id": entry.key_id,
        "created_at": iso(entry.created_at),
    }
