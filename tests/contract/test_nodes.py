"""The database's clock decides which nodes are alive. Each dead node is recovered by one other node at a time."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from storage import nodes
from storage.opening import open_store
from storage.store import Store


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    with trio.fail_after(60):
        async with open_store(store_url, []) as opened:
            yield opened


async def join(store: Store, *ids: str, shares_state: bool = True) -> None:
    for id_ in ids:
        await store.write(partial(nodes.join, node_id=id_, shares_state=shares_state))


async def rivals(store: Store, id_: str, *, shares_state: bool) -> list[str]:
    return sorted(await store.read(partial(nodes.rivals, node_id=id_, shares_state=shares_state)))


async def beat(store: Store, id_: str) -> bool:
    return await store.write(partial(nodes.beat, node_id=id_))


async def take_over(store: Store, id_: str) -> list[str]:
    return await store.write(partial(nodes.take_over, node_id=id_))


async def age(store: Store, seconds: float, *ids: str) -> None:
    """Move the rows of these nodes some seconds into the past, as if that time had passed."""
    sql = "UPDATE nodes SET seen_at = seen_at - ?, taken_at = taken_at - ? WHERE id = ?"
    for id_ in ids:
        await store.write(lambda tx, id_=id_: tx.run(sql, (seconds, seconds, id_)))  # type: ignore[misc]


async def living(store: Store) -> list[str]:
    return await store.read(partial(nodes.living))


async def test_silent_node_is_taken_over_once(store: Store) -> None:
    await join(store, "a", "b", "c")
    assert await living(store) == ["a", "b", "c"]
    await age(store, 19, "a", "b", "c")
    assert await take_over(store, "a") == []
    await age(store, 1.1, "a", "b", "c")
    assert await beat(store, "a")
    assert await beat(store, "b")
    assert await living(store) == ["a", "b"]
    assert await take_over(store, "a") == ["c"]
    assert await take_over(store, "b") == []
    assert await living(store) == ["a", "b"]


async def test_node_declared_dead_stays_dead(store: Store) -> None:
    await join(store, "a", "paused")
    await age(store, 21, "paused")
    assert await take_over(store, "a") == ["paused"]
    assert not await beat(store, "paused")
    assert not await beat(store, "never joined")


async def test_silent_node_not_taken_over_continues(store: Store) -> None:
    await join(store, "alone")
    await age(store, 21, "alone")
    assert await take_over(store, "alone") == [], "a node does not recover itself"
    assert await beat(store, "alone")
    assert await living(store) == ["alone"]


async def test_dead_nodes_are_offered_again_for_recovery(store: Store) -> None:
    """Goal: no work stays open after the rescuer dies too, or after the last write of a node that was only paused."""
    await join(store, "a", "dead")
    await age(store, 21, "dead")
    assert await take_over(store, "a") == ["dead"]
    await store.write(partial(nodes.recovered, node_id="a", dead_id="dead"))
    await age(store, 21, "a", "dead")
    await join(store, "b")
    assert await take_over(store, "b") == ["a", "dead"]


async def test_only_recovered_nodes_are_forgotten(store: Store) -> None:
    await join(store, "a", "recovered", "not yet")
    hours_ago = "UPDATE nodes SET seen_at = {now} - 9000, taken_by = 'a', taken_at = {now} - 8000 WHERE id <> 'a'"
    await store.write(lambda tx: tx.run(hours_ago))
    await store.write(partial(nodes.recovered, node_id="a", dead_id="recovered"))
    await store.write(partial(nodes.recovered, node_id="other", dead_id="not yet"))
    assert await take_over(store, "a") == ["not yet"]
    assert await store.read(lambda tx: tx.all("SELECT id FROM nodes ORDER BY id")) == [("a",), ("not yet",)]


async def test_node_that_left_is_not_recovered(store: Store) -> None:
    await join(store, "a", "gone")
    await store.write(partial(nodes.leave, node_id="gone"))
    await age(store, 21, "gone")
    assert await take_over(store, "a") == []


async def test_node_that_left_or_never_joined_is_unknown(store: Store) -> None:
    await join(store, "lives", "dead", "gone")
    await store.write(partial(nodes.leave, node_id="gone"))
    await age(store, 21, "dead")
    assert await take_over(store, "lives") == ["dead"]
    asked = ["gone", "lives", "never joined", "dead"]
    assert await store.read(partial(nodes.unknown, ids=asked)) == ["gone", "never joined"]
    assert await store.read(partial(nodes.unknown, ids=[])) == []


async def test_node_without_shared_state_must_be_alone(store: Store) -> None:
    await join(store, "first", "second")
    assert await rivals(store, "new", shares_state=True) == []
    assert await rivals(store, "new", shares_state=False) == ["first", "second"]
    await join(store, "alone", shares_state=False)
    assert await rivals(store, "new", shares_state=True) == ["alone"]


async def test_only_the_later_of_two_conflicting_nodes_sees_a_rival(store: Store) -> None:
    await join(store, "z first", "alone", shares_state=False)
    # The two nodes may have joined within one tick of the database's clock.
    await store.write(lambda tx: tx.run("UPDATE nodes SET started_at = started_at - 1 WHERE id = 'z first'"))
    assert await rivals(store, "alone", shares_state=False) == ["z first"]
    assert await rivals(store, "z first", shares_state=False) == []
    same = "UPDATE nodes SET started_at = 1"
    await store.write(lambda tx: tx.run(same))
    assert await rivals(store, "alone", shares_state=False) == []
    assert await rivals(store, "z first", shares_state=False) == ["alone"]


async def test_dead_nodes_are_not_rivals(store: Store) -> None:
    await join(store, "silent", "taken", shares_state=False)
    await age(store, 21, "silent", "taken")
    await store.write(lambda tx: tx.run("UPDATE nodes SET taken_by = 'x', taken_at = {now} WHERE id = 'taken'"))
    assert await rivals(store, "new", shares_state=False) == []
    assert await beat(store, "silent")
    assert list(await store.read(partial(nodes.rivals, node_id="new", shares_state=True))) == ["silent"]


async def test_timestamps_use_the_databases_clock(store: Store) -> None:
    """Goal: nodes with different clocks agree.

    Method: all stored timestamps are within a second of the database's own time, which callers cannot influence.
    """
    await join(store, "a")
    ages = "SELECT ABS({now} - started_at), ABS({now} - seen_at) FROM nodes"
    ((started_s, seen_s),) = await store.read(lambda tx: tx.all(ages))
    assert max(started_s, seen_s) < 2


async def test_each_dead_node_is_taken_over_by_one_of_many_nodes(store_url: str) -> None:
    """Method: on PostgreSQL every node has its own connection."""
    dead = [f"dead {number}" for number in range(8)]
    racers = 1 if store_url.startswith("sqlite") else 4
    taken: list[str] = []
    with trio.fail_after(60):
        async with open_store(store_url, []) as first:
            await join(first, *dead)
            await age(first, 21, *dead)

            async def race(name: str) -> None:
                if racers == 1:
                    taken.extend(await take_over(first, name))
                    return
                async with open_store(store_url, []) as store:
                    taken.extend(await take_over(store, name))

            async with trio.open_nursery() as nursery:
                for number in range(racers):
                    nursery.start_soon(race, f"racer {number}")
    assert sorted(taken) == dead
