"""The sums that stay behind for rows that are in the archive, by account and day."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from billing.archive.files import ArchivedRow
from billing.ledger.chain import MODULUS, links
from storage.store import Tx

ADD_OPENINGS: Final = f"""
INSERT INTO openings (account, day, issued, spent, postings, chain) VALUES {{rows}}
ON CONFLICT (account, day) DO UPDATE SET issued = openings.issued + excluded.issued,
    spent = openings.spent + excluded.spent, postings = openings.postings + excluded.postings,
    chain = (openings.chain + excluded.chain) % {MODULUS}
"""  # noqa: S608 - constants


class Opening(NamedTuple):
    """The sums of an account's rows that are in the archive."""

    issued: int
    spent: int
    postings: int
    chain: int


def openings_of(rows: Iterable[ArchivedRow]) -> dict[int, Opening]:
    """The sums of rows by the number of their account."""
    sums: dict[int, Opening] = {}
    for row in rows:
        one = sums.get(row.account_number) or Opening(0, 0, 0, 0)
        postings = 1 + (row.refund_place is not None) + (row.issued_place is not None)
        sums[row.account_number] = Opening(
            one.issued + row.issued,
            one.spent + row.taken - row.refunded,
            one.postings + postings,
            (one.chain + _links_of(row)) % MODULUS,
        )
    return sums


def _links_of(row: ArchivedRow) -> int:
    """The sum of the row's postings in the chain of its account."""
    return links(
        (row.place, row.refund_place, row.issued_place),
        taken=row.taken,
        refunded=row.refunded,
        issued=row.issued,
        after=row.balance_after,
        closed=row.balance_closed,
    )


def add_openings(tx: Tx, day: int, rows: Iterable[ArchivedRow]) -> None:
    """Add the sums of rows to what stays behind for their day."""
    tx.run_many(ADD_OPENINGS, [(account, day, *opening) for account, opening in openings_of(rows).items()])
