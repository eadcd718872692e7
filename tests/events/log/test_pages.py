"""Pages of the log on each real engine: filters, visibility, ends, removed and future positions (spec 4.4)."""

import random
from functools import partial

import pytest

from events.errors import CursorAhead, CursorExpired
from events.filters import AppendedEvent, Filters
from events.log import pages
from events.log.kinds import select
from events.log.pages import CountQuery, count, count_many, find_event
from events.positions import EMPTY, Position
from tests.events.consumers.test_consumers import drop_before
from tests.events.desk import ACCOUNT, EPOCH, KEY, Desk, alert, exhausted, low, places, revoked

ALERTS = Filters(types=select("monitor.*"))
NOTHING = Filters(types=select("discover.*"))


async def test_empty_log_has_an_empty_page_before_the_first_event(desk: Desk) -> None:
    page = await desk.page()
    assert (page.items, page.end, page.has_more, page.head) == ((), Position(0, 0.0), False, EMPTY)
    with pytest.raises(CursorAhead):
        await desk.page(1)


async def test_pages_follow_without_gap_or_repeat(desk: Desk) -> None:
    for number in range(25):
        desk.time = EPOCH + number
        await desk.append(alert() if number % 2 else low())
    after, seen, ends = 0, [], []
    while True:
        page = await desk.page(after, limit=7)
        seen += places(page)
        ends.append(page.end)
        after = page.end.pos
        if not page.has_more:
            break
    assert seen == list(range(1, 26))
    assert ends == [Position(pos, EPOCH + pos - 1) for pos in (7, 14, 21, 25)]
    assert (await desk.page(25)).items == ()
    assert (await desk.page(25)).end == Position(25, EPOCH + 24)


async def test_empty_page_moves_to_the_end_of_the_log(desk: Desk) -> None:
    await desk.append(low(), low())
    page = await desk.page(filters=NOTHING)
    assert (page.items, page.end, page.has_more) == ((), Position(2, EPOCH), False)


async def test_key_sees_its_own_and_account_wide_events(desk: Desk) -> None:
    await desk.append(alert(), low(), alert(key_id="key_2"), revoked("key_2"), alert(key_id=None))
    assert places(await desk.page()) == [1, 2, 4, 5]
    assert places(await desk.page(key_id="key_2")) == [2, 3, 4, 5]
    assert places(await desk.page(key_id="key_3")) == [2, 4, 5]
    assert places(await desk.page(account_id="acc_2")) == []


async def test_filters_match_types_subjects_and_parents(desk: Desk) -> None:
    await desk.append(alert("run_1"), alert("run_2", parent_id="mon_2"), low(), exhausted(), alert("run_3"))
    assert places(await desk.page(filters=Filters(types=select("credits.*")))) == [3, 4]
    assert places(await desk.page(filters=Filters(subjects=frozenset({"mon_1"})))) == [1, 5]
    assert places(await desk.page(filters=Filters(subjects=frozenset({"run_2", "run_3", ACCOUNT})))) == [2, 3, 4, 5]
    both = Filters(types=select("monitor.*,credits.low"), subjects=frozenset({"run_2", ACCOUNT, "x"}))
    assert places(await desk.page(filters=both)) == [2, 3]
    many = frozenset(f"run_{number}" for number in range(3, 103))
    assert places(await desk.page(filters=Filters(subjects=many))) == [5]


async def test_page_scans_no_further_than_its_bound(desk: Desk) -> None:
    for number in range(10):
        desk.time = EPOCH + number
        await desk.append(alert() if number == 8 else low())
    page = await desk.page(filters=ALERTS, scan_max=4)
    assert (places(page), page.end, page.has_more) == ([], Position(4, EPOCH + 3), True)
    page = await desk.page(4, filters=ALERTS, scan_max=4)
    assert (places(page), page.end, page.has_more) == ([], Position(8, EPOCH + 7), True)
    page = await desk.page(8, filters=ALERTS, scan_max=4)
    assert (places(page), page.end, page.has_more) == ([9], Position(10, EPOCH + 9), False)
    page = await desk.page(6, filters=ALERTS, scan_max=4)
    assert (places(page), page.end, page.has_more) == ([9], Position(10, EPOCH + 9), False)


async def test_page_with_an_upper_bound_ends_there(desk: Desk) -> None:
    for number in range(6):
        desk.time = EPOCH + number
        await desk.append(alert())
    page = await desk.page(1, upto=4)
    assert (places(page), page.end, page.has_more) == ([2, 3, 4], Position(4, EPOCH + 3), True)
    assert places(await desk.page(1, upto=4, limit=2)) == [2, 3]
    assert (await desk.page(1, upto=6)).has_more is False
    assert (await desk.page(1, upto=99)).end.pos == 6
    nothing = await desk.page(3, upto=3)
    assert (nothing.items, nothing.end, nothing.has_more) == ((), Position(3, EPOCH + 2), True)


