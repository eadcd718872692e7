"""Verifies the chain of an account's balances with sums that do not depend on the order of the rows.

Each posting moves the account from one link, which is a place and a balance, to the next: from (place - 1, balance
before) to (place, balance after). Each posting adds the weight of the link after it to a sum, and subtracts the weight
of the link before it. If every posting begins where another one ended, the sum equals the weight of the last link. A
missing posting, a duplicate or a wrong balance changes the sum. One pass in any order therefore verifies the chain of
any number of rows. A weight has 39 bits, so the database can add up 2 ** 24 weights.
"""

from typing import Final

_PRIME: Final = 134_217_689
MODULUS: Final = 2**61 - 1
"""The sums are calculated modulo this prime."""


def weight(place: int, balance: int) -> int:
    """Return the weight of a link: the balance times an odd factor that differs among 2,048 consecutive places.

    The factor changes with each place, so a single wrong balance is detected wherever it occurs. The steps between
    neighboring factors are rarely equal, so two equal faults at different places hardly ever cancel out. The link of
    place 0 weighs 0, because the account has no credits at that point.
    """
    near = place & 2047
    return (near * (near + 1) & 4095 | 1) * (balance % _PRIME)


def weight_sql(place: str, balance: str) -> str:
    """Return an SQL expression for `weight` of two SQL terms."""
    return f"((({place} & 2047) * (({place} & 2047) + 1) & 4095) | 1) * (({balance}) % {_PRIME})"


def _posted(place: str, before: str, after: str) -> str:
    return f"{weight_sql(place, after)} - {weight_sql(f'({place} - 1)', before)}"


JOURNAL: Final = f"""{
    _posted(
        "place",
        "balance_after + taken - CASE WHEN issued_place IS NULL THEN issued ELSE 0 END",
        "balance_after",
    )
}
+ CASE WHEN refund_place IS NULL THEN 0 ELSE {
    _posted("refund_place", "balance_closed - refunded", "balance_closed")
} END
+ CASE WHEN issued_place IS NULL THEN 0 ELSE {
    _posted("issued_place", "balance_after + taken - issued", "balance_after + taken")
} END"""
"""SQL for the amount that a journal row's postings add to the chain sum."""


def links(
    places: tuple[int, int | None, int | None], *, taken: int, refunded: int, issued: int, after: int, closed: int
) -> int:
    """Return the value of the SQL `JOURNAL` for a row's places (deduction, refund, issue), amounts and balances."""
    place, refund_place, issued_place = places
    arrived = issued if issued_place is None else 0
    total = weight(place, after) - weight(place - 1, after + taken - arrived)
    if refund_place is not None:
        total += weight(refund_place, closed) - weight(refund_place - 1, closed - refunded)
    if issued_place is not None:
        total += weight(issued_place, after + taken) - weight(issued_place - 1, after + taken - issued)
    return total


OPEN: Final = f"""{_posted("charges.place", "balance_after + credits", "balance_after")}
+ CASE WHEN issued_place IS NULL THEN 0 ELSE {
    _posted("issued_place", "balance_after + credits - issued", "balance_after + credits")
} END"""
"""SQL for the amount that an open charge's postings add to the chain sum."""
