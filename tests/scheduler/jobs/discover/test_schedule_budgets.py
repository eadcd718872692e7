"""Runs of a discover schedule count toward the key that made the schedule (decisions 24)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.discover.net import Net
from tests.scheduler.jobs.discover.test_schedules import HOUR, found, started

pytestmark = pytest.mark.usefixtures("rare_ticks")


@pytest.mark.critical
@pytest.mark.parametrize("revoked", [False, True])
@VIRTUALLY
async def test_scheduled_runs_count_toward_the_key_and_are_skipped_at_its_limit(quick: Desk, *, revoked: bool) -> None:
    net = Net()
    desk = started(quick, net)
    owner = await desk.owner()
    assert owner.key_id is not None
    await quick.keys.update(owner.key_id, credit_limit=2)
    schedule = await desk.schedule(owner)
    if revoked:
        await quick.keys.revoke(owner.key_id)
    async with desk.keep_time():
        for name in ("a", "b", "c"):
            found(net, name)
            await trio.sleep(HOUR)
            await trio.sleep(20)
    assert [one.skip_reason for one in await desk.occurrences(schedule)] == [None, None, "key_budget_reached"]
    assert await quick.money(owner.account_id) == (10_000 - 2, 0)
    assert (await quick.keys.get(owner.key_id)).used == 2
    await quick.assert_sound(owner.account_id)
