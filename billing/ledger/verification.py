"""The proof of the ledger: every invariant as one query for what breaks it (decisions 6)."""

from collections.abc import Iterator
from dataclasses import dataclass

from storage.store import Tx


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant: which, where, and the numbers that do not agree."""

    rule: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant. `sql` gives a row (subject, number, number) for each place that breaks it; `says` tells them."""

    name: str
    sql: str
    says: str


RULES = (
    Invariant(
        "entries belong to accounts",
        """
        SELECT DISTINCT account_id, 0, 0 FROM ledger_entries WHERE account_id NOT IN (SELECT id FROM accounts)
        """,
        "the ledger has entries of an account that is not there",
    ),
    Invariant(
        "entries name real keys",
        """
        SELECT MIN(entries.id), 0, 0 FROM ledger_entries AS entries LEFT JOIN keys ON keys.id = entries.key_id
        WHERE entries.key_id IS NOT NULL AND (keys.id IS NULL OR keys.account_id <> entries.account_id)
        GROUP BY entries.key_id, entries.account_id
        """,
        "the entry's key is not there, or is another account's",
    ),
    Invariant(
        "entries move between the right books",
        """
        SELECT id, 0, 0 FROM ledger_entries WHERE amount < 0 OR CASE kind
            WHEN 'purchase' THEN debit = 'issued' AND credit = 'available'
            WHEN 'bonus' THEN debit = 'issued' AND credit = 'available'
            WHEN 'deduction' THEN debit = 'available' AND credit = 'held'
            WHEN 'settlement' THEN debit = 'held' AND credit = 'spent'
            WHEN 'refund' THEN debit = 'held' AND credit = 'available'
            ELSE 1 = 0 END = (1 = 0)
        """,
        "the entry's kind, books and sign do not fit together",
    ),
    Invariant(
        "the balance is the sum of the entries",
        """
        SELECT accounts.id, accounts.balance, COALESCE(SUM(CASE WHEN entries.credit = 'available' THEN entries.amount
            WHEN entries.debit = 'available' THEN -entries.amount ELSE 0 END), 0) AS total
        FROM accounts LEFT JOIN ledger_entries AS entries ON entries.account_id = accounts.id
        GROUP BY accounts.id, accounts.balance
        HAVING accounts.balance <> COALESCE(SUM(CASE WHEN entries.credit = 'available' THEN entries.amount
            WHEN entries.debit = 'available' THEN -entries.amount ELSE 0 END), 0)
        """,
        "the account's balance is {} and its entries sum up to {}",
    ),
    Invariant(
        "what is held is the sum of the entries",
        """
        SELECT accounts.id, accounts.held, COALESCE(SUM(CASE WHEN entries.credit = 'held' THEN entries.amount
            WHEN entries.debit = 'held' THEN -entries.amount ELSE 0 END), 0) AS total
        FROM accounts LEFT JOIN ledger_entries AS entries ON entries.account_id = accounts.id
        GROUP BY accounts.id, accounts.held
        HAVING accounts.held <> COALESCE(SUM(CASE WHEN entries.credit = 'held' THEN entries.amount
            WHEN entries.debit = 'held' THEN -entries.amount ELSE 0 END), 0)
        """,
        "the account holds {} and its entries sum up to {}",
    ),
    Invariant(
        "what is held is what is open",
        """
        SELECT accounts.id, accounts.held, COALESCE(SUM(charges.credits), 0) AS total
        FROM accounts LEFT JOIN charges ON charges.account_id = accounts.id
        GROUP BY accounts.id, accounts.held HAVING accounts.held <> COALESCE(SUM(charges.credits), 0)
        """,
        "the account holds {} and its open charges sum up to {}",
    ),
    Invariant(
        "balances follow from one entry to the next",
        """
        SELECT id, balance_after, running FROM (
            SELECT id, balance_after, SUM(CASE WHEN credit = 'available' THEN amount
                WHEN debit = 'available' THEN -amount ELSE 0 END) OVER (PARTITION BY account_id ORDER BY id) AS running
            FROM ledger_entries
        ) AS chain WHERE balance_after <> running OR running < 0
        """,
        "the entry says a balance of {} and those up to it sum up to {}",
    ),
    Invariant(
        "a closed charge was settled and refunded to what was deducted",
        """
        SELECT request_id, deducted, closed FROM (
            SELECT request_id, SUM(CASE WHEN kind = 'deduction' THEN amount ELSE 0 END) AS deducted,
                SUM(CASE WHEN kind IN ('settlement', 'refund') THEN amount ELSE 0 END) AS closed
            FROM ledger_entries WHERE request_id IS NOT NULL GROUP BY request_id
        ) AS sums WHERE deducted <> closed AND request_id NOT IN (SELECT request_id FROM charges)
        """,
        "{} were deducted, {} were settled or refunded, and the charge is not open",
    ),
    Invariant(
        "a request is charged once and closed once, in one account",
        """
        SELECT request_id, SUM(CASE WHEN kind = 'deduction' THEN 1 ELSE 0 END), COUNT(DISTINCT account_id)
        FROM ledger_entries WHERE request_id IS NOT NULL GROUP BY request_id
        HAVING SUM(CASE WHEN kind = 'deduction' THEN 1 ELSE 0 END) <> 1
            OR SUM(CASE WHEN kind = 'settlement' THEN 1 ELSE 0 END) > 1
            OR SUM(CASE WHEN kind = 'refund' THEN 1 ELSE 0 END) > 1
            OR COUNT(DISTINCT account_id) <> 1
        """,
        "the request has {} deductions in {} accounts, or was closed twice",
    ),
    Invariant(
        "an open charge was deducted and not closed",
        """
        SELECT charges.request_id, MIN(charges.credits),
            COALESCE(SUM(CASE WHEN entries.kind = 'deduction' THEN entries.amount ELSE -entries.amount END), -1)
        FROM charges LEFT JOIN ledger_entries AS entries
            ON entries.request_id = charges.request_id AND entries.account_id = charges.account_id
            AND entries.kind <> 'bonus'
        GROUP BY charges.request_id
        HAVING MIN(charges.credits)
            <> COALESCE(SUM(CASE WHEN entries.kind = 'deduction' THEN entries.amount ELSE -entries.amount END), -1)
            OR COUNT(entries.id) <> 1
        """,
        "the open charge is of {} credits and the ledger holds {} for it",
    ),
    Invariant(
        "keys belong to accounts",
        "SELECT id, used, 0 FROM keys WHERE used < 0 OR account_id NOT IN (SELECT id FROM accounts)",
        "the key's account is not there, or its counter of {} is below 0",
    ),
    Invariant(
        "a key's counter holds its open charges since the last reset",
        """
        SELECT keys.id, MIN(keys.used), SUM(charges.credits) FROM charges JOIN keys ON keys.id = charges.key_id
        WHERE charges.counted = 1 GROUP BY keys.id HAVING MIN(keys.used) < SUM(charges.credits)
        """,
        "the key's counter is {} and its open charges since the last reset sum up to {}",
    ),
)


def verify(tx: Tx) -> list[Violation]:
    """Every place where the ledger breaks an invariant; none proves it."""
    return [violation for rule in RULES for violation in _violations(tx, rule)]


def _violations(tx: Tx, rule: Invariant) -> Iterator[Violation]:
    for subject, first, second in tx.all(rule.sql):
        yield Violation(rule.name, str(subject), rule.says.format(first, second))
