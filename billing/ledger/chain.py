"""The chain of an account's balances, as sums that do not depend on the order of the rows.

Each posting moves the account from one link, which is a place and a balance, to the next: from (place - 1, balance
before) to (place, balance after). For each posting, take the weight of the link after it minus the weight of the link
before it, and add all of these up. If each posting begins where another one ended, the sum equals the weight of the
last link. A missing posting, a duplicate or a wrong balance breaks it. The chain of any number of rows is therefore
verified in one pass, in any order. Weights are numbers of 39 bits: the database can add up 2 ** 24 of them.
"""

from typing import Final

_PRIME: Final = 134_217_689
MODULUS: Final = 2**61 - 1
"""The modulus of the sums."""


def weight(place: int, balance: int) -> int:
    """Return the weight of a link: the balance times an odd factor that differs among 2,048 consecutive places.

    The factor changes with each place, so a single wrong balance is detected wherever it occurs. It rarely changes by
    the same amount, so the same fault at two places hardly ever cancels out. The link of place 0 weighs 0, because no
    credits have been added at that point.
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
"""SQL for the sum of a journal row's postings."""


def links(
    places: tuple[int, int | None, int | None], *, taken: int, refunded: int, issued: int, after: int, closed: int
) -> int:
    """Compute the value of `JOURNAL` for a row's places (deduction, refund, issue), amounts and balances."""
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
"""SQL for the sum of an open charge's postings."""
