"""Reads the rows that a batch of charges touches, and writes the decision about them.

Rows are locked in a fixed order, accounts before all others. Two nodes therefore cannot deadlock, and rows read after
an account's row do not change until the commit.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from billing.charges.batch_rows import (
    AS_USUAL,
    ENDLESS,
    AccountState,
    BatchRows,
    Charge,
    ChargeRequest,
    Closed,
    CloseRequest,
    Decision,
    KeyState,
    KnownRows,
    Request,
)
from billing.charges.decisions import decide
from billing.journal import HOUR_MICROS, REQUEST, SETTLE, add_rows, identify, micros, request_text
from billing.names import Names
from storage.store import Row, Tx

RESERVED = "reserved"
"""The node name of reservations, which outlive every process. The work that made a reservation closes it; recovery
never does."""

# Joins the list with the table. `IN` would cost twice as much, because it first sorts the list into a temporary table.
READ_ACCOUNTS = """
SELECT accounts.id, balance, held, unlimited, version, pack, number, place, state FROM {in} AS asked, accounts
WHERE accounts.id = asked.value ORDER BY accounts.id {lock}
"""
READ_KEYS = """
SELECT keys.id, account_id, credit_limit, used, expires_at, revoked_at, number FROM {in} AS asked, keys
WHERE keys.id = asked.value ORDER BY keys.id {lock}
"""
READ_OPEN = """
SELECT counted, accounts.id, keys.id, charges.id, account, key, endpoint, credits, balance_after, charges.place,
       taken_at, node, kind, issued, issued_place
FROM charges JOIN accounts ON accounts.number = charges.account LEFT JOIN keys ON keys.number = charges.key
WHERE charges.id IN {in}
"""
HELD_BY_KEYS = """
SELECT key, CAST(SUM(credits) AS BIGINT) FROM charges WHERE key IN {in} AND counted = 1 GROUP BY key
"""
COUNT_OPEN = "SELECT COUNT(*) FROM charges WHERE id IN {in} AND counted = 1"
DROP_CHARGES = "DELETE FROM charges WHERE id IN {in}"
# Ids begin with the time, so hardly any other ids lie between the first and last id of a batch, or after the last.
FIND_CHARGED = """
SELECT kind, id FROM (SELECT kind, id FROM charges UNION ALL SELECT kind, id FROM journal) AS charged
WHERE id BETWEEN ? AND ? LIMIT ?
"""
CHARGED_MAX: Final = 32
KNOWN_MAX: Final = 4096
"""The maximum number of accounts, and of keys, to keep in memory. If there are more, all rows are read again."""
READ_TAKEN = "SELECT kind, id FROM charges WHERE id IN {in}"
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
INSERT INTO charges (id, account, key, endpoint, credits, balance_after, place, taken_at, node) VALUES {rows}
"""
# Used only for charges of runs, and for charges of an unlimited account that was issued the missing credits.
ADD_OTHERS = """
INSERT INTO charges (id, account, key, endpoint, credits, balance_after, place, taken_at, node, kind, issued,
                     issued_place)
VALUES {rows}
"""
ADD_USAGE = """
INSERT INTO usage (account, endpoint, key, hour, calls, credits, refunds, failures) VALUES {rows}
ON CONFLICT (account, hour, endpoint, key) DO UPDATE SET calls = usage.calls + excluded.calls,
    credits = usage.credits + excluded.credits, refunds = usage.refunds + excluded.refunds,
    failures = usage.failures + excluded.failures
"""


def judge_charges(tx: Tx, requests: Sequence[Request], *, now: float, node: str, names: Names) -> Decision:
    """Process a batch: read the rows, decide `requests` in order, and write the decision."""
    at, known = micros(now), tx.recall(KnownRows)
    decision = decide(read_rows(tx, requests, names, known, node=node, at=at), requests, now, at)
    write_decision(tx, decision)
    if decision.over_budget:
        _find_held(tx, decision)
    if known is not None:
        known.learn(decision)
        tx.remember(known)
    return decision


