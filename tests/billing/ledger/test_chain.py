"""The chain of balances reveals a wrong balance at every position, on both engines."""

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from billing.ledger.chain import JOURNAL, MODULUS, OPEN, links, weight, weight_sql
from storage.store import Tx
from tests.fakes.inline_store import open_inline

PLACES = 2_048
"""The number of positions after which the factors of weights repeat."""
FIRST, LAST = 3, 2 * PLACES + 3
# Rows with a charge and a refund each, at every position of two rounds of factors; then each with one wrong balance.
ROWS = f"""
WITH RECURSIVE places (place) AS (SELECT {FIRST} UNION ALL SELECT place + 1 FROM places WHERE place < {LAST}),
numbers (place, refund_place, issued_place, taken, credits, refunded, issued, after, closed) AS (
    SELECT CAST(place AS BIGINT), CAST(place + 1 AS BIGINT), CAST(place - 1 AS BIGINT), CAST(5 AS BIGINT),
           CAST(5 AS BIGINT), CAST(2 AS BIGINT), CAST(3 AS BIGINT), CAST(1000 * place AS BIGINT),
           CAST(1000 * place + 2 AS BIGINT)
    FROM places
),
faults (which, after_by, closed_by) AS (SELECT 'taking', 1, 0 UNION ALL SELECT 'refund', 0, 1),
charges (which, wrong, place, refund_place, issued_place, taken, credits, refunded, issued, balance_after,
         balance_closed) AS (
    SELECT which, 0, place, refund_place, issued_place, taken, credits, refunded, issued, after, closed
    FROM numbers, faults
    UNION ALL
    SELECT which, 1, place, refund_place, issued_place, taken, credits, refunded, issued, after + after_by,
           closed + closed_by
    FROM numbers, faults
),
sums (which, wrong, place, journal, open) AS (SELECT which, wrong, charges.place, {JOURNAL}, {OPEN} FROM charges)
SELECT sums.which, sums.place, faulty.journal - sums.journal, faulty.open - sums.open
FROM sums JOIN sums AS faulty ON faulty.which = sums.which AND faulty.place = sums.place
WHERE sums.wrong = 0 AND faulty.wrong = 1
"""


def test_fault_at_any_position_changes_the_chain_sum() -> None:
    """Method: no row has the same sum as the row with a balance that is 1 too high."""
    store = open_inline([])
    rows = store.look(lambda tx: tx.all(ROWS))
    store.close()
    assert len(rows) == 2 * (LAST - FIRST + 1) >= 4 * PLACES
    for which, place, journal, open_ in rows:
        assert journal % MODULUS, (which, place)
        assert (open_ % MODULUS != 0) == (which == "taking"), (which, place)


def test_weight_is_the_same_in_sql_and_python() -> None:
    links = [(place, balance) for place in (0, 1, 63, 64, 2_047, 2_048, 2**40 + 7) for balance in (0, 1, 5, 2**50)]

    def weights(tx: Tx) -> list[int]:
        terms = [weight_sql(f"CAST({place} AS BIGINT)", f"CAST({balance} AS BIGINT)") for place, balance in links]
        row = tx.one(f"SELECT {', '.join(terms)}")
        assert row is not None
        return list(row)

    store = open_inline([])
    assert store.look(weights) == [weight(*link) for link in links]
    store.close()


def test_nearby_positions_have_different_factors() -> None:
    factors = [weight(place, 1) for place in range(PLACES)]
    assert len(set(factors)) == PLACES
    assert all(factor % 2 for factor in factors)
    assert max(factors) < 2**12


@given(
    st.tuples(st.integers(1, 2**40), st.integers(1, 2**40) | st.none(), st.integers(1, 2**40) | st.none()),
    st.tuples(*[st.integers(0, 2**40)] * 3),
    st.tuples(*[st.integers(2**40, 2**50)] * 2),
)
def test_row_sum_is_the_same_in_sql_and_python(
    places: tuple[int, int | None, int | None], amounts: tuple[int, int, int], balances: tuple[int, int]
) -> None:
    columns = "place, refund_place, issued_place, taken, refunded, issued, balance_after, balance_closed"
    row = f"WITH journal ({columns}) AS (VALUES ({','.join('?' * 8)})) SELECT {JOURNAL} FROM journal"
    with closing(sqlite3.connect(":memory:")) as database:
        ((total,),) = database.execute(row, (*places, *amounts, *balances)).fetchall()
    taken, refunded, issued = amounts
    after, closed = balances
    assert links(places, taken=taken, refunded=refunded, issued=issued, after=after, closed=closed) == total
