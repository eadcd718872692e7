"""Crash recovery: refunds charges that a dead process left open (decisions 6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from billing.accounts.balances import Balances
from billing.charges.batch_rows import CloseRequest, Decision
from billing.charges.charge_rows import RESERVED, judge_charges
from billing.charges.refunds import NOTHING_USED
from billing.journal import request_text
from billing.names import Names
from storage.store import Store, Tx

CHUNK = 512

_OPEN = """
SELECT kind, charges.id, accounts.id, keys.id, credits FROM charges JOIN accounts ON accounts.number = charges.account
JOIN charging_nodes ON charging_nodes.id = charges.node LEFT JOIN keys ON keys.number = charges.key
"""
OPEN = f"{_OPEN} WHERE charging_nodes.name <> ? ORDER BY charges.id LIMIT ?"
NODES = "SELECT name FROM charging_nodes WHERE name <> ? AND id IN (SELECT node FROM charges) ORDER BY name"
OPEN_OF_NODE = f"{_OPEN} WHERE charging_nodes.name = ? ORDER BY charges.id LIMIT ?"


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery: the number of refunded charges, and the number of their credits."""

    charges: int
    credits: int


def _nothing(_tx: Tx, _request_ids: Sequence[str]) -> None:
    """Do nothing (the default for `also`)."""


def nodes_of_open_charges(tx: Tx) -> list[str]:
    """Return the nodes that took the charges that are still open."""
    return [node for (node,) in tx.all(NODES, (RESERVED,))]


async def recover(
    store: Store,
    *,
    now: Callable[[], float],
    node: str | None = None,
    also: Callable[[Tx, Sequence[str]], object] = _nothing,
    balances: Balances | None = None,
) -> Recovered:
    """Refund every open charge of `node` in full.

    If `node` is None, refund the charges of all nodes. Only the single process of an unshared store may do that, before
    it serves requests. Reservations for work that continues after a crash stay open (`Charges.reserve`).

    `also` is called with the refunded request ids in the same transaction. If another node closes a charge at the same
    time, only one of the two takes effect. If this node already serves, pass its `balances`, so that they are updated
    with the refunds.
    """

    def publish(tx: Tx, decision: Decision) -> None:
        also(tx, decision.closed)
        if balances is not None:
            balances.change(tx, decision.balance_updates())

    await trio.lowlevel.checkpoint()
    charges = credits_back = 0
    while (some := await store.write(lambda tx: _refund_some(tx, now(), node, publish))) is not None:
        charges += some.charges
        credits_back += some.credits
    return Recovered(charges, credits_back)


def _refund_some(tx: Tx, now: float, node: str | None, publish: Callable[[Tx, Decision], None]) -> Recovered | None:
    """Refund one chunk of charges. Return None if no charge is left."""
    rows = tx.all(OPEN, (RESERVED, CHUNK)) if node is None else tx.all(OPEN_OF_NODE, (node, CHUNK))
    if not rows:
        return None
    prices = {request_text(kind, id_) or "": credits_ for kind, id_, _account, _key, credits_ in rows}
    requests = [
        CloseRequest(request_id, account_id, key_id, NOTHING_USED, description="Refund after a crash")
        for request_id, (_kind, _id, account_id, key_id, _credits) in zip(prices, rows, strict=True)
    ]
    # The node's name is written only with new charges, and this batch has none.
    decision = judge_charges(tx, requests, now=now, node="", names=Names())
    publish(tx, decision)
    return Recovered(len(decision.closed), sum(prices[request_id] for request_id in decision.closed))
