"""Verifies the ledger in one pass that adds up every posting once and sorts nothing large (decisions 6).

The journal is read in pieces, in id order. The database returns sums by account and key for each piece, and
the totals are compared with accounts, open charges and usage. Only a few numbers per account are stored in memory.

Each piece may be read in a separate transaction, which sees a later state than the previous one. Journal rows never
change, so the state at the beginning can be derived from later states by subtracting newer rows:

1. A row that exists now but did not exist at the beginning belongs to a charge that was open then or was taken later.
    The proof keeps the ids of the charges that were open. A charge taken later has a higher place than the last place
    of its account at the beginning.
2. A row whose place is above the last place of its account even now cannot belong to a later charge. The row stays in
    the sums, so the sums do not match.
3. A row that existed at the beginning but does not exist now has been archived. Rows are archived slowly and in id
    order, and the first piece is read together with the accounts and the sums of archived rows. Every row that is
    archived later has therefore already been added.

In two cases the sums do not match although the ledger is correct: rows were archived in another order, or a whole month
was dropped. A fault is therefore reported only if a second proof, in one transaction, confirms it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import trio

from billing.archive.openings import HAS_LEFT
from billing.journal import request_text
from billing.ledger import chain
from billing.ledger.rules import (
    CLOSED_ONCE,
    ROWS_FIT,
    ROWS_OF_ACCOUNTS,
    ROWS_OF_KEYS,
    AccountRow,
    Sums,
    Violation,
    judge_account,
    judge_rules,
)
from storage.store import Read, Tx

PIECE: Final = 50_000
LISTED_AT_ONCE: Final = 500
REST_S: Final = 0.01
"""The pause in seconds between two pieces. During this pause no read is active, so SQLite can restart its log."""

ODD_ROW: Final = """
    refunded < 0 OR refunded > taken OR issued < 0 OR (refunded = 0) <> (refund_place IS NULL)
    OR (kind <= 2 AND (kind < 0 OR endpoint IS NULL OR (issued = 0) <> (issued_place IS NULL)))
    OR (kind > 2 AND (kind > 4 OR taken <> 0 OR issued_place IS NOT NULL))
    OR balance_after < 0 OR balance_closed < 0
"""
END_OF_PIECE: Final = "SELECT id FROM journal WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
LAST: Final = "SELECT id FROM journal ORDER BY id DESC LIMIT 1"
_ADDED: Final = f"""account, MAX(place), SUM(taken - refunded), SUM(issued),
    COUNT(*) + COUNT(refund_place) + COUNT(issued_place), SUM({chain.JOURNAL})"""
SUMS: Final = f"""
SELECT {_ADDED}, key, SUM(CASE WHEN {ODD_ROW} THEN 1 ELSE 0 END)
FROM journal WHERE id > ? AND id <= ? GROUP BY account, key
"""  # noqa: S608 - constants
# Two queries for the sums of single rows: of rows with the given ids, and of a piece's rows above a given place.
CLOSED_SINCE: Final = f"SELECT {_ADDED} FROM journal WHERE id IN {{in}} GROUP BY account, place"  # noqa: S608 - constants
TAKEN_SINCE: Final = f"""
SELECT {_ADDED} FROM journal WHERE id > ? AND id <= ? AND place > ? GROUP BY account, place
"""  # noqa: S608 - constants
PLACES_NOW: Final = "SELECT number, place FROM accounts WHERE number IN {in}"
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
OPEN_IDS: Final = "SELECT id FROM charges WHERE id > ? ORDER BY id LIMIT ?"
CLOSED: Final = "SELECT kind, id FROM journal WHERE id IN {in}"
KEY_OWNERS: Final = "SELECT keys.number, accounts.number FROM keys JOIN accounts ON accounts.id = keys.account_id"


def unheard(_rows: int) -> None:
    """Do nothing (the default for `progress`)."""


async def prove(read: Read, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Return every violation of the ledger's invariants, reading each piece in a short transaction.

    A transaction that reads for minutes prevents SQLite from restarting its log, which then grows with the traffic.
    If a fault is suspected, the ledger is read again in one transaction, and only the violations found there are
    returned.
    """
    proof = Proof(progress=progress)
    has_more = await read(proof.begin)
    while has_more:
        await trio.sleep(REST_S)
        has_more = await read(proof.step)
    if not await read(proof.finish):
        return []
    return await read(partial(verify, progress=progress))


