"""Appending: dense, in order, and in the transaction of the reported fact; on each real engine (decisions 13)."""

import json
from collections.abc import Sequence
from functools import partial

import pytest
import trio

from events.filters import AppendedEvent, Filters
from events.log.kinds import CreditsLow
from events.log.log import EventLog, Fact, Subject
from events.positions import EMPTY, LogHead
from storage.store import Tx
from tests.events.desk import ACCOUNT, EPOCH, KEY, Desk, alert, all_rows, exhausted, low, places, revoked


async def test_event_matches_the_specification(desk: Desk) -> None:
    desk.time = EPOCH + 0.25
    await desk.append(alert("run_9"), low())
    first, second = [json.loads(item.body) for item in (await desk.page()).items]
    assert list(first.items()) == [
        ("id", "evt_00000001"),
        ("type", "monitor.alert_fired"),
        ("api_version", "2026-11-21"),
        ("created_at", "2025-06-15T15:06:40.250Z"),
        ("subject", {"kind": "run", "id": "run_9", "name": "My runs"}),
        (
            "data",
            {"monitor_id": "mon_1", "run_id": "run_9", "scheduled_for": "2026-01-01T00:00:00Z", "alerts_fired": 1},
        ),
        ("links", {"run": "https://api.example.com/v1/monitors/mon_1/runs/run_9"}),
    ]
    assert second["subject"] == {"kind": "account", "id": ACCOUNT}
    assert second["links"] == {}


@pytest.mark.parametrize("name", ['"quoted" \\ and \n lines', "Ünïcode 漢字 🙂", "nul \0 inside", "{in} ? {rows}", ""])
async def test_subject_name_is_unchanged(desk: Desk, name: str) -> None:
    await desk.append(Fact(ACCOUNT, "credits.low", Subject("account", ACCOUNT, name), low().data))
    assert json.loads((await desk.page()).items[0].body)["subject"]["name"] == name


async def test_positions_are_consecutive_per_account(desk: Desk) -> None:
    await desk.append(low(), alert(account_id="acc_2"), exhausted(), alert(account_id="acc_2"), low("acc_3"))
    await desk.append(low(), low("acc_3"))
    rows = await desk.store.read(all_rows)
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("acc_1", 1, "evt_00000001"),
        ("acc_1", 2, "evt_00000003"),
        ("acc_1", 3, "evt_00000006"),
        ("acc_2", 1, "evt_00000002"),
        ("acc_2", 2, "evt_00000004"),
        ("acc_3", 1, "evt_00000005"),
        ("acc_3", 2, "evt_00000007"),
    ]
    assert await desk.head() == LogHead(1, EPOCH, 3, EPOCH)
    assert await desk.head("acc_9") == EMPTY


async def test_timestamps_never_decrease_along_a_log(desk: Desk) -> None:
    for time in (EPOCH + 5, EPOCH + 3, EPOCH + 7, EPOCH):
        desk.time = time
        await desk.append(low())
    assert [item.at - EPOCH for item in (await desk.page()).items] == [5, 5, 7, 7]
    assert await desk.head() == LogHead(1, EPOCH + 5, 4, EPOCH + 7)


async def test_append_without_facts_writes_nothing(desk: Desk) -> None:
    await desk.append()
    assert await desk.head() == EMPTY
    assert desk.told == []


async def test_rolled_back_transaction_leaves_no_hole_and_publishes_nothing(desk: Desk) -> None:
    """Method: some of many transactions fail after they have appended, alone and among others of one commit."""

    def append(number: int, tx: Tx) -> None:
        desk.log.append(tx, [alert(f"run_{number}"), low()])
        desk.log.append(tx, [alert(f"run_{number}")])
        if number % 3 == 0:
            raise LookupError(number)

    async def call(number: int) -> None:
        try:
            await desk.store.write(partial(append, number))
        except LookupError:
            assert number % 3 == 0

    await call(0)
    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(call, number)
    rows = await desk.store.read(all_rows)
    assert [row[1] for row in rows] == list(range(1, 121))
    subjects = [json.loads(item.body)["subject"]["id"] for item in (await desk.page(limit=500)).items]
    for start in range(0, 120, 3):
        one, account, same = subjects[start : start + 3]
        assert (account, one) == (ACCOUNT, same)
        assert int(one.removeprefix("run_")) % 3
    assert sorted(event.pos for event in desk.told) == list(range(1, 121))


