"""Reads an account's balance and transactions for the owner (decisions 4).

A statement line is a posting of a journal row or of an open charge: deduction, refund, purchase or bonus. A line's id
is its place in the account's order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from billing.accounts.accounts import read_account
from billing.archive.files import ArchiveBroken
from billing.archive.statement import LeftDay, add_left_lines, left_day_of, left_days, left_request_lines, read_sums
from billing.journal import HOUR_MICROS, identify, micros
from billing.ledger.lines import Transaction, closed_lines, newest_of, open_lines, place_of
from storage.store import Store, T, Tx

DAY_HOURS: Final = 24
WEEK_HOURS: Final = 168
READS_MAX: Final = 3
"""The maximum number of reads for a report. A read is repeated if settlements were committed in the meantime."""

# Usage contains only settled credits, which are deductions minus refunds. Reserved credits are added to them.
SPENT_SINCE = """
SELECT COALESCE(SUM(credits), 0), COALESCE(SUM(CASE WHEN hour >= ? THEN credits ELSE 0 END), 0)
FROM usage WHERE account = (SELECT number FROM accounts WHERE id = ?) AND hour >= ?
"""
_POSTED = """
SELECT journal.kind, journal.id, taken, refunded, issued, taken_at, taken_at + closed_after, balance_after,
       balance_closed, place, refund_place, issued_place, notes.text, endpoints.path, endpoints.platform, keys.id
FROM journal LEFT JOIN notes ON notes.id = journal.note LEFT JOIN endpoints ON endpoints.id = journal.endpoint
LEFT JOIN keys ON keys.number = journal.key
WHERE journal.account = (SELECT number FROM accounts WHERE id = ?)
"""
# Reads at most one page from the index of each kind of posting.
PAGES = tuple(
    f"{_POSTED} AND journal.{place} >= ? AND journal.{place} < ? ORDER BY journal.{place} DESC LIMIT ?"
    for place in ("place", "refund_place", "issued_place")
)
LAST_PLACE = "SELECT place FROM accounts WHERE id = ?"
OF_REQUEST = f"{_POSTED} AND journal.id = ?"
OPEN = """
SELECT kind, charges.id, credits, issued, taken_at, balance_after, charges.place, issued_place, endpoints.path,
       endpoints.platform, keys.id
