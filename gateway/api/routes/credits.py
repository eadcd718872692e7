"""The account's balance and transactions, free and never cached (decisions 4)."""

from __future__ import annotations

from typing import Any

from billing.archive.statement import line_of
from billing.ledger.lines import Transaction
from billing.ledger.transactions import Ledger
from events.instants import iso
from gateway.api.paging import Lists
from gateway.api.responses import Replies, account_fragment
from gateway.docs.account.credits import BALANCE, TRANSACTIONS
from gateway.http.params import CURSOR, read_free
from gateway.http.request import Caller, Reply, Request
from gateway.http.routing import Route
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param

_TRANSACTIONS = (
    Param("limit", "Entries per page.", "50", type="integer", default=50, minimum=1, maximum=100),
    Param("request_id", "Only the transactions of this request.", "req_..."),
    CURSOR,
)


class Credits:
    """Serves `/v1/credits/*`."""

    def __init__(self, ledger: Ledger, *, signer: CursorSigner, replies: Replies) -> None:
        self._ledger = ledger
        self._replies = replies
        self._lists = Lists(signer, replies)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the two routes."""
        return (
            Route("/v1/credits/balance", self.balance, doc=BALANCE),
            Route("/v1/credits/transactions", self.transactions, doc=TRANSACTIONS, params=_TRANSACTIONS),
        )

    async def balance(self, request: Request, caller: Caller) -> Reply:
        """Return the balance, the reserved credits and the latest deductions."""
        read_free(request.query, ())
        report = await self._ledger.report(caller.key.account_id)
        data = {
            "balance": report.balance,
            "held": report.held,
            "recent_deductions": {"last_24h": report.last_24h, "last_7d": report.last_7d},
        }
        return await self._replies.free(request, caller, account_fragment(request.path, data))

    async def transactions(self, request: Request, caller: Caller) -> Reply:
        """Return the statement, newest first."""
        values = read_free(request.query, _TRANSACTIONS)
        limit, request_id = int(values["limit"]), values.get("request_id")
        place = self._lists.position(request, caller, values, request_id)
        found = await self._ledger.transactions(
            caller.key.account_id,
            limit=limit + 1,
            before=None if place.state is None else line_of(str(place.state["id"])),
            request_id=None if request_id is None else str(request_id),
        )
        page = found.lines[:limit]
        more = {"id": str(page[-1].id)} if len(found.lines) > limit else None
        items = [_item(entry) for entry in page]
        return await self._lists.page(request, caller, items, place=place, more=more, warnings=found.warnings)


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
        "source": entry.source,
    }
