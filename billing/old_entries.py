"""Converts the entries of the old ledger, three rows per charge, into rows of the journal.

The entries are converted in steps, in id order. Each step is one transaction that also records the progress, so after a
crash the conversion continues with the unfinished step. The id of an old entry becomes the place of its statement line,
so an account's places have gaps. `openings` stores what these gaps add to the count of postings and to the chain of
balances.
"""

from collections import defaultdict
from typing import Final

from billing.charges.charge_rows import ADD_USAGE
from billing.journal import BONUS, HOUR_MICROS, PURCHASE, JournalRow, add_rows, identify, issue, micros
from billing.ledger.chain import MODULUS, weight
from storage.errors import StoreUnusable
from storage.migrations import Schema
from storage.store import Row, Tx, Value

STEP: Final = 20_000

READ_DONE = "SELECT entry, (SELECT COALESCE(MAX(id), 0) FROM ledger_entries) FROM journal_done"
SAVE_DONE = "UPDATE journal_done SET entry = ?"
# The entries that each become a row: deductions, and credits that were added without a request.
READ_ROWS = """
SELECT taken.id, taken.kind, taken.amount, taken.balance_after, taken.request_id, taken.created_at, accounts.number,
    keys.number, endpoints.id, notes.id, settled.created_at, settled.balance_after, back.id, back.amount,
    back.balance_after, back.created_at, back_notes.id, cover.id, cover.amount
FROM ledger_entries AS taken
JOIN accounts ON accounts.id = taken.account_id
LEFT JOIN keys ON keys.id = taken.key_id
LEFT JOIN endpoints ON endpoints.platform = taken.platform AND endpoints.path = taken.endpoint
LEFT JOIN notes ON notes.text = taken.description AND taken.request_id IS NULL
LEFT JOIN ledger_entries AS settled ON settled.request_id = taken.request_id AND settled.kind = 'settlement'
LEFT JOIN ledger_entries AS back ON back.request_id = taken.request_id AND back.kind = 'refund'
LEFT JOIN notes AS back_notes ON back_notes.text = back.description
LEFT JOIN ledger_entries AS cover ON cover.request_id = taken.request_id AND cover.kind = 'bonus'
WHERE taken.id > ? AND taken.id <= ?
    AND (taken.kind IN ('deduction', 'purchase') OR (taken.kind = 'bonus' AND taken.request_id IS NULL))
ORDER BY taken.id
"""
READ_LINES = """
SELECT accounts.number, accounts.place, entries.id, entries.balance_after,
    CASE WHEN entries.kind = 'deduction' THEN -entries.amount ELSE entries.amount END
FROM ledger_entries AS entries JOIN accounts ON accounts.id = entries.account_id
WHERE entries.id > ? AND entries.id <= ? AND entries.kind <> 'settlement' ORDER BY entries.id
"""
SAVE_PLACES = """
WITH changed (number, place) AS (VALUES {rows})
UPDATE accounts SET place = changed.place FROM changed WHERE accounts.number = changed.number
"""
READ_OPENINGS = "SELECT account, postings, chain FROM openings WHERE day = 0 AND account IN {in}"
SAVE_OPENINGS = """
INSERT INTO openings (account, day, issued, spent, postings, chain) VALUES {rows}
ON CONFLICT (account, day) DO UPDATE SET postings = excluded.postings, chain = excluded.chain
"""
READ_OPEN = """
SELECT old.request_id, old.account_id, old.key_id, old.credits, old.node, old.counted, taken.balance_after, taken.id,
    taken.created_at, endpoints.id, COALESCE(cover.amount, 0), cover.id
FROM open_before AS old
JOIN ledger_entries AS taken ON taken.request_id = old.request_id AND taken.kind = 'deduction'
JOIN endpoints ON endpoints.platform = old.platform AND endpoints.path = old.endpoint
LEFT JOIN ledger_entries AS cover ON cover.request_id = old.request_id AND cover.kind = 'bonus'
"""
ADD_OPEN = """
INSERT INTO charges (request_id, account_id, key_id, credits, node, counted, balance_after, place, taken_at, endpoint,
                     issued, issued_place)
VALUES {rows}
"""
# Finds lines without a matching posting. The query uses the index of each kind of posting, so nothing is sorted.
READ_LOST = (
    """
    SELECT entries.id FROM ledger_entries AS entries JOIN accounts ON accounts.id = entries.account_id
    LEFT JOIN journal ON journal.account = accounts.number AND journal.place = entries.id
        AND journal.balance_after = entries.balance_after
        AND entries.amount = CASE WHEN entries.kind = 'deduction' THEN journal.taken ELSE journal.issued END
    LEFT JOIN charges ON charges.request_id = entries.request_id AND charges.credits = entries.amount
    WHERE entries.id > ? AND entries.id <= ? AND journal.id IS NULL AND charges.request_id IS NULL
        AND (entries.kind IN ('deduction', 'purchase') OR (entries.kind = 'bonus' AND entries.request_id IS NULL))
    LIMIT 1
    """,
    """
    SELECT entries.id FROM ledger_entries AS entries JOIN accounts ON accounts.id = entries.account_id
    LEFT JOIN journal ON journal.account = accounts.number AND journal.refund_place = entries.id
        AND journal.balance_closed = entries.balance_after AND journal.refunded = entries.amount
    WHERE entries.id > ? AND entries.id <= ? AND entries.kind = 'refund' AND journal.id IS NULL LIMIT 1
    """,
    """
    SELECT entries.id FROM ledger_entries AS entries JOIN accounts ON accounts.id = entries.account_id
    LEFT JOIN journal ON journal.account = accounts.number AND journal.issued_place = entries.id
        AND journal.balance_after + journal.taken = entries.balance_after AND journal.issued = entries.amount
    LEFT JOIN charges ON charges.request_id = entries.request_id AND charges.issued = entries.amount
    WHERE entries.id > ? AND entries.id <= ? AND entries.kind = 'bonus' AND entries.request_id IS NOT NULL
        AND journal.id IS NULL AND charges.request_id IS NULL
    LIMIT 1
    """,
)


