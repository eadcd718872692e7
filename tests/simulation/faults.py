"""Faults that tests plant in a simulated world's node, to show that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import trio

from billing.charges.batch_rows import Closed, CloseRequest, Outcome, Request
from billing.charges.charges import Charges, Closing
from billing.journal import identify
from gateway.node.node import Node
from limits.breaker import Breaker, Permit
from limits.breaker import Outcome as Reported
from storage.store import Tx

# The database allows only one refund per request, but it cannot detect a second one under another spelling of the
# request's id.
ENTER_TWICE = """
INSERT INTO journal (id, kind, account, key, endpoint, taken, refunded, issued, taken_at, closed_after, balance_after,
                     balance_closed, place)
SELECT ?, 2, account, key, endpoint, 0, 0, refunded, taken_at, closed_after, balance_closed + refunded,
       balance_closed + refunded, refund_place + 1
FROM journal WHERE id = ? AND refunded > 0
"""
PAY_TWICE = "UPDATE accounts SET balance = balance + ?, place = place + 1 WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Fault:
    """How a node is altered, and which protection of the database must be removed for the fault to reach it."""

    plant: Callable[[Node], None]
    schema: tuple[str, ...] = ()


class UnshieldedCharges(Charges):
    """Run settlements without their shield, so that a client that disconnects ends them too."""

    async def close_by(self, request_id: str, closing: Closing) -> Closed:
        status = trio.lowlevel.current_task()._cancel_status
        while status is not None:
            status._scope.shield = False
            status = status.parent
        return await super().close_by(request_id, closing)


class TwiceRefunding(Charges):
    """Record every refund twice, with an otherwise correct ledger."""

    def judge(self, tx: Tx, requests: Sequence[Request]) -> Sequence[Outcome]:
        outcomes = super().judge(tx, requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            if (
                isinstance(request, CloseRequest)
                and isinstance(outcome, Closed)
                and tx.run(ENTER_TWICE, (request.request_id.encode(), identify(request.request_id)[1]))
            ):
                assert request.charge is not None
                tx.run(PAY_TWICE, (request.charge.credits - request.used, request.account_id))
        return outcomes


class StaleBreaker(Breaker):
    """Count results that began before a change of state."""

    def _record(self, outcome: Reported, permit: Permit, address: Hashable = None, *, certain: bool = False) -> None:
        permit._generation = self._generation
        super()._record(outcome, permit, address, certain=certain)


def _change_charges(kind: type[Charges]) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        node.stores.billing.charges.__class__ = kind

    return plant


def _change_breakers(node: Node) -> None:
    for site in node.catalog.sites.values():
        for source in site.sources.values():
            source.breaker.__class__ = StaleBreaker


FAULTS = {
    "none": Fault(lambda _node: None),
    "unshielded": Fault(_change_charges(UnshieldedCharges)),
    "double-refund": Fault(_change_charges(TwiceRefunding)),
    "stale-breaker": Fault(_change_breakers),
}
