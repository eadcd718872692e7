"""The journal: one immutable row, with all postings, for each closed charge and each issue of credits.

A row changes the balance of its account up to three times, and each change has its own place in the account's order:

| posting | place | amount moved | balance after it |
|---|---|---|---|
| a purchase, a bonus | `place` | `issued` into the balance | `balance_after` |
| a bonus that covers a charge | `issued_place` | `issued` into the balance | `balance_after + taken` |
| the deduction | `place` | `taken` from the balance, reserved until the charge is closed | `balance_after` |
| the refund, when the charge is closed | `refund_place` | `refunded` from the reserved credits | `balance_closed` |

Closing the charge spends the reserved credits that are not refunded. This changes no balance and therefore has no
place.

Ids are bytes that begin with the time: the id of a request or run, or for an issue of credits its time, account and
place.
"""

from collections.abc import Sequence
from math import modf
from typing import Final, TypeAlias

from storage.store import Tx

REQUEST: Final = 0
RUN: Final = 1
NAMED: Final = 2
PURCHASE: Final = 3
BONUS: Final = 4

_PREFIXES: Final = {"req_": REQUEST, "run_": RUN}
_ID_BYTES: Final = 16
_HEX: Final = 2 * _ID_BYTES
_TEXT: Final = 4 + _HEX

COLUMNS: Final = (
    "id, kind, account, key, endpoint, taken, refunded, issued, taken_at, closed_after, balance_after, balance_closed, "
    "place, refund_place, issued_place, note"
)
ADD: Final = f"INSERT INTO journal ({COLUMNS}) VALUES {{rows}}"  # noqa: S608 - constants
# A charge that is settled in full is copied from its open row. Nothing is refunded, so closing it changes no balance.
SETTLE: Final = """
INSERT INTO journal (id, kind, account, key, endpoint, taken, issued, taken_at, closed_after, balance_after,
                     balance_closed, place, issued_place)
WITH asked (id, balance) AS (VALUES {rows})
SELECT charges.id, kind, account, key, endpoint, credits, issued, taken_at, ? - taken_at,
       balance_after, asked.balance, place, issued_place
FROM asked CROSS JOIN charges WHERE charges.id = asked.id
"""

# A row's values in the order of the columns above. A tuple, because every call creates one. Numbers identify the
# account, key, endpoint and note; timestamps are in microseconds.
JournalRow: TypeAlias = tuple[
    bytes, int, int, int | None, int | None, int, int, int, int, int, int, int, int, int | None, int | None, int | None
]  # fmt: skip


def identify(request_id: str) -> tuple[int, bytes]:
    """Return the kind and id of a request's row. An id in any other format is stored as its text."""
    if len(request_id) == _TEXT and request_id[:4] == "req_":  # checked first, because every call uses this kind
        hexadecimal = request_id[4:]
        try:
            id_ = bytes.fromhex(hexadecimal)
        except ValueError:
            return NAMED, request_id.encode()
        return (REQUEST, id_) if id_.hex() == hexadecimal else (NAMED, request_id.encode())
    kind = _PREFIXES.get(request_id[:4])
    if kind is not None:
        attempt = b""
        if kind == RUN and len(request_id) > _TEXT:
            attempt = _attempt(request_id[_TEXT:])
        try:
            id_ = bytes.fromhex(request_id[4:_TEXT]) + attempt
        except ValueError:
            id_ = b""
        if request_text(kind, id_) == request_id:
            return kind, id_
    return NAMED, request_id.encode()


def request_text(kind: int, id_: bytes) -> str | None:
    """Return the request id of a row, or None for an issue of credits."""
    if kind == REQUEST:
        return "req_" + id_.hex()
    if kind == RUN:
        begin = "run_" + id_[:_ID_BYTES].hex()
        return begin if len(id_) <= _ID_BYTES else f"{begin}.{int.from_bytes(id_[_ID_BYTES:], 'big')}"
    return id_.decode() if kind == NAMED else None


def _attempt(text: str) -> bytes:
    """Return the bytes of the attempt number after a run's id, or no bytes if the text is not an attempt number."""
    digits = text[1:]
    if text[0] != "." or not digits.isascii() or not digits.isdecimal() or len(digits) > 9:
        return b""
    number = int(digits)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


HOUR_MICROS: Final = 3_600_000_000


def micros(at: float) -> int:
    """Return Unix seconds as whole microseconds, rounded as `datetime` does."""
    part, whole = modf(at)
    return int(whole) * 1_000_000 + round(part * 1e6)


def issue(
    kind: int, amount: int, *, account: int, place: int, balance_after: int, note: int | None, at: int
) -> JournalRow:
    """Return the row of credits that an account received; `at` is in microseconds."""
    id_ = (at // 1000).to_bytes(6, "big") + account.to_bytes(4, "big") + place.to_bytes(6, "big")
    return (id_, kind, account, None, None, 0, 0, amount, at, 0, balance_after, balance_after, place, None, None, note)


def add_rows(tx: Tx, rows: Sequence[JournalRow]) -> None:
    """Append rows to the journal. The caller must update the account's own columns to match."""
    tx.run_many(ADD, rows)
