"""Pages of many readers read in one batch equal the pages that each would get alone, on each real engine."""

from __future__ import annotations

import random

from events.errors import EventsError
from events.filters import Filters
from events.log.batch_pages import NEAR, read_pages
from events.log.kinds import select
from events.log.pages import EventPage, PageQuery, read_page
from storage.store import Tx
from tests.events.consumers.test_consumers import drop_before
from tests.events.desk import Desk, alert, low, revoked

FILTERS = (Filters(), Filters(types=select("monitor.*")), Filters(subjects=frozenset({"mon_1", "acc_2"})))


def alone(tx: Tx, ask: PageQuery) -> EventPage | tuple[type, str]:
    try:
        return read_page(tx, ask)
    except EventsError as exc:
        return type(exc), str(exc)


async def test_batch_read_returns_the_same_pages_as_single_reads(desk: Desk) -> None:
    """Method: two logs longer than the near range, one with its beginning removed; many random reads in one batch."""
    for _ in range(NEAR + 20):
        await desk.append(low(), alert(), revoked("key_9"), low("acc_2"))
    await drop_before(desk, 30)
    last = (await desk.head()).last_pos
    rng = random.Random(5)
    for _ in range(20):
        asks = [
            PageQuery(
                rng.choice(("acc_1", "acc_2", "acc_none")),
                rng.choice(("key_1", "key_2")),
                rng.choice((0, 28, 29, last, last + 1, rng.randint(0, last), last - rng.randint(0, 5))),
                rng.choice((1, 3, 100)),
                rng.choice(FILTERS),
                rng.choice((None, None, last - 2)),
            )
            for _ in range(rng.randint(1, 40))
        ]
        distinct = list(dict.fromkeys(asks))

        def read(tx: Tx, distinct: list[PageQuery] = distinct) -> tuple[list[object], list[object]]:
            together = read_pages(tx, distinct)
            found = [together[ask] for ask in distinct]
            shown = [(type(one), str(one)) if isinstance(one, Exception) else one for one in found]
            return shown, [alone(tx, ask) for ask in distinct]

        together, apart = await desk.store.read(read)
        assert together == apart


async def test_queries_with_the_same_result_share_one_page(desk: Desk) -> None:
    await desk.append(low(), alert())
    everything = PageQuery("acc_1", "key_1", 0, 100, Filters())
    alike = [everything, everything._replace(limit=50), everything._replace(filters=Filters(types=select("*")))]
    others = [everything._replace(key_id="key_2"), everything._replace(filters=FILTERS[1])]
    found = await desk.store.read(lambda tx: read_pages(tx, alike + others))
    assert all(found[ask] is found[everything] for ask in alike)
    assert found[others[0]] != found[others[1]] != found[everything]