async def test_waiters_receive_each_event_after_its_commit(desk: Desk) -> None:
    def append(tx: Tx) -> list[AppendedEvent]:
        desk.log.append(tx, [low(), alert("run_2")])
        return list(desk.told)

    assert await desk.store.write(append) == []
    assert desk.told == [
        AppendedEvent(ACCOUNT, 1, "credits.low", None, ACCOUNT, None),
        AppendedEvent(ACCOUNT, 2, "monitor.alert_fired", KEY, "run_2", "mon_1"),
    ]


async def test_events_of_an_ended_key_belong_to_the_account(desk: Desk) -> None:
    asked: list[Sequence[str]] = []

    def ended(_tx: Tx, key_ids: Sequence[str]) -> set[str]:
        asked.append(key_ids)
        return {"key_gone"}

    log = EventLog(now=desk.now, make_id=desk.make_id, base_url="", publish=desk.told.extend, ended=ended)
    facts = [alert("run_1", key_id="key_gone"), alert("run_2"), low(), alert("run_3", key_id="key_gone")]
    await desk.store.write(lambda tx: log.append(tx, facts))
    await desk.store.write(lambda tx: log.append(tx, [low()]))
    assert asked == [[KEY, "key_gone"]], "no key is looked up if no event names one"
    assert [event.key_id for event in desk.told] == [None, KEY, None, None, None]
    assert places(await desk.page(key_id=KEY)) == [1, 2, 3, 4, 5]
    assert places(await desk.page(key_id="key_other")) == [1, 3, 4, 5]


async def test_concurrent_writers_produce_consecutive_positions(desk: Desk) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(desk.append, alert(f"run_{number}"), low("acc_2"))
    for account_id in (ACCOUNT, "acc_2"):
        page = await desk.page(account_id=account_id, limit=500)
        assert places(page) == list(range(1, 301))
    assert len({row[2] for row in await desk.store.read(all_rows)}) == 600


async def test_published_events_match_what_filters_read(desk: Desk) -> None:
    await desk.append(low(), alert("run_2"), alert("run_3", parent_id=None), revoked("key_9"), alert("mon_1"))
    for filters in (
        Filters(),
        Filters(types=frozenset({"credits.low", "key.revoked"})),
        Filters(subjects=frozenset({"mon_1"})),
        Filters(subjects=frozenset({"run_3", "key_9"})),
        Filters(types=frozenset({"monitor.alert_fired"}), subjects=frozenset({"run_2", "key_9"})),
        Filters(types=frozenset()),
        Filters(subjects=frozenset()),
    ):
        assert places(await desk.page(filters=filters)) == [one.pos for one in desk.told if filters.admit(one)]


async def test_fact_with_wrong_data_key_or_link_is_a_bug(quick: Desk) -> None:
    subject = Subject("account", ACCOUNT)
    data = CreditsLow(balance=1, held=0, pack_credits=9, threshold_credits=2, credits_per_day=None, exhausted_at=None)
    for fact in (
        Fact(ACCOUNT, "credits.exhausted", subject, data),
        Fact(ACCOUNT, "credits.low", subject, data, key_id=KEY),
        Fact(ACCOUNT, "credits.low", subject, data, links={"elsewhere": "https://example.com"}),
    ):
        with pytest.raises(AssertionError):
            await quick.append(fact)
    assert await quick.head() == EMPTY