FROM charges JOIN endpoints ON endpoints.id = charges.endpoint LEFT JOIN keys ON keys.number = charges.key
WHERE charges.account = (SELECT number FROM accounts WHERE id = ?)
"""
OPEN_OF_REQUEST = f"{OPEN} AND charges.id = ?"
NEWEST = 2**63 - 1
FILE_READERS: Final = 2
SUMMED: Final = (
    "Days in the ledger's archive, which cannot be read here, are shown as sums by day and endpoint, without balances."
)
UNREAD: Final = "The request's day is in the ledger's archive, which cannot be read here."


@dataclass(frozen=True, slots=True)
class BalanceReport:
    """The available credits, the reserved credits, and the credits deducted recently, minus refunds."""

    balance: int
    held: int
    last_24h: int
    last_7d: int


class Statement(NamedTuple):
    """A page of statement lines, newest first, and warnings about them."""

    lines: list[Transaction]
    warnings: tuple[str, ...] = ()


class Ledger:
    """Reads the ledger."""

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], float],
        archive: Path | None = None,
        settling: Callable[[str], Mapping[str, int]] = lambda _account_id: {},
    ) -> None:
        """`now` returns Unix seconds; `archive` is the archive's folder if this process has access to it.

        `settling` is the `Charges.settling` method of this node.
        """
        self._store = store
        self._settling = settling
        self._now = now
        self._archive = archive
        self._reading = trio.CapacityLimiter(FILE_READERS)

    async def report(self, account_id: str) -> BalanceReport:
        """Return the account's balance and its recent spending, by whole hours. Raises AccountUnknown.

        Credits of calls that this node has already answered are not reported as held, even if the settlement is not
        committed yet.
        """
        for _ in range(READS_MAX):
            settling = self._settling(account_id)
            report = await self._store.read(partial(_report, account_id, self._now()))
            if self._settling(account_id) == settling:  # otherwise the read may already include some
                break
        return replace(report, held=max(0, report.held - sum(settling.values())))

    async def transactions(
        self, account_id: str, *, limit: int, before: int | str | None = None, request_id: str | None = None
    ) -> Statement:
        """Return up to `limit` lines, newest first, older than the line `before`, optionally of one request only.

        A settlement has no separate line, because the deduction already shows it. Lines that have left the journal
        are read from the archive. If the archive cannot be read, its days are returned as sums, after all lines.
        """
        if request_id is not None and "\0" in request_id:  # no request id contains a NUL, which some stores reject
            await trio.lowlevel.checkpoint()
            return Statement([])
        if isinstance(before, str):
            return await self._sums(account_id, [], before=before, newest=NEWEST, limit=limit)
        newest = NEWEST if before is None else before
        if request_id is not None:
            return await self._of_request(account_id, request_id, newest, limit)
        return await self._newest(account_id, newest, limit)

    async def _newest(self, account_id: str, newest: int, limit: int) -> Statement:
        lines, days = await self._store.read(partial(_page, account_id, newest, limit))
        if not days:
            return Statement(lines)
        if self._archive is None:
            return await self._sums(account_id, lines, newest=NEWEST, limit=limit)
        try:
            read = partial(add_left_lines, self._archive, days, lines, newest=newest, limit=limit)
            return Statement(await self._read_files(read))
        except ArchiveBroken:
            return await self._sums(account_id, lines, newest=newest, limit=limit)

    async def _of_request(self, account_id: str, request_id: str, newest: int, limit: int) -> Statement:
        lines, day = await self._store.read(partial(_page_of_request, account_id, request_id, newest, limit))
        if day is None:
            return Statement(lines)
        if self._archive is None:
            return Statement([], (UNREAD,))
        id_ = identify(request_id)[1]
        try:
            read = partial(left_request_lines, self._archive, day, id_, newest=newest, limit=limit)
            return Statement(await self._read_files(read))
        except ArchiveBroken:
            return Statement([], (UNREAD,))

    async def _sums(
        self, account_id: str, lines: list[Transaction], *, before: str | None = None, newest: int, limit: int
    ) -> Statement:
        left = limit - len(lines)
        if not left:
            return Statement(lines)
        read = partial(read_sums, account_id=account_id, before=before, newest=newest, limit=left)
        sums = await self._store.read(read)
        return Statement([*lines, *sums], (SUMMED,) if sums else ())

    async def _read_files(self, read: Callable[[], T]) -> T:
        """Read files on a store reader thread, leaving enough of these threads for reads of the store."""
        async with self._reading:
            return await self._store.read(lambda _tx: read())


def _report(account_id: str, now: float, tx: Tx) -> BalanceReport:
    account = read_account(tx, account_id)
    hour = micros(now) // HOUR_MICROS
    week, day = tx.all(SPENT_SINCE, (hour - DAY_HOURS, account_id, hour - WEEK_HOURS))[0]
    return BalanceReport(account.balance, account.held, day + account.held, week + account.held)


def _page(account_id: str, newest: int, limit: int, tx: Tx) -> tuple[list[Transaction], list[LeftDay]]:
    """Return the lines of the journal and open charges, and the archived days whose lines belong between or after them.

    Places are consecutive, except for gaps from the old ledger. If a page has a line for each of its places, no
    archived lines belong between them.
    """
    tx.pin("journal")
    last = tx.one(LAST_PLACE, (account_id,))
    newest = min(newest, 1 if last is None else last[0] + 1)
    lines = _posted(tx, account_id, newest - limit, newest, limit)
    if len(lines) == limit or (newest <= limit and len(lines) == newest - 1):
        return lines, []
    lines = _posted(tx, account_id, 0, newest, limit)
    return lines, left_days(tx, account_id, place_of(lines[-1]) if len(lines) == limit else 0, newest)


def _posted(tx: Tx, account_id: str, low: int, newest: int, limit: int) -> list[Transaction]:
    """Return the newest lines from the place `low` on and below `newest`."""
    rows = {row[1]: row for sql in PAGES for row in tx.all(sql, (account_id, low, newest, limit))}
    closed, open_ = closed_lines(rows.values()), open_lines(tx.all(OPEN, (account_id,)))
    return [line for line in newest_of([*closed, *open_], newest, limit) if place_of(line) >= low]


def _page_of_request(
    account_id: str, request_id: str, newest: int, limit: int, tx: Tx
) -> tuple[list[Transaction], LeftDay | None]:
    """Return the request's lines. If it has none, return the archived day that may contain them."""
    tx.pin("journal")
    id_ = identify(request_id)[1]
    closed = closed_lines(tx.all(OF_REQUEST, (account_id, id_)))
    lines = newest_of([*closed, *open_lines(tx.all(OPEN_OF_REQUEST, (account_id, id_)))], newest, limit)
    return lines, None if lines else left_day_of(tx, account_id, id_)
