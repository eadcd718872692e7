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
from billing.journal import HOUR_MICROS, REQUEST, add_rows, identify, request_text
from billing.names import Names
from storage.store import Tx, Value

RESERVED = "reserved"
"""Stands for the node of a charge that outlives every process: whoever it is held for closes it, and recovery never."""

# From the list to the table: a look-up `IN` a list first sorts it into a table of its own, at twice the cost.
READ_ACCOUNTS = """
SELECT accounts.id, balance, held, unlimited, version, pack, number, place, state FROM {in} AS asked, accounts
WHERE accounts.id = asked.value ORDER BY accounts.id {lock}
"""
READ_KEYS = """
SELECT keys.id, account_id, credit_limit, used, expires_at, revoked_at, number FROM {in} AS asked, keys
WHERE keys.id = asked.value ORDER BY keys.id {lock}
"""
READ_OPEN = """
SELECT counted, request_id, account_id, key_id, credits, platform, path, balance_after, place, taken_at, issued,
       issued_place, endpoint
FROM {in} AS asked, charges, endpoints WHERE charges.request_id = asked.value AND endpoints.id = charges.endpoint
"""
COUNT_OPEN = "SELECT COUNT(*) FROM {in} AS asked, charges WHERE charges.request_id = asked.value AND counted = 1"
DROP_CHARGES = "DELETE FROM charges WHERE request_id IN {in}"
# Ids begin with the time: whether there is one between the first and the last of a batch, which there hardly is.
FIND_CHARGED = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM charges WHERE request_id BETWEEN ? AND ?)
    OR EXISTS (SELECT 1 FROM journal WHERE id BETWEEN ? AND ?)
"""
READ_TAKEN = "SELECT charges.request_id FROM {in} AS asked, charges WHERE charges.request_id = asked.value"
READ_CLOSED = "SELECT kind, id, taken - refunded, balance_closed FROM journal WHERE id IN {in}"
SAVE_ACCOUNTS = """
WITH changed (id, balance, held, place) AS (VALUES {rows})
UPDATE accounts SET balance = changed.balance, held = changed.held, place = changed.place,
       version = accounts.version + 1
FROM changed WHERE accounts.id = changed.id
"""
SAVE_ACCOUNT = "UPDATE accounts SET balance = ?2, held = ?3, place = ?4, version = version + 1 WHERE id = ?1"
SAVE_KEYS = """
WITH changed (id, used) AS (VALUES {rows})
UPDATE keys SET used = changed.used FROM changed WHERE keys.id = changed.id
"""
SAVE_KEY = "UPDATE keys SET used = ?2 WHERE id = ?1"
ADD_CHARGES = """
INSERT INTO charges (request_id, account_id, key_id, credits, balance_after, place, taken_at, issued, issued_place,
                     endpoint, node)
VALUES {rows}
"""
ADD_USAGE = """
INSERT INTO usage (account, endpoint, key, hour, calls, credits, refunds, failures) VALUES {rows}
ON CONFLICT (account, hour, endpoint, key) DO UPDATE SET calls = usage.calls + excluded.calls,
    credits = usage.credits + excluded.credits, refunds = usage.refunds + excluded.refunds,
    failures = usage.failures + excluded.failures
"""


def judge_charges(tx: Tx, requests: Sequence[Request], *, now: float, node: str, names: Names) -> Decision:
    """Decide `requests` in order on the rows as they are, and write the decision; the whole of a batch's work."""
    decision = decide(read_rows(tx, requests, names), requests, now)
    write_decision(tx, decision, node=node)
    return decision


