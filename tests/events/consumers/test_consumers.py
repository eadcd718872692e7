"""Named consumers on each real engine: created, read, acknowledged, reset, deleted, lapsed (spec 3, 4.4)."""

from functools import partial
from typing import Any

import orjson
import pytest
import trio

from events.consumers.consumers import Consumers
from events.consumers.rows import CONSUMERS_MAX
from events.consumers.rules import COUNTED_LAG, DAY_S, LAPSE_S, SEEN_S
from events.consumers.steps import Served
from events.errors import (
    AckBeyondServed,
    CursorAhead,
    CursorExpired,
    FiltersConflict,
    Lapsed,
    TooManyConsumers,
    UnknownConsumer,
)
from events.filters import Filters
from events.log.kinds import named_in, select
from events.positions import Position
from storage.store import Tx
from tests.events.desk import ACCOUNT, KEY, Desk, alert, exhausted, low, places
from tests.fakes.cancelling import cancel_everywhere

ALERTS = Filters(types=select("monitor.*"))


async def read(desk: Desk, name: str = "c", *, limit: int = 100, filters: Filters | None = None) -> Served:
    return await desk.consumers.read(ACCOUNT, KEY, name, limit=limit, filters=filters)


async def drop_before(desk: Desk, first_pos: int) -> None:
    """Remove old events like retention does, in one step."""

    def drop(tx: Tx) -> None:
        tx.run("DELETE FROM events WHERE account_id = ? AND pos < ?", (ACCOUNT, first_pos))
        tx.run(
            """
            UPDATE feeds SET first_pos = ?, first_at = COALESCE((SELECT created_at FROM events
                WHERE events.account_id = feeds.account_id AND pos = ?), last_at) WHERE account_id = ?
            """,
            (first_pos, first_pos, ACCOUNT),
        )

    await desk.store.write(drop)


async def test_read_is_repeated_until_acknowledged(desk: Desk) -> None:
    await desk.append(*[alert()] * 5)
    first = await read(desk, limit=2)
    assert (places(first.page), first.unread, first.page.has_more) == ([1, 2], 5, True)
    await desk.append(*[alert()] * 2)
    again = await read(desk, limit=2)
    assert (places(again.page), again.unread, again.page.end) == ([1, 2], 7, first.page.end)
    acked = await desk.consumers.ack(KEY, "c", first.page.end)
    assert (acked.consumer, acked.committed, acked.advanced, acked.unread) == ("c", first.page.end, True, 5)
    after = await read(desk)
    assert (places(after.page), after.unread, after.page.has_more) == ([3, 4, 5, 6, 7], 5, False)


async def test_unacknowledged_events_of_a_stream_are_sent_again(desk: Desk) -> None:
    await desk.append(*[alert()] * 5)
    given, got = None, []
    while len(got) < 5:
        served = await desk.consumers.read(ACCOUNT, KEY, "c", limit=2, streamed_to=given)
        given = served.page.end
        got += places(served.page)
    assert got == [1, 2, 3, 4, 5]
    again = await read(desk, limit=2)
    assert (places(again.page), again.unread) == ([1, 2], 5)
    await desk.consumers.ack(KEY, "c", again.page.end)
    await desk.append(low())
    await desk.consumers.read(ACCOUNT, KEY, "c", limit=2, streamed_to=given)
    assert places((await read(desk)).page) == [3, 4, 5, 6]


async def test_consumer_starting_now_sees_later_events(desk: Desk) -> None:
    await desk.append(alert(), alert())
    first = await desk.consumers.read(ACCOUNT, KEY, "c", limit=10, start="now")
    assert (places(first.page), first.unread, first.committed.pos) == ([], 0, 2)
    await desk.append(alert())
    assert places((await desk.consumers.read(ACCOUNT, KEY, "c", limit=10, start="oldest")).page) == [3]


