"""Pages for waiting readers: queries made together are read together; nothing is read for cancelled callers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from events.errors import CursorAhead
from events.filters import ALL
from events.log.pages import EventPage, PageQuery
from events.log.reader import PageReader
from events.positions import EMPTY
from events.sleeper import Sleeper
from storage.errors import StorageError
from tests.events.desk import ACCOUNT, KEY, Desk, low


class Counted:
    """A store that counts its reads, and can be unavailable."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.reads = 0
        self.is_away = False

    async def read(self, fn: Any) -> Any:
        self.reads += 1
        if self.is_away:
            await trio.lowlevel.checkpoint()
            raise StorageError("away")
        return await self._store.read(fn)


def ask(after: int = 0, key_id: str = KEY) -> PageQuery:
    return PageQuery(ACCOUNT, key_id, after, 10, ALL)


async def test_concurrent_queries_are_read_together(quick: Desk) -> None:
    await quick.append(low(), low())
    store = Counted(quick.store)
    reader, found = PageReader(store), dict[int, Any]()  # type: ignore[arg-type]

    async def take(number: int, wanted: PageQuery | str) -> None:
        found[number] = await (reader.head(wanted) if isinstance(wanted, str) else reader.read(wanted))

    wanted = [ask(), ask(), ask(1), ask(0, "key_of_another"), ACCOUNT, ACCOUNT, "acc_of_another"]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as takers:
                for number, one in enumerate(wanted):
                    takers.start_soon(take, number, one)
                await trio.testing.wait_all_tasks_blocked()
                assert len(reader) == len(wanted)
                nursery.start_soon(reader.keep_reading)
            nursery.cancel_scope.cancel()
    assert (store.reads, len(reader)) == (1, 0)
    assert found[0] is found[1]
    assert [len(found[number].items) for number in range(4)] == [2, 2, 1, 2]
    assert found[4] == found[5] == found[0].head
    assert found[6] == EMPTY


async def test_abandoned_queries_are_not_read(quick: Desk) -> None:
    store = Counted(quick.store)
    reader = PageReader(store)  # type: ignore[arg-type]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(0.01):
                await reader.read(ask())
            nursery.start_soon(reader.keep_reading)
            await trio.testing.wait_all_tasks_blocked()
            assert (store.reads, len(reader)) == (0, 0)
            await reader.read(ask())
            nursery.cancel_scope.cancel()
    assert store.reads == 1


async def test_each_caller_gets_its_own_error(quick: Desk) -> None:
    store = Counted(quick.store)
    reader = PageReader(store)  # type: ignore[arg-type]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.keep_reading)
            with pytest.raises(CursorAhead):
                await reader.read(ask(7))
            store.is_away = True
            with pytest.raises(StorageError):
                await reader.read(ask())
            nursery.cancel_scope.cancel()


async def test_read_for_a_sleeper_wakes_it_with_the_result(quick: Desk) -> None:
    reader, sleepers = PageReader(quick.store), [Sleeper() for _ in range(3)]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for begin, sleeper in zip(
                (partial(reader.begin, ask(after)) for after in (0, 0, 7)), sleepers, strict=True
            ):
                begin(sleeper)
                nursery.start_soon(sleeper.sleep)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(reader.keep_reading)
            while any(sleeper.found is None for sleeper in sleepers):  # noqa: ASYNC110 - what is waited for is below
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    assert isinstance(sleepers[0].found, EventPage)
    assert sleepers[1].found is sleepers[0].found
    assert isinstance(sleepers[2].found, CursorAhead)
    assert not any(sleeper.is_asleep for sleeper in sleepers)
