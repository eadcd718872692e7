"""The chain of an account's balances, as sums that need no order.

Each posting moves the account from one link, its place and its balance, to the next: from (place - 1, balance before)
to (place, balance after). The sum over all postings of a link's weight after less that before is the weight of the last
link, if each posting begins where another ended; a posting that is missing, stands twice, or says another balance
breaks it. So the chain of any number of rows is proved in one pass, in whatever order they come. Weights are numbers of
39 bits: sums of 2 ** 24 of them fit where a database adds them up.
"""

from typing import Final

_PRIME: Final = 134_217_689
MODULUS: Final = 2**61 - 1
"""Sums are kept by it."""


def weight(place: int, balance: int) -> int:
    """The weight of a link: the balance by an odd factor, of which 2,048 places in a row have each another.

    Each step from one place to the next changes the factor, so a single wrong balance shows at every place; and few
    steps change it alike, so that the same fault at two places hardly ever cancels. The link of place 0 weighs 0, since
    nothing has come in.
    """
    near = place & 2047
    return (near * (near + 1) & 4095 | 1) * (balance % _PRIME)


def weight_sql(place: str, balance: str) -> str:
    """As `weight`, of two terms of SQL."""
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
"""The sum of a journal row's postings."""


def links(
    places: tuple[int, int | None, int | None], *, taken: int, refunded: int, issued: int, after: int, closed: int
) -> int:
    """As `JOURNAL`, of a row's places (of its taking, its refund and what it was given), amounts and balances."""
    place, refund_place, issued_place = places
    came_in = issued if issued_place is None else 0
    total = weight(place, after) - weight(place - 1, after + taken - came_in)
    if refund_place is not None:
        total += weight(refund_place, closed) - weight(refund_place - 1, closed - refunded)
    if issued_place is not None:
        total += weight(issued_place, after + taken) - weight(issued_place - 1, after + taken - issued)
    return total


OPEN: Final = f"""{_posted("charges.place", "balance_after + credits", "balance_after")}
+ CASE WHEN issued_place IS NULL THEN 0 ELSE {
    _posted("issued_place", "balance_after + credits - issued", "balance_after + credits")
} END"""
"""The sum of an open charge's postings."""
