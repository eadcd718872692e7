"""Between the pure decision and the database: read the rows a batch touches, write what it comes to.

Rows are read in a fixed order, so that engines which lock rows cannot deadlock.
"""

from collections.abc import Sequence

from billing.books import AccountState, Books, Charge, ChargeRequest, Closed, CloseRequest, Decision, KeyState, Request
from billing.decisions import decide
from billing.entries import add_entries
from storage.store import Tx

READ_ACCOUNTS = "SELECT id, balance, held, unlimited FROM accounts WHERE id IN {in} ORDER BY id"
READ_KEYS = """
SELECT id, account_id, credit_limit, used, expires_at, revoked_at FROM keys WHERE id IN {in} ORDER BY id
"""
READ_OPEN = """
SELECT request_id, account_id, key_id, credits, platform, endpoint FROM charges WHERE request_id IN {in}
"""
COUNT_OPEN = "SELECT COUNT(*) FROM charges WHERE request_id IN {in}"
READ_CHARGED = "SELECT request_id FROM ledger_entries WHERE request_id IN {in} AND kind = 'deduction'"
# The last of the one or two entries that closed a charge holds the balance just after.
READ_CLOSED = """
SELECT request_id, kind, amount, balance_after FROM ledger_entries
WHERE request_id IN {in} AND kind IN ('settlement', 'refund') ORDER BY id
"""
SAVE_ACCOUNTS = """
WITH changed (id, balance, held) AS (VALUES {rows})
UPDATE accounts SET balance = changed.balance, held = changed.held FROM changed WHERE accounts.id = changed.id
"""
SAVE_KEYS = """
WITH changed (id, used) AS (VALUES {rows})
UPDATE keys SET used = changed.used FROM changed WHERE keys.id = changed.id
"""
ADD_CHARGES = """
INSERT INTO charges (request_id, account_id, key_id, credits, node, platform, endpoint, taken_at) VALUES {rows}
"""
DROP_CHARGES = """
WITH closed (request_id) AS (VALUES {rows})
DELETE FROM charges WHERE request_id IN (SELECT request_id FROM closed)
"""


def judge_charges(tx: Tx, requests: Sequence[Request], *, now: float, node: str) -> Decision:
    """Decide `requests` in order on the rows as they are, and write the decision; the whole of a batch's work."""
    decision = decide(read_books(tx, requests), requests, now)
    write_decision(tx, decision, now=now, node=node)
    return decision


def read_books(tx: Tx, requests: Sequence[Request]) -> Books:
    """All rows that `requests` can touch."""
    closing = [request.request_id for request in requests if isinstance(request, CloseRequest)]
    taking = [request.request_id for request in requests if isinstance(request, ChargeRequest)]
    charges = _read_open(tx, closing, [one.charge for one in requests if isinstance(one, CloseRequest) and one.charge])
    account_ids = sorted({request.account_id for request in requests})
    key_ids = sorted({request.key_id for request in requests if request.key_id is not None})
    return Books(
        accounts={
            row[0]: AccountState(row[1], row[2], unlimited=bool(row[3]))
            for row in tx.all_in(READ_ACCOUNTS, account_ids)
        },
        keys={row[0]: KeyState(*row[1:]) for row in tx.all_in(READ_KEYS, key_ids)},
        open=charges,
        closed=_read_closed(tx, [request_id for request_id in closing if request_id not in charges]),
        charged={row[0] for row in tx.all_in(READ_CHARGED, taking)},
    )


def _read_open(tx: Tx, closing: Sequence[str], remembered: Sequence[Charge]) -> dict[str, ChargeRequest]:
    """The open charges among those that are to be closed.

    Usually all of them are open and remembered by who closes them. Then counting is enough: each row read makes the
    thread wait for the interpreter's lock once more.
    """
    if len(remembered) == len(closing) and _count_open(tx, closing) == len(closing):
        return {
            one.request_id: ChargeRequest(
                one.request_id, one.account_id, one.key_id, one.credits, one.platform, one.endpoint
            )
            for one in remembered
        }
    return {row[0]: ChargeRequest(*row) for row in tx.all_in(READ_OPEN, closing)}


def _count_open(tx: Tx, request_ids: Sequence[str]) -> int:
    counts: list[int] = [row[0] for row in tx.all_in(COUNT_OPEN, request_ids)]
    return sum(counts)


def _read_closed(tx: Tx, request_ids: Sequence[str]) -> dict[str, Closed]:
    closed: dict[str, Closed] = {}
    for request_id, kind, amount, balance_after in tx.all_in(READ_CLOSED, request_ids):
        used = amount if kind == "settlement" else 0
        before = closed.get(request_id)
        closed[request_id] = Closed(used + (before.credits_used if before else 0), balance_after)
    return closed


def write_decision(tx: Tx, decision: Decision, *, now: float, node: str) -> None:
    """Write what was decided, each kind of row with one statement."""
    add_entries(tx, decision.entries)
    opened = decision.opened.values()
    tx.run_many(
        ADD_CHARGES,
        [
            (one.request_id, one.account_id, one.key_id, one.credits, node, one.platform, one.endpoint, now)
            for one in opened
        ],
    )
    tx.run_many(DROP_CHARGES, [(request_id,) for request_id in decision.closed])
    tx.run_many(SAVE_ACCOUNTS, [(id_, account.balance, account.held) for id_, account in decision.accounts.items()])
    tx.run_many(SAVE_KEYS, [(id_, key.used) for id_, key in decision.keys.items()])