async def test_first_read_binds_the_filters(desk: Desk) -> None:
    bound = Filters(types=select("monitor.*"), subjects=frozenset({"mon_1", "run_2"}))
    await desk.append(low(), alert(parent_id=None), alert("run_2", parent_id=None), alert())
    assert places((await read(desk, filters=bound)).page) == [3, 4]
    omitted = await read(desk)
    assert (places(omitted.page), omitted.filters) == ([3, 4], bound)
    for other in (ALERTS, Filters()):
        with pytest.raises(FiltersConflict) as raised:
            await read(desk, filters=other)
        assert raised.value.bound == bound


async def test_family_filter_includes_types_of_later_releases(desk: Desk) -> None:
    """Otherwise its consumer would miss new types, and repeating the family filter would be refused."""
    text = "monitor.*,key.revoked"
    bound = Filters(select(text), None, frozenset(named_in(text)))
    await read(desk, filters=bound)
    await read(desk, filters=bound)
    assert await bound_types(desk) == ["key.revoked", "monitor.*"]
    await rebind(desk, "credits.*", "monitor.of_a_later_release")  # as written by a newer node
    read_on = await read(desk)
    assert read_on.filters.types == {"credits.low", "credits.exhausted", "monitor.of_a_later_release"}
    await desk.append(low(), alert())
    assert places((await read(desk, filters=read_on.filters)).page) == [1]
    assert await bound_types(desk) == ["credits.*", "monitor.of_a_later_release"]


async def bound_types(desk: Desk) -> Any:
    """Return the fields of the row."""
    rows = await desk.store.read(lambda tx: tx.all("SELECT types FROM consumers"))
    return orjson.loads(rows[0][0])


async def rebind(desk: Desk, *types: str) -> None:
    """Bind the consumer to other filters."""
    text = orjson.dumps(types).decode()
    await desk.store.write(lambda tx: tx.run("UPDATE consumers SET types = ?", (text,)))


async def test_consumers_belong_to_their_key(desk: Desk) -> None:
    await desk.append(alert(), alert(key_id="key_2"), exhausted())
    assert places((await read(desk)).page) == [1, 3]
    assert places((await desk.consumers.read(ACCOUNT, "key_2", "c", limit=9)).page) == [2, 3]
    await desk.consumers.delete(KEY, "c")
    assert [one.consumer.name for one in await desk.consumers.list("key_2")] == ["c"]
    assert await desk.consumers.list(KEY) == []
    for call in (
        partial(desk.consumers.ack, KEY, "c", Position(1, 0.0)),
        partial(desk.consumers.get, KEY, "c"),
        partial(desk.consumers.reset, KEY, "c", Position(0, 0.0)),
        partial(desk.consumers.delete, KEY, "c"),
    ):
        with pytest.raises(UnknownConsumer):
            await call()


async def test_key_has_at_most_a_hundred_consumers(desk: Desk) -> None:
    outcomes: list[object] = []

    async def create(name: str) -> None:
        try:
            outcomes.append(await read(desk, name))
        except TooManyConsumers as exc:
            outcomes.append(exc)

    async with trio.open_nursery() as nursery:
        for number in range(CONSUMERS_MAX + 7):
            nursery.start_soon(create, f"c{number}")
    assert sum(isinstance(one, TooManyConsumers) for one in outcomes) == 7
    names = [one.consumer.name for one in await desk.consumers.list(KEY)]
    assert len(names) == CONSUMERS_MAX
    await desk.consumers.delete(KEY, names[0])
    await read(desk, "one-more")


