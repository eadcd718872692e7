"""The invariants of the ledger.

Some are verified with a query each, the others with the sums of an account's postings.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from billing.ledger import chain
from storage.store import Tx

# The postings of one account in order, each with the balance before it. Used when the account's chain is broken.
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
    """A broken invariant: its name, the place where it is broken, and the numbers that disagree."""

    rule: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant. `sql` selects a row (subject, number, number) for each violation; `says` formats its numbers."""

    name: str
    sql: str
    says: str


RULES = (
    Invariant(
        "an account holds the credits of its open charges",
        """
        SELECT accounts.id, accounts.held, COALESCE(SUM(charges.credits), 0) AS total
        FROM accounts LEFT JOIN charges ON charges.account = accounts.number
        GROUP BY accounts.id, accounts.held HAVING accounts.held <> COALESCE(SUM(charges.credits), 0)
        """,
        "the account holds {} and its open charges add up to {}",
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
        "the open charge's account, key, endpoint or node is missing, or its credits are negative",
    ),
    Invariant(
        "keys belong to accounts",
        "SELECT id, used, 0 FROM keys WHERE used < 0 OR account_id NOT IN (SELECT id FROM accounts)",
        "the key's account is missing, or its counter of {} is negative",
    ),
    Invariant(
        "a key's counter includes its open charges since the last reset",
        """
        SELECT keys.id, MIN(keys.used), SUM(charges.credits) FROM charges JOIN keys ON keys.number = charges.key
        WHERE charges.counted = 1 GROUP BY keys.id HAVING MIN(keys.used) < SUM(charges.credits)
        """,
        "the key's counter is {} and its open charges since the last reset add up to {}",
    ),
)
ROWS_FIT = "the numbers of a row are consistent"
ROWS_OF_ACCOUNTS = "rows belong to accounts"
ROWS_OF_KEYS = "rows refer to keys of their account"
CONSERVED = "received credits are available, held or spent"
COMPLETE = "no posting is missing or duplicated"
CHAINED = "each posting begins with the balance of the previous one"
CLOSED_ONCE = "no open charge is also closed"
COUNTED = "usage matches the spent credits"
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
    """The columns of an account's row that must match the sums of its postings."""

    id: str
    balance: int
    held: int
    place: int


@dataclass(slots=True)
class Sums:
    """The sums of an account's postings, accumulated by the proof of that account."""

    issued: int = 0
    spent: int = 0
    held: int = 0
    postings: int = 0
    chain: int = 0
    used: int = 0

    def add(self, spent: int, issued: int, postings: int, links: int, *, times: int = 1) -> None:
        """Add postings, or subtract them with `times` -1."""
        self.spent += times * spent
        self.issued += times * issued
        self.postings += times * postings
        self.chain += times * links


def judge_rules(tx: Tx) -> Iterator[Violation]:
    """Yield every violation of the invariants in `RULES`."""
    for rule in RULES:
        for subject, first, second in tx.all(rule.sql):
            yield Violation(rule.name, str(subject), rule.says.format(first, second))


def judge_account(tx: Tx, number: int, account: AccountRow, sums: Sums) -> Iterator[Violation]:
    """Yield every mismatch between an account's row and the sums of its postings."""
    id_, balance, held, place = account
    if balance + held + sums.spent != sums.issued:
        text = f"{balance} are available, {held} held and {sums.spent} spent, of {sums.issued} received"
        yield Violation(CONSERVED, id_, text)
    if sums.used != sums.spent:
        yield Violation(COUNTED, id_, f"usage counts {sums.used} credits, but {sums.spent} were spent")
    if sums.postings != place:
        yield Violation(COMPLETE, id_, f"the account should have {place} postings, but has {sums.postings}")
    if (sums.chain - chain.weight(place, balance)) % chain.MODULUS:
        broken = tx.all(BROKEN, (number,) * 5)
        for at, before, previous in broken:
            text = f"the posting begins with a balance of {before}, but the previous one left {previous}"
            yield Violation(CHAINED, f"{id_}, txn_{at}", text)
        if not broken:
            yield Violation(CHAINED, id_, "the balances of the postings do not end with the account's balance")
