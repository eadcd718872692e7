"""The sums of archived rows by account and day, which remain in the store."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from billing.archive.files import ArchivedRow
from billing.ledger.chain import MODULUS, links
from storage.store import Tx

ADD_OPENINGS: Final = f"""
INSERT INTO openings (account, day, issued, spent, postings, chain, low, high) VALUES {{rows}}
ON CONFLICT (account, day) DO UPDATE SET issued = openings.issued + excluded.issued,
    spent = openings.spent + excluded.spent, postings = openings.postings + excluded.postings,
    chain = (openings.chain + excluded.chain) % {MODULUS},
    low = CASE WHEN excluded.low < openings.low THEN excluded.low ELSE openings.low END,
    high = CASE WHEN excluded.high > openings.high THEN excluded.high ELSE openings.high END
"""  # noqa: S608 - constants

HAS_LEFT: Final = """NOT EXISTS (
    SELECT 1 FROM journal_months WHERE detached = 0 AND openings.day >= first AND openings.day < until
)"""
"""SQL condition: count only openings whose rows are no longer in the journal."""


class Opening(NamedTuple):
    """The sums of one account's archived rows."""

    issued: int
    spent: int
    postings: int
    chain: int


def openings_of(rows: Iterable[ArchivedRow]) -> dict[int, Opening]:
    """Return the sums of the rows by account number."""
    sums: dict[int, Opening] = {}
    for row in rows:
        one = sums.get(row.account_number) or Opening(0, 0, 0, 0)
        sums[row.account_number] = Opening(
            one.issued + row.issued,
            one.spent + row.taken - row.refunded,
            one.postings + len(places_of(row)),
            (one.chain + _links_of(row)) % MODULUS,
        )
    return sums


def places_of(row: ArchivedRow) -> list[int]:
    """Return the places of the row's postings."""
    return [place for place in (row.place, row.refund_place, row.issued_place) if place is not None]


def _links_of(row: ArchivedRow) -> int:
    """Return the amount that the row's postings add to the chain sum of its account."""
    return links(
        (row.place, row.refund_place, row.issued_place),
        taken=row.taken,
        refunded=row.refunded,
        issued=row.issued,
        after=row.balance_after,
        closed=row.balance_closed,
    )


def add_openings(tx: Tx, day: int, rows: Sequence[ArchivedRow]) -> None:
    """Add the sums of the rows to the openings of their day."""
    places = defaultdict[int, list[int]](list)
    for row in rows:
        places[row.account_number] += places_of(row)
    found = openings_of(rows).items()
    tx.run_many(ADD_OPENINGS, [(of, day, *sums, min(places[of]), max(places[of])) for of, sums in found])