def verify(tx: Tx, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Return every violation of the ledger's invariants in the state that `tx` sees.

    The list is empty if the ledger is correct.

    `progress` is called on the same thread before each piece, with the number of journal rows added up so far.
    """
    proof = Proof(progress=progress)
    has_more = proof.begin(tx)
    while has_more:
        has_more = proof.step(tx)
    return proof.finish(tx)


class Proof:
    """A proof of the ledger in the state that `begin` sees. Call `step` until it returns False, then `finish`."""

    def __init__(self, *, piece: int = PIECE, progress: Callable[[int], None] = unheard) -> None:
        """`piece` is the number of journal rows per piece."""
        self._piece = piece
        self._progress = progress
        self._rows = 0
        self._after = self._last = b""
        self._found: list[Violation] = []
        self._sums = defaultdict[int, Sums](Sums)
        self._accounts: dict[int, AccountRow] = {}
        self._owners: dict[int, int] = {}
        self._open: list[bytes] = []
        self._reported_keys: set[tuple[int, int]] = set()

    def begin(self, tx: Tx) -> bool:
        """Read the first piece of the journal, and all other tables. Return whether more pieces are left."""
        tx.pin("journal")
        self._found += judge_rules(tx)
        self._accounts.update((row[0], AccountRow(*row[1:])) for row in tx.all(ACCOUNTS))
        self._owners.update((row[0], row[1]) for row in tx.all(KEY_OWNERS))
        self._add_other_sums(tx)
        self._list_open(tx)
        newest = tx.one(LAST)
        return newest is not None and self._add_piece(tx, newest[0])

    def step(self, tx: Tx) -> bool:
        """Read the next piece. Return whether more pieces are left."""
        tx.pin("journal")
        return self._add_piece(tx, self._last)

    def finish(self, tx: Tx) -> list[Violation]:
        """Return every violation that was found."""
        for number in self._sums.keys() - self._accounts.keys():
            if self._sums[number] != Sums():
                text = "the journal has rows of a missing account"
                self._found.append(Violation(ROWS_OF_ACCOUNTS, str(number), text))
        for number, account in self._accounts.items():
            self._found += judge_account(tx, number, account, self._sums[number])
        return self._found

    def _add_piece(self, tx: Tx, last: bytes) -> bool:
        """Add up the next rows, up to the row with the id `last`."""
        self._progress(self._rows)
        self._rows += self._piece
        end = tx.one(END_OF_PIECE, (self._after, self._piece - 1))
        piece = self._after, last if end is None else min(end[0], last)
        self._after, self._last = piece[1], last
        odd, later, keys = 0, set[int](), dict[tuple[int, int], int]()
        for account, place, *added, key, strange in tx.all(SUMS, piece):
            self._sums[account].add(*added)
            odd += strange
            if place > self._place(account):
                later.add(account)
            if key is not None and self._owners.get(key) != account:
                keys[key, account] = place
        self._subtract_closed(tx, piece)
        if later:
            self._subtract_taken(tx, piece, later)
        if keys:
            self._found += self._judge_keys(tx, keys)
        if odd:
            self._found += _odd_rows(tx, piece)
        return self._after < last

    def _subtract_closed(self, tx: Tx, piece: tuple[bytes, bytes]) -> None:
        """Subtract the rows of charges that were still open at the beginning and therefore not in the journal."""
        ids = self._open[bisect_right(self._open, piece[0]) : bisect_right(self._open, piece[1])]
        for first in range(0, len(ids), LISTED_AT_ONCE):
            self._subtract(tx.all_in(CLOSED_SINCE, ids[first : first + LISTED_AT_ONCE]))

    def _subtract_taken(self, tx: Tx, piece: tuple[bytes, bytes], accounts: set[int]) -> None:
        """Subtract the rows of charges taken since the beginning.

        Their places are above the last place of the account at the beginning, but not above its last place now.
        """
        now: dict[int, int] = dict(tx.all_in(PLACES_NOW, sorted(accounts)))
        rows = tx.all(TAKEN_SINCE, (*piece, min(map(self._place, accounts))))
        self._subtract([row for row in rows if self._place(row[0]) < row[1] <= now.get(row[0], 0)])

    def _place(self, number: int) -> int:
        """Return the account's last place at the beginning."""
        account = self._accounts.get(number)
        return 0 if account is None else account.place

    def _subtract(self, rows: Iterable[Sequence[int]]) -> None:
        for account, _place, *added in rows:
            self._sums[account].add(*added, times=-1)

    def _judge_keys(self, tx: Tx, places: dict[tuple[int, int], int]) -> Iterator[Violation]:
        """Yield a violation for each key that belongs to another account or is missing.

        Before an unknown key is reported as missing, the keys are read again.
        """
        self._owners.update((row[0], row[1]) for row in tx.all(KEY_OWNERS))
        for (key, account), place in places.items():
            if self._owners.get(key) != account and (key, account) not in self._reported_keys:
                self._reported_keys.add((key, account))
                text = "the row's key is missing, or belongs to another account"
                yield Violation(ROWS_OF_KEYS, f"place {place} of account {account}", text)

    def _add_other_sums(self, tx: Tx) -> None:
        """Add open charges, the sums of archived rows, and usage."""
        for number, held, issued, postings, links in tx.all(OPEN_SUMS):
            self._sums[number].held += held
            self._sums[number].add(0, issued, postings, links)
        last = (-1, -1)
        while rows := tx.all(OPENINGS, (*last, PIECE)):
            last = rows[-1][:2]
            for number, _day, issued, spent, postings, links in rows:
                self._sums[number].add(spent, issued, postings, links)
        for number, used in tx.all(USED):
            self._sums[number].used += used

    def _list_open(self, tx: Tx) -> None:
        """Store the ids of open charges, and record a violation for each charge that is also closed."""
        last = b""
        while rows := tx.all(OPEN_IDS, (last, LISTED_AT_ONCE)):
            last = rows[-1][0]
            closed = {id_: kind for kind, id_ in tx.all_in(CLOSED, [row[0] for row in rows])}
            self._open += [row[0] for row in rows if row[0] not in closed]
            for id_, kind in closed.items():
                text = "the charge is open, and closed in the journal"
                self._found.append(Violation(CLOSED_ONCE, request_text(kind, id_) or "", text))


def _odd_rows(tx: Tx, piece: tuple[bytes, bytes]) -> Iterator[Violation]:
    for account, place in tx.all(FIND_ODD, piece):
        text = "the row's kind, amounts, places and balances are inconsistent"
        yield Violation(ROWS_FIT, f"place {place} of account {account}", text)
