"""After a crash: charges that a dead process left open are refunded before new work begins (decisions 6)."""

from collections.abc import Callable
from dataclasses import dataclass

import trio

from billing.books import CloseRequest
from billing.charge_rows import judge_charges
from storage.store import Store, Tx

CHUNK = 512

OPEN = "SELECT request_id, account_id, key_id, credits FROM charges ORDER BY request_id LIMIT ?"
OPEN_OF_NODE = "SELECT request_id, account_id, key_id, credits FROM charges WHERE node = ? ORDER BY request_id LIMIT ?"


@dataclass(frozen=True, slots=True)
class Recovered:
    """How many charges were refunded, and how many credits went back."""

    charges: int
    credits: int


async def recover(store: Store, *, now: Callable[[], float], node: str | None = None) -> Recovered:
    """Refund in full every open charge of `node`, or every one on a store that one process owns; run before serving."""
    await trio.lowlevel.checkpoint()
    charges = credits_back = 0
    while (some := await store.write(lambda tx: _refund_some(tx, now(), node))).charges:
        charges += some.charges
        credits_back += some.credits
    return Recovered(charges, credits_back)


def _refund_some(tx: Tx, now: float, node: str | None) -> Recovered:
    rows = tx.all(OPEN, (CHUNK,)) if node is None else tx.all(OPEN_OF_NODE, (node, CHUNK))
    requests = [
        CloseRequest(request_id, account_id, key_id, used=0, description="Refund after a crash")
        for request_id, account_id, key_id, _credits in rows
    ]
    # The node's name is written with new charges only, and here are none.
    judge_charges(tx, requests, now=now, node="")
    return Recovered(len(rows), sum(row[3] for row in rows))