def enter_old_entries(schema: Schema) -> None:
    """Copy the old ledger's closed charges and issues into the journal and usage, step by step."""
    tx = schema.tx
    ((done, last),) = tx.all(READ_DONE)
    while done < last:
        after, done = done, done + STEP
        _enter(tx, tx.all(READ_ROWS, (after, done)))
        _link(tx, tx.all(READ_LINES, (after, done)))
        tx.run(SAVE_DONE, (done,))
        schema.commit()


def reopen_charges(schema: Schema) -> None:
    """Copy the open charges, each with its own deduction. There are only a few, because a client waits for each one."""
    tx = schema.tx
    tx.run_many(ADD_OPEN, [(*row[:8], micros(row[8]), *row[9:]) for row in tx.all(READ_OPEN)])


def prove_old_entries(schema: Schema) -> None:
    """Compare every line of the old statements with its posting.

    Raises:
        StoreUnusable: a line differs from its posting; the old ledger is kept.
    """
    tx = schema.tx
    ((_done, last),) = tx.all(READ_DONE)
    for after in range(0, last, STEP):
        for sql in READ_LOST:
            if lost := tx.one(sql, (after, after + STEP)):
                raise StoreUnusable(
                    f"entry {lost[0]} of the ledger reads differently in the journal: stop every node of an "
                    "older version, and verify the ledger with that version"
                )


def _enter(tx: Tx, rows: list[Row]) -> None:
    journal: list[JournalRow] = []
    usage = defaultdict[tuple[Value, ...], list[int]](lambda: [0, 0, 0, 0])
    for row in rows:
        id_, kind, amount, balance, request_id, at, account, key, endpoint, note = row[:10]
        settled_at, settled_balance, back_id, back, back_balance, back_at, back_note, cover_id, cover = row[10:]
        if kind != "deduction":
            way = PURCHASE if kind == "purchase" else BONUS
            journal.append(
                issue(way, amount, account=account, place=id_, balance_after=balance, note=note, at=micros(at))
            )
        elif back_id is not None or settled_at is not None:
            taken_at = micros(at)
            closed_at = micros(settled_at if back_id is None else back_at)
            balance_closed = settled_balance if back_id is None else back_balance
            way, journal_id = identify(request_id)
            refunded = back or 0
            amounts = (amount, refunded, cover or 0, taken_at, closed_at - taken_at, balance, balance_closed)
            journal.append((journal_id, way, account, key, endpoint, *amounts, id_, back_id, cover_id, back_note))
            counts = usage[account, endpoint, key or 0, closed_at // HOUR_MICROS]
            counts[0] += 1
            counts[1] += amount - refunded
            counts[2] += refunded
            counts[3] += 0 < amount == refunded
    add_rows(tx, journal)
    tx.run_many(ADD_USAGE, [(*place, *counts) for place, counts in usage.items()])


def _link(tx: Tx, lines: list[Row]) -> None:
    """Update each account's last place, and store in `openings` what its gaps add to the count and to the chain."""
    places: dict[int, int] = {account: place for account, place, *_rest in lines}
    openings = {row[0]: [row[1], row[2]] for row in tx.all_in(READ_OPENINGS, list(places))}
    for account, _place, id_, balance, moved in lines:
        opening = openings.setdefault(account, [0, 0])
        opening[0] += id_ - 1 - places[account]
        opening[1] += weight(id_ - 1, balance - moved) - weight(places[account], balance - moved)
        places[account] = id_
    tx.run_many(SAVE_PLACES, list(places.items()))
    rows = [(account, 0, 0, 0, postings, chain % MODULUS) for account, (postings, chain) in openings.items()]
    tx.run_many(SAVE_OPENINGS, rows)