async def test_position_before_removed_events_is_expired(desk: Desk) -> None:
    for number in range(5):
        desk.time = EPOCH + number
        await desk.append(alert())
    await drop_before(desk, 4)
    for after in (0, 2):
        with pytest.raises(CursorExpired) as raised:
            await desk.page(after)
        assert (raised.value.head.first_pos, raised.value.head.first_at) == (4, EPOCH + 3)
    page = await desk.page(3)
    assert places(page) == [4, 5]
    assert page.head.start == Position(3, EPOCH + 3)
    await drop_before(desk, 6)
    empty = await desk.page(5)
    assert (empty.items, empty.end, empty.head.start) == ((), Position(5, EPOCH + 4), Position(5, EPOCH + 4))
    with pytest.raises(CursorExpired):
        await desk.page(4)
    desk.time = EPOCH + 9
    await desk.append(alert())
    assert (await desk.head()).start == Position(5, EPOCH + 9)


async def test_stored_event_is_found_only_by_keys_that_see_it(desk: Desk) -> None:
    await desk.append(low(), alert(), low("acc_2"))
    find = desk.store.read
    assert await find(lambda tx: find_event(tx, ACCOUNT, KEY, "evt_00000002")) == Position(2, EPOCH)
    assert await find(lambda tx: find_event(tx, ACCOUNT, "key_2", "evt_00000001")) == Position(1, EPOCH)
    for account_id, key_id, event_id in (
        (ACCOUNT, "key_2", "evt_00000002"),
        (ACCOUNT, KEY, "evt_00000003"),
        ("acc_2", KEY, "evt_00000001"),
        (ACCOUNT, KEY, "evt_00000009"),
    ):
        assert await find(lambda tx: find_event(tx, account_id, key_id, event_id)) is None  # noqa: B023
    await desk.store.write(lambda tx: tx.run("UPDATE feeds SET first_pos = 2"))
    assert await find(lambda tx: find_event(tx, ACCOUNT, KEY, "evt_00000001")) is None


async def test_pages_and_counts_match_brute_force(quick: Desk) -> None:
    """Method: compare random logs, filters, positions, limits and bounds with a scan of a list."""
    rng = random.Random(11)
    facts = [
        rng.choice([low(), revoked("key_2"), alert("run_1"), alert("run_2", key_id="key_2"), alert("run_3")])
        for _ in range(300)
    ]
    await quick.append(*facts)
    log: list[AppendedEvent] = quick.told
    queries: list[CountQuery] = []
    counts: list[int] = []
    for _ in range(400):
        types = rng.choice([None, select("credits.*"), select("monitor.*"), select("key.*,credits.low")])
        subjects = rng.choice([None, frozenset({"run_1"}), frozenset({"mon_1"}), frozenset({"run_2", "key_2"})])
        filters, key_id = Filters(types, subjects), rng.choice([KEY, "key_2", "key_3"])
        after, limit, scan = rng.randrange(301), rng.randrange(1, 60), rng.randrange(1, 200)
        upto = rng.choice([None, rng.randrange(after, 301)])
        page = await quick.page(after, key_id=key_id, limit=limit, filters=filters, upto=upto, scan_max=scan)
        bound = min(300 if upto is None else upto, after + scan)
        seen = [
            one.pos for one in log if after < one.pos <= bound and one.key_id in (None, key_id) and filters.admit(one)
        ]
        end = seen[limit - 1] if len(seen) > limit else bound
        assert (places(page), page.end.pos, page.has_more) == (seen[:limit], end, end < 300)
        counted = await quick.store.read(
            lambda tx: count(tx, ACCOUNT, key_id, filters, after=after, upto=bound)  # noqa: B023
        )
        assert counted == len(seen)
        queries.append(CountQuery(ACCOUNT, key_id, filters, after, bound))
        counts.append(counted)
    assert await quick.store.read(partial(count_many, queries=queries)) == counts
    assert await quick.store.read(partial(count_many, queries=[])) == []


async def test_counts_of_long_logs_use_several_steps(quick: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: steps of 7 positions, and queries that end before, on and after the ends of steps."""
    monkeypatch.setattr(pages, "COUNT_STEP", 7)
    await quick.append(*[low()] * 40)
    asked = [(0, 40), (3, 3), (0, 7), (5, 40), (39, 40), (40, 40), (1, 15)]
    queries = [CountQuery(ACCOUNT, KEY, Filters(None, None), after, upto) for after, upto in asked]
    found = await quick.store.read(partial(count_many, queries=queries))
    assert found == [upto - after for after, upto in asked]
