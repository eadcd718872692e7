"""The proof of the ledger (decisions 6): every posting is added up once, in one pass that sorts nothing large.

The journal is read in pieces in the order of its ids; of each piece the database gives sums by account and key, and
their totals are held against accounts, open charges and usage. The only thing that is kept is a few numbers an account.

The pieces may be read in transactions of their own, each of which sees a later state than the one before it. Rows of
the journal never change, so the state at the beginning follows from later ones: what it lacked is taken off again.

1. A row that stands now and did not stand then was open then, or was taken since. Which charges were open is remembered
   by their ids. What was taken since has a place behind the one that its account had then.
2. A row with a place that its account has not reached even now is none that was taken since: it stays in the sums, and
   breaks them.
3. A row that stood then and does not now has been archived. Rows leave in the order of their ids, slowly, and the first
   piece is read together with the accounts and with what had stayed behind for archived rows; so all that leaves later
   has been added up by then.

What is left of doubt is on the side of an alarm: a row that leaves in another order, or a month that goes as a whole,
is missed and breaks the sums. So a fault that was found so is told only when a proof in one transaction finds it.
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
"""Between two pieces, so that there are moments in which nothing reads and SQLite can begin its log anew."""

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
# Rows one by one, by place: those of ids, and those of a piece behind a place.
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
    """Tell nobody, by default."""


async def prove(read: Read, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Every place where the ledger breaks an invariant, by transactions that each last for one piece of it.

    One that reads for minutes keeps SQLite from beginning its log anew, which grows beside traffic meanwhile. Only a
    ledger in which a fault was found is read in one, for the faults that it then has.
    """
    proof = Proof(progress=progress)
    goes_on = await read(proof.begin)
    while goes_on:
        await trio.sleep(REST_S)
        goes_on = await read(proof.step)
    if not await read(proof.finish):
        return []
    return await read(partial(verify, progress=progress))


def verify(tx: Tx, *, progress: Callable[[int], None] = unheard) -> list[Violation]:
    """Every place where the ledger breaks an invariant, in the state that `tx` sees; none proves it.

    `progress` is told, on the same thread, how many rows of the journal have been added up, before each piece of them.
    """
    proof = Proof(progress=progress)
    goes_on = proof.begin(tx)
    while goes_on:
        goes_on = proof.step(tx)
    return proof.finish(tx)


class Proof:
    """A proof of the ledger as `begin` sees it: then `step` until it says that no piece is left, then `finish`."""

    def __init__(self, *, piece: int = PIECE, progress: Callable[[int], None] = unheard) -> None:
        """The journal is read in pieces of so many rows."""
        self._piece = piece
        self._progress = progress
        self._rows = 0
        self._after = self._last = b""
        self._found: list[Violation] = []
        self._sums = defaultdict[int, Sums](Sums)
        self._accounts: dict[int, AccountRow] = {}
        self._owners: dict[int, int] = {}
        self._open: list[bytes] = []
        self._astray: set[tuple[int, int]] = set()

    def begin(self, tx: Tx) -> bool:
        """Read all but the journal, and its first piece; whether another is left."""
        tx.pin("journal")
        self._found += judge_rules(tx)
        self._accounts.update((row[0], AccountRow(*row[1:])) for row in tx.all(ACCOUNTS))
        self._owners.update((row[0], row[1]) for row in tx.all(KEY_OWNERS))
        self._add_the_rest(tx)
        self._list_open(tx)
        newest = tx.one(LAST)
        return newest is not None and self._add_piece(tx, newest[0])

    def step(self, tx: Tx) -> bool:
        """Read the next piece; whether another is left."""
        tx.pin("journal")
        return self._add_piece(tx, self._last)

    def finish(self, tx: Tx) -> list[Violation]:
        """Every invariant that is broken."""
        for number in self._sums.keys() - self._accounts.keys():
            if self._sums[number] != Sums():
                text = "the journal has rows of an account that is not there"
                self._found.append(Violation(ROWS_OF_ACCOUNTS, str(number), text))
        for number, account in self._accounts.items():
            self._found += judge_account(tx, number, account, self._sums[number])
        return self._found

    def _add_piece(self, tx: Tx, last: bytes) -> bool:
        """Add up the next rows, of which the one with the id `last` is the last of all."""
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
        self._take_off_closed(tx, piece)
        if later:
            self._take_off_taken(tx, piece, later)
        if keys:
            self._found += self._judge_keys(tx, keys)
        if odd:
            self._found += _odd_rows(tx, piece)
        return self._after < last

    def _take_off_closed(self, tx: Tx, piece: tuple[bytes, bytes]) -> None:
        """Charges of this piece that were open at the beginning are not rows of the journal as it was."""
        ids = self._open[bisect_right(self._open, piece[0]) : bisect_right(self._open, piece[1])]
        for first in range(0, len(ids), LISTED_AT_ONCE):
            self._take_off(tx.all_in(CLOSED_SINCE, ids[first : first + LISTED_AT_ONCE]))

    def _take_off_taken(self, tx: Tx, piece: tuple[bytes, bytes], accounts: set[int]) -> None:
        """Rows of this piece whose places their accounts have reached since the beginning."""
        now: dict[int, int] = dict(tx.all_in(PLACES_NOW, sorted(accounts)))
        rows = tx.all(TAKEN_SINCE, (*piece, min(map(self._place, accounts))))
        self._take_off([row for row in rows if self._place(row[0]) < row[1] <= now.get(row[0], 0)])

    def _place(self, number: int) -> int:
        """The account's last place at the beginning."""
        account = self._accounts.get(number)
        return 0 if account is None else account.place

    def _take_off(self, rows: Iterable[Sequence[int]]) -> None:
        for account, _place, *added in rows:
            self._sums[account].add(*added, times=-1)

    def _judge_keys(self, tx: Tx, places: dict[tuple[int, int], int]) -> Iterator[Violation]:
        """Rows whose key is another account's, or is not there even now: it may have been made since the beginning."""
        self._owners.update((row[0], row[1]) for row in tx.all(KEY_OWNERS))
        for (key, account), place in places.items():
            if self._owners.get(key) != account and (key, account) not in self._astray:
                self._astray.add((key, account))
                text = "the key of the row is not there, or is another account's"
                yield Violation(ROWS_OF_KEYS, f"place {place} of account {account}", text)

    def _add_the_rest(self, tx: Tx) -> None:
        """Open charges, what is not in the journal any more, and usage."""
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
        """Remember what is open, but for what is closed all the same."""
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
        text = "kind, amounts, places and balances of the row do not fit together"
        yield Violation(ROWS_FIT, f"place {place} of account {account}", text)