def _find_held(tx: Tx, decision: Decision) -> None:
    """Mark the refusals that are caused only by the credits that the key's open charges reserve."""
    numbers = sorted({key.number for key, _refusal in decision.over_budget})
    held: dict[int, int] = dict(tx.all_in(HELD_BY_KEYS, numbers))
    for key, refusal in decision.over_budget:
        spent = key.used - held.get(key.number, 0)
        refusal.is_held = refusal.required <= refusal.limit - spent


def read_rows(
    tx: Tx, requests: Sequence[Request], names: Names, known: KnownRows | None, *, node: str, at: int
) -> BatchRows:
    """Delete the rows of the charges that `requests` close, and return all rows that `requests` can touch."""
    taking: list[ChargeRequest] = []
    settling: list[Charge] = []
    closing: list[CloseRequest] = []
    for request in requests:
        if type(request) is ChargeRequest:
            taking.append(request)
        elif type(request) is Charge:
            settling.append(request)
        else:
            closing.append(request)
    # Names come before accounts, because a node that waits for another node to add the same name must not hold an
    # account's lock.
    endpoints = names.endpoints(tx, {(request.platform, request.endpoint) for request in taking})
    notes = names.notes(tx, {request.description for request in closing}) if closing else {}
    account_ids = sorted({request.account_id for request in requests})
    accounts = {
        row[0]: AccountState(row[1], row[2], bool(row[3]), row[4], row[5], row[1] + row[2], *row[6:])
        for row in _rows(tx, READ_ACCOUNTS, account_ids, known.accounts if known else None)
    }
    key_ids = {request.key_id for request in taking}
    if closing:
        key_ids.update([request.key_id for request in closing])
    found = _rows(tx, READ_KEYS, sorted(filter(None, key_ids)), known.keys if known else None)
    keys = {row[0]: _key(row, accounts) for row in found}
    number = names.node(tx, node) if taking else 0
    rows = BatchRows(accounts, keys, {}, {}, _read_charged(tx, taking, known), endpoints, notes, number)
    if settling:
        _settle(tx, rows, settling, at)
    if closing:
        _read_closing(tx, rows, closing)
    return rows


def _rows(tx: Tx, sql: str, ids: Sequence[str], known: dict[str, Row] | None) -> Sequence[Row]:
    """Return the rows of `ids` in order, from `known` or read with `sql`, whose first column is the id."""
    if known is None:
        return tx.all_in(sql, ids)
    missing = [id_ for id_ in ids if id_ not in known]
    if missing and len(known) + len(missing) > KNOWN_MAX:
        known.clear()
        missing = list(ids)
    known.update((row[0], row) for row in tx.all_in(sql, missing))
    return [known[id_] for id_ in ids if id_ in known]


def _key(row: Row, accounts: Mapping[str, AccountState]) -> KeyState:
    _id, account_id, limit, used, expires_at, revoked_at, number = row
    account = accounts.get(account_id)
    is_plain = limit is None and expires_at is None and revoked_at is None
    plain = account if is_plain and account is not None and account.state == "active" else None
    return KeyState(account_id, limit, used, expires_at, revoked_at, number, plain)


def _read_charged(tx: Tx, requests: Sequence[ChargeRequest], known: KnownRows | None) -> set[str]:
    """Return the ids that were charged before, open or closed. The result may contain ids of other requests."""
    if not requests:
        return set()
    request_ids = [request.request_id for request in requests]
    kind, first = kind_of_last, last = identify(min(request_ids))
    if len(request_ids) > 1:
        kind_of_last, last = identify(max(request_ids))
    # The ids of requests sort like their texts. The ids of runs do not, because they contain an attempt number.
    if kind == kind_of_last == REQUEST:
        if known is not None and first > known.latest:
            known.latest = last
            return set()
        found = tx.all(FIND_CHARGED, (first, last if known is None else ENDLESS, CHARGED_MAX))
        if len(found) < CHARGED_MAX:
            if known is not None:
                known.latest = max([last, *(row[1] for row in found)])
            return {request_text(*row) or "" for row in found}
    if known is not None:
        known.latest = ENDLESS
    ids = [identify(request_id)[1] for request_id in request_ids]
    open_ = {request_text(*row) or "" for row in tx.all_in(READ_TAKEN, ids)}
    return open_ | read_closed(tx, request_ids).keys()