def read_rows(tx: Tx, requests: Sequence[Request], names: Names) -> BatchRows:
    """All rows that `requests` can touch; those of charges that they close are gone from here on."""
    taking = [request for request in requests if isinstance(request, ChargeRequest)]
    closing = [request for request in requests if not isinstance(request, ChargeRequest)]
    account_ids = sorted({request.account_id for request in requests})
    key_ids = sorted({request.key_id for request in requests if request.key_id is not None})
    # Names before accounts: a node waits for another that is just adding the same one, with no account in its hands.
    endpoints = names.endpoints(tx, {(request.platform, request.endpoint) for request in taking})
    notes = names.notes(tx, {request.description for request in closing if isinstance(request, CloseRequest)})
    rows = BatchRows(
        accounts={
            row[0]: AccountState(row[1], row[2], bool(row[3]), row[4], row[5], row[1] + row[2], *row[6:])
            for row in tx.all_in(READ_ACCOUNTS, account_ids)
        },
        keys={row[0]: KeyState(*row[1:]) for row in tx.all_in(READ_KEYS, key_ids)},
        open={},
        closed={},
        charged=_read_charged(tx, [request.request_id for request in taking]),
        endpoints=endpoints,
        notes=notes,
    )
    if closing:
        _read_closing(tx, rows, closing)
    return rows


def _read_charged(tx: Tx, request_ids: Sequence[str]) -> set[str]:
    """Those of the requests that were charged before, whether or not their charges are still open."""
    if not request_ids:
        return set()
    first, last = min(request_ids), max(request_ids)
    kind, first_id = identify(first)
    kind_of_last, last_id = identify(last)
    # Texts of requests are in the order of their ids, in every collation; those of runs are not, with their attempts.
    if kind == kind_of_last == REQUEST and not tx.all(FIND_CHARGED, (first, last, first_id, last_id)):
        return set()
    open_ = {row[0] for row in tx.all_in(READ_TAKEN, request_ids)}
    return open_ | read_closed(tx, request_ids).keys()


def _read_closing(tx: Tx, rows: BatchRows, requests: Sequence[CloseRequest | Charge]) -> None:
    """The charges that are to be closed, whose rows go at once: no request leaves an open charge that it names open.

    Usually each is named once, open, counted by its key, and remembered by its closer. Then how many there are is
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
    is_once = len(set(closing)) == len(closing)
    rows.is_plain = all_remembered and is_once and tx.all_in(COUNT_OPEN, closing)[0][0] == len(closing)
    if not rows.is_plain:
        found = tx.all_in(READ_OPEN, closing)
        rows.uncounted = {row[1] for row in found if not row[0]}
        rows.open = {row[1]: Charge(*row[1:]) for row in found}
        rows.closed = read_closed(tx, [request_id for request_id in closing if request_id not in rows.open])
    tx.run_in(DROP_CHARGES, closing)


def read_closed(tx: Tx, request_ids: Sequence[str]) -> dict[str, Closed]:
    """How those of the requests ended whose charges are closed."""
    ids = [identify(request_id)[1] for request_id in request_ids]
    return {request_text(row[0], row[1]) or "": Closed(row[2], row[3]) for row in tx.all_in(READ_CLOSED, ids)}


def write_decision(tx: Tx, decision: Decision, *, node: str) -> None:
    """Write what was decided, each kind of row with one statement."""
    tx.run_many(ADD_CHARGES, [_open_row(charge, node) for charge in decision.opened.values()])
    add_rows(tx, decision.journal, decision.settled)
    hour = decision.at // HOUR_MICROS
    tx.run_many(
        ADD_USAGE,
        [(*of, hour, one.calls, one.credits, one.refunds, one.failures) for of, one in decision.usage.items()],
    )
    accounts = [(id_, account.balance, account.held, account.place) for id_, account in decision.accounts.items()]
    tx.run_many(SAVE_ACCOUNTS, accounts, one=SAVE_ACCOUNT)
    tx.run_many(SAVE_KEYS, [(id_, key.used) for id_, key in decision.keys.items()], one=SAVE_KEY)


def _open_row(charge: Charge, node: str) -> tuple[Value, ...]:
    return (
        charge.request_id,
        charge.account_id,
        charge.key_id,
        charge.credits,
        charge.balance_after,
        charge.place,
        charge.taken_at,
        charge.issued,
        charge.issued_place,
        charge.endpoint_number,
        node,
    )
