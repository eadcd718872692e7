"""Between the pure decision and the database: read the rows a batch touches, write what it comes to.

Rows are locked in a fixed order, the accounts' before all others: two nodes cannot wait for each other, and what is
read after an account's row stays as it is.
"""

from collections.abc import Sequence

from billing.charges.batch_rows import (
    AccountState,
    BatchRows,
    Charge,
    ChargeRequest,
    Closed,
    CloseRequest,
    Decision,
    KeyState,
    Request,
)
from billing.charges.decisions import decide
from billing.entries import add_entries
from storage.store import Tx

# From the list to the table: a look-up `IN` a list first sorts it into a table of its own, at twice the cost.
READ_ACCOUNTS = """
SELECT accounts.id, balance, held, unlimited, version, pack FROM {in} AS wanted, accounts
WHERE accounts.id = wanted.value ORDER BY accounts.id {lock}
"""
READ_KEYS = """
SELECT keys.id, account_id, credit_limit, used, expires_at, revoked_at FROM {in} AS wanted, keys
WHERE keys.id = wanted.value ORDER BY keys.id {lock}
"""
# Those of them that were open until just now: taken, and neither settled nor refunded.
READ_DROPPED = """
SELECT request_id, account_id, key_id, amount, platform, endpoint FROM ledger_entries AS taken
WHERE kind = 'deduction' AND request_id IN {in} AND NOT EXISTS (
    SELECT 1 FROM ledger_entries AS closing
    WHERE closing.request_id = taken.request_id AND closing.kind IN ('settlement', 'refund')
)
"""
DROP_COUNTED = "DELETE FROM charges WHERE counted = 1 AND request_id IN {in}"
READ_UNCOUNTED = "SELECT request_id FROM charges WHERE counted = 0 AND request_id IN {in}"
DROP_CHARGES = "DELETE FROM charges WHERE request_id IN {in}"
READ_CHARGED = """
SELECT request_id FROM {in} AS wanted, ledger_entries
WHERE ledger_entries.request_id = wanted.value AND ledger_entries.kind = 'deduction'
"""
# The last of the one or two entries that closed a charge holds the balance just after.
READ_CLOSED = """
SELECT request_id, kind, amount, balance_after FROM ledger_entries
WHERE request_id IN {in} AND kind IN ('settlement', 'refund') ORDER BY id
"""
SAVE_ACCOUNTS = """
WITH changed (id, balance, held) AS (VALUES {rows})
UPDATE accounts SET balance = changed.balance, held = changed.held, version = accounts.version + 1
FROM changed WHERE accounts.id = changed.id
"""
SAVE_ACCOUNT = "UPDATE accounts SET balance = ?2, held = ?3, version = version + 1 WHERE id = ?1"
SAVE_KEYS = """
WITH changed (id, used) AS (VALUES {rows})
UPDATE keys SET used = changed.used FROM changed WHERE keys.id = changed.id
"""
SAVE_KEY = "UPDATE keys SET used = ?2 WHERE id = ?1"
# Two statements that take what they write from rows that are there, which spares a parameter for each column.
SETTLE = """
INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, request_id, key_id, platform,
                            endpoint, description, created_at)
SELECT taken.account_id, 'settlement', 'held', 'spent', taken.amount, accounts.balance, taken.request_id,
       taken.key_id, taken.platform, taken.endpoint, 'Settlement', ?
FROM {in} AS wanted, ledger_entries AS taken, accounts
WHERE taken.request_id = wanted.value AND taken.kind = 'deduction' AND accounts.id = taken.account_id
"""
ADD_CHARGES = """
INSERT INTO charges (request_id, account_id, key_id, credits, node, platform, endpoint, taken_at)
SELECT request_id, account_id, key_id, amount, ?, platform, endpoint, created_at FROM {in} AS wanted, ledger_entries
WHERE ledger_entries.request_id = wanted.value AND ledger_entries.kind = 'deduction'
"""


def judge_charges(tx: Tx, requests: Sequence[Request], *, now: float, node: str) -> Decision:
    """Decide `requests` in order on the rows as they are, and write the decision; the whole of a batch's work."""
    decision = decide(read_rows(tx, requests), requests, now)
    write_decision(tx, decision, now=now, node=node)
    return decision


def read_rows(tx: Tx, requests: Sequence[Request]) -> BatchRows:
    """All rows that `requests` can touch; those of charges that they close are gone from here on."""
    taking = [request.request_id for request in requests if isinstance(request, ChargeRequest)]
    account_ids = sorted({request.account_id for request in requests})
    key_ids = sorted({request.key_id for request in requests if request.key_id is not None})
    rows = BatchRows(
        accounts={
            row[0]: AccountState(row[1], row[2], bool(row[3]), row[4], row[5], row[1] + row[2])
            for row in tx.all_in(READ_ACCOUNTS, account_ids)
        },
        keys={row[0]: KeyState(*row[1:]) for row in tx.all_in(READ_KEYS, key_ids)},
        open={},
        closed={},
        charged={row[0] for row in tx.all_in(READ_CHARGED, taking)},
    )
    if len(taking) < len(requests):
        _read_closing(tx, rows, [request for request in requests if not isinstance(request, ChargeRequest)])
    return rows


def _read_closing(tx: Tx, rows: BatchRows, requests: Sequence[CloseRequest | Charge]) -> None:
    """The charges that are to be closed, whose rows go at once: no request leaves an open charge that it names open.

    Usually all of them are open, counted by their keys, and remembered by their closers. Then how many went is
    enough: each row read makes the thread wait for the interpreter's lock once more.
    """
    closing, all_remembered = [], True
    for request in requests:
        closing.append(request.request_id)
        if isinstance(request, CloseRequest):
            if request.charge is None:
                all_remembered = False
            else:
                rows.open[request.request_id] = request.charge
    if all_remembered and tx.run_in(DROP_COUNTED, closing) == len(closing):
        rows.is_plain = True
        return
    rows.uncounted = {row[0] for row in tx.all_in(READ_UNCOUNTED, closing)}
    tx.run_in(DROP_CHARGES, closing)
    rows.open = {row[0]: ChargeRequest(*row) for row in tx.all_in(READ_DROPPED, closing)}
    rows.closed = _read_closed(tx, [request_id for request_id in closing if request_id not in rows.open])


def _read_closed(tx: Tx, request_ids: Sequence[str]) -> dict[str, Closed]:
    closed: dict[str, Closed] = {}
    for request_id, kind, amount, balance_after in tx.all_in(READ_CLOSED, request_ids):
        used = amount if kind == "settlement" else 0
        before = closed.get(request_id)
        closed[request_id] = Closed(used + (before.credits_used if before else 0), balance_after)
    return closed


def write_decision(tx: Tx, decision: Decision, *, now: float, node: str) -> None:
    """Write what was decided, each kind of row with one statement."""
    settled = [charge.request_id for charge in decision.settled]
    assert tx.run_in(SETTLE, settled, (now,)) == len(settled), "they were open until just now"
    add_entries(tx, decision.entries)
    tx.run_in(ADD_CHARGES, list(decision.opened), (node,))
    accounts = [(id_, account.balance, account.held) for id_, account in decision.accounts.items()]
    tx.run_many(SAVE_ACCOUNTS, accounts, one=SAVE_ACCOUNT)
    tx.run_many(SAVE_KEYS, [(id_, key.used) for id_, key in decision.keys.items()], one=SAVE_KEY)