async def test_idle_consumer_lapses_once_and_restarts_at_the_oldest(desk: Desk) -> None:
    await desk.append(*[alert()] * 4)
    stood = (await read(desk, limit=2)).page.end
    await desk.consumers.ack(KEY, "c", stood)
    desk.time += LAPSE_S + SEEN_S
    assert (await read(desk)).committed == stood
    desk.time += LAPSE_S + SEEN_S + 1
    await drop_before(desk, 4)
    for _ in range(2):  # neither of these ends the lapse
        assert (await desk.consumers.get(KEY, "c")).status == "lapsed"
        with pytest.raises(Lapsed):
            await desk.consumers.ack(KEY, "c", Position(4, desk.time))
    with pytest.raises(Lapsed) as raised:
        await read(desk)
    assert (raised.value.committed, raised.value.head.first_pos) == (stood, 4)
    with pytest.raises(Lapsed):
        await desk.consumers.ack(KEY, "c", Position(4, desk.time))
    back = await read(desk)
    assert (back.restarted_from, back.dropped, places(back.page), back.committed.pos) == (stood, 1, [4], 3)
    again = await read(desk)
    assert (again.restarted_from, again.dropped, again.page) == (None, 0, back.page)


async def test_reset_moves_anywhere_in_the_log_with_nothing_served(desk: Desk) -> None:
    await desk.append(*[alert()] * 5)
    await desk.consumers.ack(KEY, "c", (await read(desk)).page.end)
    back = await desk.consumers.reset(KEY, "c", Position(1, desk.time))
    assert (back.unread, back.status, back.consumer.committed.pos) == (4, "active", 1)
    with pytest.raises(AckBeyondServed):
        await desk.consumers.ack(KEY, "c", Position(2, desk.time))
    assert places((await read(desk)).page) == [2, 3, 4, 5]
    assert (await desk.consumers.reset(KEY, "c", Position(5, desk.time))).unread == 0
    with pytest.raises(CursorAhead):
        await desk.consumers.reset(KEY, "c", Position(6, desk.time))
    await drop_before(desk, 4)
    with pytest.raises(CursorExpired):
        await desk.consumers.reset(KEY, "c", Position(2, desk.time))
    assert (await desk.consumers.reset(KEY, "c", Position(3, desk.time))).unread == 2


async def test_list_returns_the_state_of_each_consumer(desk: Desk) -> None:
    await desk.append(alert(), low())
    await read(desk, "b", filters=ALERTS)
    desk.time += DAY_S + SEEN_S + 1
    await read(desk, "a")
    listed = await desk.consumers.list(KEY)
    assert [(one.consumer.name, one.status, one.unread) for one in listed] == [("a", "active", 2), ("b", "idle", 1)]
    desk.time += LAPSE_S - DAY_S + 1
    assert [one.status for one in await desk.consumers.list(KEY)] == ["idle", "lapsed"]
    assert (await desk.consumers.get(KEY, "b")).status == "lapsed"


async def test_consumer_lapses_when_unread_events_were_removed(desk: Desk) -> None:
    await desk.append(*[alert()] * 6)
    await desk.consumers.ack(KEY, "c", (await read(desk, limit=2)).page.end)
    await drop_before(desk, 3)
    assert places((await read(desk, limit=2)).page) == [3, 4]
    await drop_before(desk, 4)
    with pytest.raises(Lapsed):
        await read(desk)
    back = await read(desk)
    assert (back.dropped, places(back.page), back.unread) == (1, [4, 5, 6], 3)


async def test_concurrent_reads_report_a_lapse_once_and_restart_once(desk: Desk) -> None:
    await desk.append(*[alert()] * 3)
    await read(desk)
    desk.time += LAPSE_S + SEEN_S + 1
    lapses: list[Lapsed] = []
    pages: list[Served] = []

    async def ask() -> None:
        try:
            pages.append(await read(desk))
        except Lapsed as exc:
            lapses.append(exc)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    assert len(lapses) == 1
    assert [one.restarted_from is not None for one in pages].count(True) == 1
    assert {tuple(places(one.page)) for one in pages} == {(1, 2, 3)}


