"""A monitor's runs count toward the counter and the limit of the key that created it (decisions 24)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.monitors.model.records import Monitor
from scheduler.monitors.runs.runs import charge_request
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.monitors.runs.test_ended_keys import keyed

pytestmark = pytest.mark.critical


async def used(desk: Desk, monitor: Monitor) -> int:
    assert monitor.key_id is not None
    return (await desk.keys.get(monitor.key_id)).used


@pytest.mark.parametrize("ended", ["", "revoked", "expired"])
async def test_runs_stop_at_the_key_limit_even_after_revocation(ended: str, desk: Desk) -> None:
    """Revoking a key does not stop its monitor (decisions 12), nor does it remove the limit."""
    account = await desk.account()
    monitor = await keyed(desk, account, expires_at=EPOCH + 10.0 if ended == "expired" else None)
    assert monitor.key_id is not None
    cost = desk.recipes.credits_least + 1
    await desk.keys.update(monitor.key_id, credit_limit=2 * cost)
    balance, _ = await desk.money(account)
    assert (await desk.ran(monitor, EPOCH)).status == "ok"
    if ended == "revoked":
        await desk.keys.revoke(monitor.key_id)
    elif ended:
        desk.time = EPOCH + 20.0
    assert (await desk.ran(monitor, EPOCH + 1)).status == "ok"
    skipped = await desk.ran(monitor, EPOCH + 2)
    assert (skipped.status, skipped.skip_reason, skipped.credits_used) == ("skipped", "key_budget_reached", 0)
    assert await used(desk, monitor) == 2 * cost
    assert await desk.money(account) == (balance - 2 * cost, 0)
    await desk.assert_sound(account)


async def test_interrupted_attempt_is_subtracted_from_the_key_counter(desk: Desk) -> None:
    account = await desk.account()
    monitor = await keyed(desk, account)
    lease = await desk.lease(monitor, EPOCH)
    recipe = desk.recipes.read(monitor.recipe, {})
    await desk.charges.take(charge_request(lease, recipe))
    assert await used(desk, monitor) == recipe.credits_most + 1
    assert lease.run.attempt == 1
    again = lease._replace(run=replace(lease.run, attempt=2))
    await desk.runs._refund_earlier(again)
    assert await used(desk, monitor) == 0
    await desk.assert_sound(account)


async def test_monitor_without_a_key_has_no_budget(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account, key_id=None)
    assert (await desk.ran(monitor, EPOCH)).status == "ok"
    await desk.assert_sound(account)
