"""The invariants of the ledger: those that a query each proves, and those of an account's sums."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from billing.ledger import chain
from storage.store import Tx

# The postings of one account in their order, each with the balance before it; for an account whose chain is broken.
BROKEN: Final = """
WITH posted (place, before, after) AS (
    SELECT place, balance_after + taken - CASE WHEN issued_place IS NULL THEN issued ELSE 0 END, balance_after
    FROM journal WHERE account = ?
    UNION ALL SELECT refund_place, balance_closed - refunded, balance_closed
    FROM journal WHERE account = ? AND refund_place IS NOT NULL
    UNION ALL SELECT issued_place, balance_after + taken - issued, balance_after + taken
    FROM journal WHERE account = ? AND issued_place IS NOT NULL
    UNION ALL SELECT place, balance_after + credits, balance_after FROM charges WHERE account = ?
    UNION ALL SELECT issued_place, balance_after + credits - issued, balance_after + credits
    FROM charges WHERE account = ? AND issued_place IS NOT NULL
)
SELECT place, before, previous FROM (
    SELECT place, before, LAG(after) OVER (ORDER BY place) AS previous FROM posted
) AS linked WHERE before <> previous ORDER BY place LIMIT 10
"""


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
        "what is held is what is open",
        """
        SELECT accounts.id, accounts.held, COALESCE(SUM(charges.credits), 0) AS total
        FROM accounts LEFT JOIN charges ON charges.account = accounts.number
        GROUP BY accounts.id, accounts.held HAVING accounts.held <> COALESCE(SUM(charges.credits), 0)
        """,
        "the account holds {} and its open charges sum up to {}",
    ),
    Invariant(
        "open charges belong to accounts and their keys",
        """
        SELECT charges.place, 0, 0 FROM charges LEFT JOIN accounts ON accounts.number = charges.account
        LEFT JOIN keys ON keys.number = charges.key
        WHERE accounts.id IS NULL OR (charges.key IS NOT NULL AND keys.id IS NULL) OR keys.account_id <> accounts.id
            OR charges.endpoint NOT IN (SELECT id FROM endpoints)
            OR charges.node NOT IN (SELECT id FROM charging_nodes) OR charges.issued < 0 OR charges.credits < 0
        """,
        "the open charge's account, key, endpoint or node is not there, or it is of fewer than 0 credits",
    ),
    Invariant(
        "keys belong to accounts",
        "SELECT id, used, 0 FROM keys WHERE used < 0 OR account_id NOT IN (SELECT id FROM accounts)",
        "the key's account is not there, or its counter of {} is below 0",
    ),
    Invariant(
        "a key's counter holds its open charges since the last reset",
        """
        SELECT keys.id, MIN(keys.used), SUM(charges.credits) FROM charges JOIN keys ON keys.number = charges.key
        WHERE charges.counted = 1 GROUP BY keys.id HAVING MIN(keys.used) < SUM(charges.credits)
        """,
        "the key's counter is {} and its open charges since the last reset sum up to {}",
    ),
)
ROWS_FIT = "a row's numbers fit together"
ROWS_OF_ACCOUNTS = "rows belong to accounts"
ROWS_OF_KEYS = "rows name keys of their account"
CONSERVED = "what came in is available, held or spent"
COMPLETE = "no posting is missing, and none stands twice"
CHAINED = "balances follow from one posting to the next"
CLOSED_ONCE = "an open charge is not closed"
COUNTED = "usage counts what was spent"
NAMES: Final = (
    *(rule.name for rule in RULES),
    ROWS_FIT,
    ROWS_OF_ACCOUNTS,
    ROWS_OF_KEYS,
    CONSERVED,
    COMPLETE,
    CHAINED,
    CLOSED_ONCE,
    COUNTED,
)


class AccountRow(NamedTuple):
    """An account as far as its postings lead to it."""

    id: str
    balance: int
    held: int
    place: int


@dataclass(slots=True)
class Sums:
    """The sums of an account's postings; changed by its proof alone."""

    issued: int = 0
    spent: int = 0
    held: int = 0
    postings: int = 0
    chain: int = 0
    used: int = 0

    def add(self, spent: int, issued: int, postings: int, links: int, *, times: int = 1) -> None:
        """Add postings; taken off where `times` is -1."""
        self.spent += times * spent
        self.issued += times * issued
        self.postings += times * postings
        self.chain += times * links


def judge_rules(tx: Tx) -> Iterator[Violation]:
    """Every place that breaks one of `RULES`."""
    for rule in RULES:
        for subject, first, second in tx.all(rule.sql):
            yield Violation(rule.name, str(subject), rule.says.format(first, second))


def judge_account(tx: Tx, number: int, account: AccountRow, sums: Sums) -> Iterator[Violation]:
    """Every way in which an account's row and the sums of its postings do not agree."""
    id_, balance, held, place = account
    if balance + held + sums.spent != sums.issued:
        text = f"{balance} are available, {held} held and {sums.spent} spent, of {sums.issued} that came in"
        yield Violation(CONSERVED, id_, text)
    if sums.used != sums.spent:
        yield Violation(COUNTED, id_, f"usage counts {sums.used} credits, and {sums.spent} were spent")
    if sums.postings != place:
        yield Violation(COMPLETE, id_, f"the account has had {place} postings, and {sums.postings} are there")
    if (sums.chain - chain.weight(place, balance)) % chain.MODULUS:
        broken = tx.all(BROKEN, (number,) * 5)
        for at, before, previous in broken:
            text = f"the posting begins with a balance of {before}, and the one before it left {previous}"
            yield Violation(CHAINED, f"{id_}, txn_{at}", text)
        if not broken:
            yield Violation(CHAINED, id_, "the balances of its postings do not lead to that of the account")