def _settle(tx: Tx, rows: BatchRows, settling: Sequence[Charge], at: int) -> None:
    """Settle, in full, those charges that are still open.

    Usually all of these charges are open and none is repeated. In that case it is enough to count their rows. Reading
    them would cost more, because the thread waits for the interpreter lock at every row.
    """
    accounts, settled = rows.accounts, {charge.request_id: charge for charge in settling}
    try:
        asked = [(charge.row[0], accounts[charge.account_id].balance) for charge in settled.values()]
    except KeyError:  # the store has lost an account and its open charges
        there = [charge for charge in settled.values() if charge.account_id in accounts]
        asked = [(charge.row[0], accounts[charge.account_id].balance) for charge in there]
    ids = [id_ for id_, _balance in asked]
    if tx.count_many(SETTLE, asked, (at,)) != len(settling):
        open_ = {request_text(*row) for row in tx.all_in(READ_TAKEN, ids)}
        rows.closed = read_closed(tx, list(settled))
        settled = {request_id: charge for request_id, charge in settled.items() if request_id in open_}
    rows.settled = settled
    tx.run_in(DROP_CHARGES, ids)


def _read_closing(tx: Tx, rows: BatchRows, requests: Sequence[CloseRequest]) -> None:
    """Read the charges to close and delete their rows, so that none of them stays open.

    Usually each charge is open, appears once, is included in its key's counter, and is passed by the caller. In that
    case it is enough to count the rows.
    """
    remembered = {request.request_id: request.charge for request in requests if request.charge is not None}
    ids = [identify(request.request_id)[1] for request in requests]
    if len(remembered) == len(requests) and tx.all_in(COUNT_OPEN, ids)[0][0] == len(requests):
        rows.open = remembered
    else:
        found = [(row[0], _open_charge(row)) for row in tx.all_in(READ_OPEN, ids)]
        rows.open = {charge.request_id: charge for _counted, charge in found}
        rows.uncounted = {charge.request_id for counted, charge in found if not counted}
        others = [request.request_id for request in requests if request.request_id not in rows.open]
        rows.closed |= read_closed(tx, others)
    tx.run_in(DROP_CHARGES, ids)


def _open_charge(row: Row) -> Charge:
    """Return the charge for a row of `READ_OPEN`."""
    _counted, account_id, key_id, *rest = row
    id_, account, key, endpoint, price, after, place, at, node, kind, issued, issued_place = rest
    request_id = request_text(kind, id_)
    assert request_id is not None, "only requests take credits"
    as_row = (id_, account, key, endpoint, price, after, place, at, node)
    return Charge(request_id, account_id, key_id, price, after, as_row, (kind, issued, issued_place))


def read_closed(tx: Tx, request_ids: Sequence[str]) -> dict[str, Closed]:
    """Return the outcomes of the given requests whose charges are closed."""
    ids = [identify(request_id)[1] for request_id in request_ids]
    return {request_text(row[0], row[1]) or "": Closed(row[2], row[3]) for row in tx.all_in(READ_CLOSED, ids)}


def write_decision(tx: Tx, decision: Decision) -> None:
    """Write the decision, with one statement for each kind of row."""
    opened = decision.opened.values()
    plain = [one.row for one in opened if one.extra is AS_USUAL]
    tx.run_many(ADD_CHARGES, plain)
    if len(plain) < len(opened):
        tx.run_many(ADD_OTHERS, [(*one.row, *one.extra) for one in opened if one.extra is not AS_USUAL])
    add_rows(tx, decision.journal)
    hour = decision.at // HOUR_MICROS
    usage = [
        (account, endpoint, key or 0, hour, one.calls, one.credits, one.refunds, one.failures)
        for (account, key, endpoint), one in decision.usage.items()
    ]
    tx.run_many(ADD_USAGE, usage)
    accounts = [(id_, account.balance, account.held, account.place) for id_, account in decision.accounts.items()]
    tx.run_many(SAVE_ACCOUNTS, accounts, one=SAVE_ACCOUNT)
    tx.run_many(SAVE_KEYS, [(id_, key.used) for id_, key in decision.keys.items()], one=SAVE_KEY)