async def test_concurrent_first_reads_create_one_consumer_and_return_one_page(desk: Desk) -> None:
    """Method: the log grows while they read."""
    pages: list[Served] = []

    async def ask() -> None:
        pages.append(await read(desk))

    await desk.append(alert())
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
            nursery.start_soon(desk.append, alert())
    assert len({one.page.items for one in pages}) == 1
    assert len(await desk.consumers.list(KEY)) == 1


async def test_concurrent_acknowledgements_never_move_backwards(desk: Desk) -> None:
    await desk.append(*[alert()] * 30)
    await read(desk)
    advanced: list[int] = []

    async def ack(pos: int) -> None:
        acked = await desk.consumers.ack(KEY, "c", Position(pos, desk.time))
        assert acked.committed.pos >= pos
        assert acked.unread == 30 - acked.committed.pos
        if acked.advanced:
            advanced.append(pos)

    async with trio.open_nursery() as nursery:
        for pos in range(1, 31):
            nursery.start_soon(ack, pos)
    assert max(advanced) == 30
    assert (await desk.consumers.get(KEY, "c")).consumer.committed.pos == 30


async def test_cancelled_read_and_acknowledgement_are_atomic(desk: Desk) -> None:
    await desk.append(*[alert()] * 400)

    async def turn() -> None:
        page = (await read(desk, limit=3)).page
        assert (await desk.consumers.ack(KEY, "c", page.end)).advanced

    async def check(_whole: bool) -> None:
        try:
            stands = (await desk.consumers.get(KEY, "c")).consumer
        except UnknownConsumer:
            return
        assert stands.committed.pos % 3 == 0
        assert stands.served.pos - stands.committed.pos in (0, 3)
        again = await read(desk, limit=3)
        assert places(again.page) == [stands.committed.pos + more for more in (1, 2, 3)]
        assert again.unread == 400 - stands.committed.pos

    with trio.fail_after(50):
        assert await cancel_everywhere(turn, check) >= 4


async def test_reading_the_same_page_again_writes_nothing(desk: Desk) -> None:
    await desk.append(*[alert()] * 3)
    await read(desk)
    commits = desk.store.statistics().commits
    for _ in range(3):
        await read(desk)
        await desk.consumers.get(KEY, "c")
    desk.time += SEEN_S
    await read(desk)
    assert desk.store.statistics().commits == commits
    desk.time += 1
    await read(desk)
    assert desk.store.statistics().commits == commits + 1


async def test_expensive_count_is_stored(desk: Desk) -> None:
    await read(desk)
    await desk.append(*[alert()] * (COUNTED_LAG + 1))
    assert (await desk.consumers.get(KEY, "c")).unread == COUNTED_LAG + 1
    found = (await desk.consumers.get(KEY, "c")).consumer
    assert (found.counted, found.counted_pos) == (COUNTED_LAG + 1, COUNTED_LAG + 1)


async def test_reading_on_past_empty_pages_reaches_later_events(desk: Desk) -> None:
    """Goal: nothing is lost for a client that acknowledges only received events. Method: few of many events match."""
    consumers = Consumers(desk.store, desk.now, scan_max=4)
    await desk.append(*[low()] * 10, alert(), *[low()] * 3)
    pages = [(await consumers.read(ACCOUNT, KEY, "c", limit=9, filters=ALERTS)).page for _ in range(5)]
    assert [(places(page), page.end.pos, page.has_more) for page in pages] == [
        ([], 4, True),
        ([], 8, True),
        ([11], 12, True),
        ([11], 12, True),
        ([11], 12, True),
    ]
    assert (await consumers.get(KEY, "c")).unread == 1
    assert (await consumers.ack(KEY, "c", pages[0].end)).committed.pos == 4
    assert (await consumers.read(ACCOUNT, KEY, "c", limit=9)).page == pages[2]
    assert (await consumers.ack(KEY, "c", pages[2].end)).unread == 0
    assert places((await consumers.read(ACCOUNT, KEY, "c", limit=9)).page) == []
