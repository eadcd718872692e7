"""Statement lines for days whose rows have left the journal: from the archive's files, or as sums by day.

A day's opening contains the range of places of the account's postings on that day, and the index of each file lists the
members that contain these postings. A page therefore reads few members, one at a time, newest first.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from billing.archive.archives import Archive, read_archives
from billing.archive.days import DAY_S, date_of, day_of
from billing.archive.files import ArchiveBroken, ArchivedRow, read_member
from billing.archive.index import Span, members_with, spans_of
from billing.archive.openings import HAS_LEFT
from billing.ledger.lines import Transaction, closed_lines, newest_of, place_of
from storage.store import Row, Tx

_NUMBER: Final = "(SELECT number FROM accounts WHERE id = ?)"
READ_NUMBER: Final = f"SELECT {_NUMBER}"
LEFT_DAYS: Final = f"""
SELECT day, low, high FROM openings
WHERE account = {_NUMBER} AND day > 0 AND high > ? AND low < ? AND {HAS_LEFT} ORDER BY high DESC
"""  # noqa: S608 - constants
LEFT_SUMS: Final = f"""
SELECT day, issued, spent FROM openings
WHERE account = {_NUMBER} AND day > 0 AND day <= ? AND low < ? AND {HAS_LEFT} ORDER BY day DESC LIMIT ?
"""  # noqa: S608 - constants
LEFT_USAGE: Final = f"""
SELECT hour / 24, endpoints.path, endpoints.platform, SUM(calls), SUM(credits)
FROM usage JOIN endpoints ON endpoints.id = usage.endpoint
WHERE account = {_NUMBER} AND hour >= ? AND hour < ?
GROUP BY hour / 24, endpoints.path, endpoints.platform ORDER BY endpoints.path
"""  # noqa: S608 - constants
LAST_DAY: Final = 10_000_000
_DIGITS_MAX: Final = 18
"""The maximum number of digits of a position, so that it fits into a column."""


class LeftDay(NamedTuple):
    """An archived day of an account: its files, and the range of places of the account's postings on that day."""

    account: int
    files: Sequence[Archive]
    low: int
    high: int


def left_days(tx: Tx, account_id: str, low: int, newest: int) -> list[LeftDay]:
    """Return the days with postings at places from `low` on and below `newest`, newest first."""
    days = tx.all(LEFT_DAYS, (account_id, low, newest))
    if not days:
        return []
    ((number,),) = tx.all(READ_NUMBER, (account_id,))
    archives = read_archives(tx)
    return [LeftDay(number, [one for one in archives if one.file.day == day[0]], *day[1:]) for day in days]


def left_day_of(tx: Tx, account_id: str, id_: bytes) -> LeftDay | None:
    """Return the day of the row with this id, or None if no row of that day has left the journal."""
    day = day_of(id_)
    files = [one for one in read_archives(tx) if one.file.day == day and one.left]
    ((number,),) = tx.all(READ_NUMBER, (account_id,))
    return LeftDay(number, files, 0, 0) if files and number is not None else None


def add_left_lines(
    folder: Path, days: Sequence[LeftDay], found: list[Transaction], *, newest: int, limit: int
) -> list[Transaction]:
    """Return the newest lines below the place `newest`, from both the journal (`found`) and the archived days.

    Raises:
        ArchiveBroken: a file of the days is missing or damaged.
    """
    for day in days:
        if _is_above(found, day.high, limit):
            break
        for name, span in _spans(folder, day, newest):
            if not _is_above(found, span.high, limit):
                rows = [row for row in _rows_at(folder, name, span.offset) if row.account_number == day.account]
                found = newest_of([*found, *_lines(rows)], newest, limit)
    return found


