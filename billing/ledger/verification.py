"""The proof of the ledger (decisions 6): every posting is added up once, in one pass that sorts nothing large.

The journal is read in pieces in the order of its ids; of each piece the database gives sums by account and key, and
their totals are held against accounts, open charges and usage. The only thing that is kept is a few numbers an account.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from billing.archive.openings import HAS_LEFT
from billing.charges.charge_rows import read_closed
from billing.journal import request_text
from billing.ledger import chain
from storage.store import Tx

PIECE: Final = 50_000
CLOSED_AT_ONCE: Final = 500

ODD_ROW: Final = """
    refunded < 0 OR refunded > taken OR issued < 0 OR (refunded = 0) <> (refund_place IS NULL)
    OR (kind <= 2 AND (kind < 0 OR endpoint IS NULL OR (issued = 0) <> (issued_place IS NULL)))
    OR (kind > 2 AND (kind > 4 OR taken <> 0 OR issued_place IS NOT NULL))
    OR balance_after < 0 OR balance_closed < 0
"""
END_OF_PIECE: Final = "SELECT id FROM journal WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
LAST: Final = "SELECT id FROM journal ORDER BY id DESC LIMIT 1"
SUMS: Final = f"""
SELECT account, key, SUM(taken - refunded), SUM(issued), COUNT(*) + COUNT(refund_place) + COUNT(issued_place),
    SUM({chain.JOURNAL}), SUM(CASE WHEN {ODD_ROW} THEN 1 ELSE 0 END), MIN(place)
FROM journal WHERE id > ? AND id <= ? GROUP BY account, key
"""  # noqa: S608 - constants
FIND_ODD: Final = f"SELECT account, place FROM journal WHERE id > ? AND id <= ? AND ({ODD_ROW})"  # noqa: S608 - constants
OPEN_SUMS: Final = f"""
SELECT account, SUM(credits), SUM(issued), COUNT(*) + COUNT(issued_place), SUM({chain.OPEN})
FROM charges GROUP BY account
"""  # noqa: S608 - constants
OPENINGS: Final = f"""
SELECT account, day, issued, spent, postings, chain FROM openings
WHERE (account, day) > (?, ?) AND {HAS_LEFT} ORDER BY account, day LIMIT ?
"""  # noqa: S608 - constants
USED: Final = "SELECT account, SUM(credits) FROM usage GROUP BY account"
ACCOUNTS: Final = "SELECT number, id, balance, held, place FROM accounts"
OPEN_IDS: Final = "SELECT id, kind FROM charges WHERE id > ? ORDER BY id LIMIT ?"
KEY_OWNERS: Final = "SELECT keys.number, accounts.number FROM keys JOIN accounts ON accounts.id = keys.account_id"
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


@dataclass(slots=True)
class Sums:
    """The sums of an account's postings; changed by `verify` alone."""

    issued: int = 0
    spent: int = 0
    held: int = 0
    postings: int = 0
    chain: int = 0
    used: int = 0


def unheard(_rows: int) -> None:
    """Tell nobody, by default."""


def verify(tx: Tx, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Every place where the ledger breaks an invariant; none proves it.

    `progress` is told, on the same thread, how many rows of the journal have been added up, after each piece of them.
    """
    tx.pin("journal")
    found = [violation for rule in RULES for violation in _violations(tx, rule)]
    sums = defaultdict[int, Sums](Sums)
    found += _add_journal(tx, sums, progress)
    _add_the_rest(tx, sums)
    found += _closed_and_open(tx)
    accounts = {row[0]: row[1:] for row in tx.all(ACCOUNTS)}
    for number in sums.keys() - accounts.keys():
        found.append(Violation(ROWS_OF_ACCOUNTS, str(number), "the journal has rows of an account that is not there"))
    for number, account in accounts.items():
        found += _judge(tx, number, account, sums[number])
    return found


def _violations(tx: Tx, rule: Invariant) -> Iterator[Violation]:
    for subject, first, second in tx.all(rule.sql):
        yield Violation(rule.name, str(subject), rule.says.format(first, second))


def _pieces(tx: Tx) -> Iterator[tuple[bytes, bytes]]:
    """Ranges of ids, each above the first and up to the second, that hold the journal in pieces."""
    newest = tx.one(LAST)
    after = b""
    while newest is not None and after < newest[0]:
        end = tx.one(END_OF_PIECE, (after, PIECE - 1)) or newest
        yield after, end[0]
        after = end[0]


def _add_journal(tx: Tx, sums: defaultdict[int, Sums], progress: Callable[[int], None]) -> Iterator[Violation]:
    owners = {row[0]: row[1] for row in tx.all(KEY_OWNERS)}
    astray: set[tuple[int, int]] = set()
    for number, (after, until) in enumerate(_pieces(tx)):
        progress(number * PIECE)
        odd = 0
        for account, key, spent, issued, postings, links, strange, place in tx.all(SUMS, (after, until)):
            one = sums[account]
            one.spent += spent
            one.issued += issued
            one.postings += postings
            one.chain += links
            odd += strange
            if key is not None and owners.get(key) != account and (key, account) not in astray:
                astray.add((key, account))
                text = "the key of the row is not there, or is another account's"
                yield Violation(ROWS_OF_KEYS, f"place {place} of account {account}", text)
        if odd:
            for account, place in tx.all(FIND_ODD, (after, until)):
                text = "kind, amounts, places and balances of the row do not fit together"
                yield Violation(ROWS_FIT, f"place {place} of account {account}", text)


def _add_the_rest(tx: Tx, sums: defaultdict[int, Sums]) -> None:
    """Open charges, what is not in the journal any more, and usage."""
    for number, held, issued, postings, links in tx.all(OPEN_SUMS):
        one = sums[number]
        one.held += held
        one.issued += issued
        one.postings += postings
        one.chain += links
    last = (-1, -1)
    while rows := tx.all(OPENINGS, (*last, PIECE)):
        last = rows[-1][:2]
        for number, _day, issued, spent, postings, links in rows:
            one = sums[number]
            one.issued += issued
            one.spent += spent
            one.postings += postings
            one.chain += links
    for number, used in tx.all(USED):
        sums[number].used += used


def _closed_and_open(tx: Tx) -> Iterator[Violation]:
    last = b""
    while rows := tx.all(OPEN_IDS, (last, CLOSED_AT_ONCE)):
        last = rows[-1][0]
        for request_id in read_closed(tx, [request_text(kind, id_) or "" for id_, kind in rows]):
            yield Violation(CLOSED_ONCE, request_id, "the charge is open, and closed in the journal")


def _judge(tx: Tx, number: int, account: Sequence[object], sums: Sums) -> Iterator[Violation]:
    id_, balance, held, place = account
    assert isinstance(id_, str)
    assert isinstance(balance, int)
    assert isinstance(held, int)
    assert isinstance(place, int)
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
