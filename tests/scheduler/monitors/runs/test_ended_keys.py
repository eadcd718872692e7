"""Events of a monitor whose key was revoked or has expired belong to an owner that can still read them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio

from scheduler.monitors.model.records import Monitor
from scheduler.monitors.runs.run_rows import RunLease
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH, Desk, open_desk
from tests.servers.postgres import PostgresServer
from upstreams.model.errors import UpstreamFailed

LOG = "SELECT type, key_id, parent_id, subject_id FROM events WHERE account_id = ? ORDER BY pos"
TRIES = 30


async def keyed(desk: Desk, account: str, *, expires_at: float | None = None, **terms: Any) -> Monitor:
    key = await desk.keys.create(account, name="maker", expires_at=expires_at)
    return await desk.monitor(account, key_id=key.id, **terms)


async def owners(desk: Desk, monitor: Monitor) -> list[tuple[str, str | None]]:
    """Return the type and the key of each of the monitor's events."""
    rows = await desk.store.read(lambda tx: tx.all(LOG, (monitor.account_id,)))
    return [(row[0].removeprefix("monitor."), row[1]) for row in rows if row[2] == monitor.id]


def fails(_recipe: object) -> Any:
    raise UpstreamFailed("api", "status 500")


async def test_events_belong_to_the_key_until_it_is_revoked_then_to_the_account(desk: Desk) -> None:
    account = await desk.account()
    monitor = await keyed(desk, account, rules=[{"metric": "stars", "op": "gt", "value": 1}])
    other = await keyed(desk, account)
    assert monitor.key_id is not None
    await desk.ran(monitor, EPOCH)
    await desk.keys.revoke(monitor.key_id)
    await desk.ran(monitor, EPOCH + 1)
    desk.recipes.answer = fails
    await desk.ran(monitor, EPOCH + 2)
    desk.recipes.answer = lambda _recipe: gathered({"stars": 1})
    await desk.ran(other, EPOCH + 2)
    mine = monitor.key_id
    completed, alert = "run_completed", "alert_fired"
    first, later = [(completed, mine), (alert, mine)], [(completed, None), (alert, None), ("run_failed", None)]
    assert await owners(desk, monitor) == [*first, *later]
    assert await owners(desk, other) == [(completed, other.key_id)], "the other key keeps its events"


@pytest.mark.parametrize("ends_in_s", [0.0, -3600.0])
async def test_expired_key_owns_no_new_events(desk: Desk, ends_in_s: float) -> None:
    monitor = await keyed(desk, await desk.account(), expires_at=EPOCH + 10.0)
    desk.time = EPOCH + 9.9
    await desk.ran(monitor, EPOCH)
    desk.time = EPOCH + 10.0 - ends_in_s
    await desk.ran(monitor, EPOCH + 1)
    assert [key for _, key in await owners(desk, monitor)] == [monitor.key_id, None]


async def test_skip_events_go_to_the_account_after_revocation(desk: Desk) -> None:
    monitor = await keyed(desk, await desk.account())
    assert monitor.key_id is not None
    await desk.keys.revoke(monitor.key_id)
    await desk.lease(monitor, EPOCH)
    await desk.store.write(lambda tx: desk.slots.open_one(tx, monitor.id, EPOCH + 1))
    assert await owners(desk, monitor) == [("run_skipped", None)]


async def raced(runs: Desk, revokes: Desk, lease: RunLease, key_id: str, *, ahead_s: float) -> None:
    """Run a monitor, and revoke its key during the run."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runs.runs.run, lease)
        await trio.sleep(ahead_s)
        await revokes.keys.revoke(key_id)


async def assert_each_has_a_reader(runs: Desk, revokes: Desk) -> None:
    """Goal: every event has an owner that can read it.

    Method: run the monitor and revoke the key concurrently, then compare the owners and positions of the events. Events
    before `key.revoked` were written while the key was valid; events after it must belong to the account.
    """
    chance, account = Random(7), await runs.account()
    began_at = trio.current_time()
    await runs.ran(await runs.monitor(await runs.account()))
    run_s = trio.current_time() - began_at
    for attempt in range(TRIES):
        monitor = await keyed(runs, account)
        assert monitor.key_id is not None
        lease = await runs.lease(monitor, EPOCH + attempt)
        if attempt == 0:  # in at least one attempt, each of the two is first
            await revokes.keys.revoke(monitor.key_id)
            await runs.runs.run(lease)
        elif attempt == 1:
            await runs.runs.run(lease)
            await revokes.keys.revoke(monitor.key_id)
        else:
            await raced(runs, revokes, lease, monitor.key_id, ahead_s=chance.uniform(0.0, 1.5 * run_s))
    log = await runs.store.read(lambda tx: tx.all(LOG, (account,)))
    revoked = {row[3]: place for place, row in enumerate(log) if row[0] == "key.revoked"}
    made = {row[0]: row[1] for row in await runs.store.read(lambda tx: tx.all("SELECT id, key_id FROM monitors"))}
    told = [(place, row[1], made[row[2]]) for place, row in enumerate(log) if row[0].startswith("monitor.")]
    assert len(told) == len(revoked) == TRIES
    for place, owner, maker in told:
        assert owner == (maker if place < revoked[maker] else None)
    assert len({owner is None for _, owner, _ in told}) == 2


async def test_run_events_are_readable_after_a_concurrent_revocation(desk: Desk) -> None:
    await assert_each_has_a_reader(desk, desk)


async def test_revocation_on_another_node_applies_to_a_run(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with open_desk(url, "a", is_alone=False) as one, open_desk(url, "b", is_alone=False) as other:
        await assert_each_has_a_reader(one, other)
        await one.assert_sound()