def left_request_lines(folder: Path, day: LeftDay, id_: bytes, *, newest: int, limit: int) -> list[Transaction]:
    """Return the statement lines of the account's row with this id.

    Raises:
        ArchiveBroken: like `add_left_lines`.
    """
    text, found = id_.hex(), list[ArchivedRow]()
    for archive in day.files:
        for offset in members_with(folder, archive.file.name, id_):
            if offset < archive.left_to:
                found += [row for row in _rows_at(folder, archive.file.name, offset) if row.id == text]
    return newest_of(_lines([row for row in found if row.account_number == day.account]), newest, limit)


def read_sums(tx: Tx, account_id: str, *, before: str | None, newest: int, limit: int) -> list[Transaction]:
    """Return sums of the days that have left the journal, newest first, starting after the sum with the id `before`.

    The sum for a day is exact. It is split by endpoint only if the usage counters add up to the same total. The totals
    differ if a charge was settled on a later day than it began, because usage counts a charge on the day of settlement.
    """
    tx.pin("journal")
    last, number = (LAST_DAY, -1) if before is None else _read_id(before)
    days = tx.all(LEFT_SUMS, (account_id, last, newest, limit + 1))
    if not days:
        return []
    used: dict[int, list[Row]] = {}
    for day, *of_day in tx.all(LEFT_USAGE, (account_id, days[-1][0] * 24, (days[0][0] + 1) * 24)):
        used.setdefault(day, []).append(tuple(of_day))
    found = []
    for day, issued, spent in days:
        sums = list(_sums_of(day, issued, spent, used.get(day, [])))
        found += sums[number + 1 :] if day == last else sums
    return found[:limit]


def line_of(text: str) -> int | str | None:
    """Parse the id of a line: its position, or the id of a daily sum. Return None for any other text."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= _DIGITS_MAX else None
    try:
        _read_id(text)
    except ValueError:
        return None
    return text


def _sums_of(day: int, issued: int, spent: int, used: Sequence[Row]) -> Iterator[Transaction]:
    date_, at = date_of(day), float(day * DAY_S)
    parts = used
    if sum(row[3] for row in used) != spent:
        parts = [(None, None, sum(row[2] for row in used), spent)] if spent else []
    for number, (path, platform, calls, credits_) in enumerate(parts):
        of_call = (f"{calls} calls on {date_}", path, platform, None, None)
        yield Transaction(f"{date_}.{number}", "deduction", -credits_, None, *of_call, at, "usage")
    if issued:
        text = f"Credits received on {date_}"
        yield Transaction(f"{date_}.{len(parts)}", "purchase", issued, None, text, None, None, None, None, at, "usage")


def _read_id(text: str) -> tuple[int, int]:
    day, _, number = text.partition(".")
    return (date.fromisoformat(day) - date_of(0)).days, int(number)


def _is_above(found: Sequence[Transaction], high: int, limit: int) -> bool:
    """Return whether a page is full of lines that are all above the place `high`."""
    return len(found) >= limit and place_of(found[-1]) > high


def _spans(folder: Path, day: LeftDay, newest: int) -> list[tuple[str, Span]]:
    """Return the members of the day's files that contain postings of the account below `newest`, newest first."""
    spans = [
        (archive.file.name, span)
        for archive in day.files
        for span in (spans_of(folder, archive.file.name, day.account) if archive.left else ())
        if span.offset < archive.left_to and span.low < newest
    ]
    return sorted(spans, key=lambda one: -one[1].high)


def _rows_at(folder: Path, name: str, offset: int) -> list[ArchivedRow]:
    member = read_member(folder, name, offset)
    if member is None:
        raise ArchiveBroken(f"{folder / name} has no rows at byte {offset}")
    return member.rows


def _lines(rows: Sequence[ArchivedRow]) -> Iterator[Transaction]:
    for row in rows:
        id_, amounts = bytes.fromhex(row.id), (row.taken, row.refunded, row.issued, row.taken_at, row.closed_at)
        places = (row.balance_after, row.balance_closed, row.place, row.refund_place, row.issued_place)
        yield from closed_lines(
            [(row.kind, id_, *amounts, *places, row.note, row.endpoint, row.platform, row.key)], "archive"
        )
