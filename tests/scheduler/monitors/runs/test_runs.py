"""A single run from its charge to its end, checked by what the monitor's owner sees."""

from contextlib import suppress

import orjson
import pytest
import trio

from billing.charges.recovery import recover
from limits.errors import CircuitOpen
from scheduler.monitors.model.records import Monitor, RunData
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import ATTEMPTS_MAX, GIVEN_UP, NO_CREDITS, SUSPENDED, charge_request
from scheduler.monitors.runs.verdict import NO_ROWS, NO_VALUE, NOTHING_USABLE
from scheduler.recipes import Gathered
from storage.errors import StorageError, StoreUnavailable
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.stored import kept_data
from upstreams.model.errors import InvalidArgument, UpstreamFailed

STARS = {"metrics": ["items[].repository.stars", "total"], "row_key": "repository.id", "max_rows": 100}
RISES = [{"metric": "stars", "op": "gt", "value": 100}]


def page(*stars: int) -> dict[str, object]:
    rows = [{"repository": {"id": f"r{place}", "stars": count}} for place, count in enumerate(stars)]
    return {"items": rows, "total": len(rows)}


async def data_of(desk: Desk, run_id: str) -> RunData:
    data = await desk.store.read(lambda tx: kept_data(tx, run_id))
    assert isinstance(data, RunData)
    return data


async def test_complete_run_is_ok_and_costs_the_recipe_plus_one_credit(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    run = await desk.ran(monitor, EPOCH)
    assert (run.status, run.credits_used, run.skip_reason, run.attempt) == ("ok", 6, None, 1)
    assert run.scheduled_for == EPOCH
    assert run.finished_at is not None
    assert orjson.loads(run.legs)[0]["rung"] == "primary"
    assert await desk.money(account) == (94, 0)
    assert await desk.settled() == {run.id: 6}
    assert await data_of(desk, run.id) == RunData(b'{"stars":7}', b'{"_":{"stars":7}}', b"{}")
    after = await desk.read(monitor)
    assert (after.baseline_run_id, after.runs_total, after.credits_spent) == (run.id, 1, 6)


async def test_second_run_is_compared_with_the_first(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account())
    await desk.ran(monitor, EPOCH)
    desk.recipes.answer = lambda _recipe: gathered({"stars": 10})
    run = await desk.ran(monitor, EPOCH + 3600)
    assert (await data_of(desk, run.id)).deltas == b'{"stars":3}'


async def test_run_with_missing_legs_is_partial_and_charged_by_coverage(desk: Desk) -> None:
    account = await desk.account(100)
    desk.recipes.answer = lambda _recipe: gathered({"stars": 7}, coverage=0.5)
    run = await desk.ran(await desk.monitor(account))
    assert (run.status, run.credits_used) == ("partial", 4)  # half of the 5 credits, rounded up, plus 1 for scheduling
    assert await desk.money(account) == (96, 0)


async def test_interrupted_walk_is_partial_and_charged_by_page(desk: Desk) -> None:
    account = await desk.account(16)  # a run reserves the 6 credits that it needs, and half of the other 10
    desk.recipes.credits_most = 50
    desk.recipes.answer = lambda _recipe: gathered(page(1), whole=False, used_credits=10)
    run = await desk.ran(await desk.monitor(account))
    assert (run.status, run.credits_used, run.rows_count) == ("partial", 11, 1)
    assert await desk.money(account) == (5, 0)


@pytest.mark.parametrize(
    ("failure", "reason", "said"),
    [
        (UpstreamFailed("api", "the upstream answered 500"), "UPSTREAM_ERROR", "api: the upstream answered 500"),
        (CircuitOpen(30), "UPSTREAM_ERROR", "the circuit is open for another 30 s"),
        (
            InvalidArgument("query", f"GitHub says: a\0b{'c' * 9_000}"),
            "UPSTREAM_ERROR",
            f"query: GitHub says: a\ufffdb{'c' * 477}",
        ),
    ],
    ids=["failed", "unavailable", "message_with_unstorable_characters"],
)
async def test_failed_run_is_refunded_and_not_a_baseline(
    desk: Desk, failure: Exception, reason: str, said: str
) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account, hook="https://example.com/hook")
    first = await desk.ran(monitor, EPOCH)

    def fail(_recipe: object) -> object:
        raise failure

    desk.recipes.answer = fail  # type: ignore[assignment]
    run = await desk.ran(monitor, EPOCH + 3600)
    assert (run.status, run.credits_used, run.skip_reason) == ("failed", 0, reason)
    assert orjson.loads(run.warnings) == [said]
    assert await desk.money(account) == (94, 0)
    after = await desk.read(monitor)
    assert (after.baseline_run_id, after.runs_total, after.credits_spent) == (first.id, 2, 6)
    assert [row[0] for row in await desk.deliveries()] == [first.id]
    types = [event["type"] for event in await desk.events(account)]
    assert types == ["monitor.run_completed", "monitor.run_failed"]


@pytest.mark.parametrize(
    ("came", "reason"),
    [
        (gathered(page()), NO_ROWS),
        (gathered({"items": [{"repository": {"id": "r0", "stars": None}}]}), NO_VALUE),
        (gathered(page(1), coverage=0.0), NOTHING_USABLE),
    ],
)
async def test_numbers_only_run_without_numbers_fails(quick: Desk, came: object, reason: str) -> None:
    account = await quick.account(100)
    quick.recipes.answer = lambda _recipe: came  # type: ignore[assignment, return-value]
    run = await quick.ran(await quick.monitor(account, track=STARS))
    assert (run.status, run.credits_used, run.skip_reason) == ("failed", 0, reason)
    assert await data_of(quick, run.id) == RunData()
    assert await quick.money(account) == (100, 0)


@pytest.mark.parametrize(
    ("data", "coverage", "status"), [(page(1), 0.5, "partial"), (page(), 1.0, "failed"), (page(1), 0.0, "failed")]
)
async def test_run_warnings_name_missing_parts(quick: Desk, data: object, coverage: float, status: str) -> None:
    quick.recipes.answer = lambda _recipe: gathered(data, coverage=coverage, warnings=["page 2 is missing"])
    run = await quick.ran(await quick.monitor(await quick.account(), track=STARS))
    assert (run.status, orjson.loads(run.warnings)) == (status, ["page 2 is missing"])
    assert orjson.loads(run.legs)[0]["source"] == "api"


async def test_numbers_only_run_stores_numbers_and_changes(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), track=STARS)
    desk.recipes.answer = lambda _recipe: gathered(page(5, 6))
    first = await desk.ran(monitor, EPOCH)
    assert (await data_of(desk, first.id)).deltas is None
    desk.recipes.answer = lambda _recipe: gathered(page(8))
    second = await data_of(desk, (await desk.ran(monitor, EPOCH + 3600)).id)
    assert orjson.loads(second.numbers or b"") == {"_": {"total": 1}, "r0": {"items[].repository.stars": 8}}
    deltas = orjson.loads(second.deltas or b"")
    assert deltas["rows"]["r0"]["items[].repository.stars"] == {"prev": 5, "cur": 8, "abs": 3, "pct": 60.0}
    assert deltas["rows_gone"] == ["r1"]


async def test_unaffordable_run_is_skipped(desk: Desk) -> None:
    account = await desk.account(5)
    monitor = await desk.monitor(account, hook="https://example.com/hook")
    run = await desk.ran(monitor)
    assert (run.status, run.credits_used, run.skip_reason) == ("skipped", 0, NO_CREDITS)
    assert desk.recipes.asked == []
    assert await desk.deliveries() == []
    assert (await desk.read(monitor)).runs_total == 0
    (event,) = await desk.events(account)
    assert event["type"] == "monitor.run_skipped"
    assert event["data"]["skip_reason"] == NO_CREDITS


async def test_run_is_skipped_only_while_the_account_is_suspended(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    await desk.lifecycle.suspend(account)
    run = await desk.ran(monitor, EPOCH)
    assert (run.status, run.credits_used, run.skip_reason) == ("skipped", 0, SUSPENDED)
    assert desk.recipes.asked == []
    await desk.lifecycle.resume(account)
    assert (await desk.ran(monitor, EPOCH + 3600)).status == "ok"


async def test_invalid_recipe_fails_for_free(desk: Desk) -> None:
    account = await desk.account(100)
    run = await desk.ran(await desk.monitor(account, recipe="gone/gone"))
    assert (run.status, run.skip_reason) == ("failed", "recipe_invalid")
    assert orjson.loads(run.warnings) == ["recipe names no data endpoint"]
    assert await desk.money(account) == (100, 0)


async def test_alert_event_follows_the_run_event(desk: Desk) -> None:
    account = await desk.account()
    monitor = await desk.monitor(account, rules=RISES)
    desk.recipes.answer = lambda _recipe: gathered({"stars": 101})
    run = await desk.ran(monitor, EPOCH)
    assert [alert["to"] for alert in orjson.loads(run.alerts)] == [101]
    completed, fired = await desk.events(account)
    assert (completed["type"], fired["type"]) == ("monitor.run_completed", "monitor.alert_fired")
    assert completed["subject"] == {"kind": "run", "id": run.id, "name": "My monitor"}
    assert completed["data"] == {
        "monitor_id": monitor.id,
        "run_id": run.id,
        "status": "ok",
        "scheduled_for": "2027-01-15T08:00:00.000Z",
        "alerts_fired": 1,
        "rows": None,
        "credits_spent": 6,
        "skip_reason": None,
    }
    assert completed["links"]["runs"] == f"https://api.example.com/v1/monitors/{monitor.id}/runs"


async def test_rule_with_a_missing_metric_adds_a_warning(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), rules=[{"metric": "forks", "op": "gt", "value": 1}])
    run = await desk.ran(monitor)
    assert orjson.loads(run.warnings) == ["the rule forks gt was skipped: this run has no such number"]


async def test_rule_state_is_kept_between_runs(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), rules=[{**RISES[0], "consecutive": 2}])
    desk.recipes.answer = lambda _recipe: gathered({"stars": 101})
    assert orjson.loads((await desk.ran(monitor, EPOCH)).alerts) == []
    assert len(orjson.loads((await desk.ran(monitor, EPOCH + 3600)).alerts)) == 1


async def test_rule_state_is_not_saved_after_a_concurrent_change(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), rules=[{**RISES[0], "consecutive": 2}])
    desk.recipes.answer = lambda _recipe: gathered({"stars": 101})
    lease = await desk.lease(monitor)
    await desk.store.write(lambda tx: tx.run("UPDATE monitors SET alert_rules = '[]', version = 1"))
    await desk.runs.run(lease)
    assert (await desk.read(monitor)).rule_state == "{}"


async def test_delivery_is_queued_with_the_run(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), hook="https://Hooks.example.com:8443/in?token=1")
    run = await desk.ran(monitor)
    ((run_id, host, body, status),) = await desk.deliveries()
    assert (run_id, host, status) == (run.id, "hooks.example.com", "queued")
    assert orjson.loads(body) == [monitor.id, run.id, "ok", []]


async def test_suppressed_webhook_receives_only_alerts(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), rules=RISES, suppress=True, hook="https://example.com/hook")
    await desk.ran(monitor, EPOCH)
    assert await desk.deliveries() == []
    desk.recipes.answer = lambda _recipe: gathered({"stars": 101})
    run = await desk.ran(monitor, EPOCH + 3600)
    assert [row[0] for row in await desk.deliveries()] == [run.id]


async def test_paused_webhook_receives_nothing(desk: Desk) -> None:
    monitor = await desk.monitor(await desk.account(), hook="https://example.com/hook")
    await desk.store.write(lambda tx: tx.run("UPDATE webhooks SET status = 'paused'"))
    assert (await desk.ran(monitor)).status == "ok"
    assert await desk.deliveries() == []


async def test_only_one_of_two_attempts_settles(desk: Desk) -> None:
    """Goal: only the current attempt settles.

    Method: the first attempt is presumed dead, but continues after the second.
    """
    account = await desk.account(100)
    monitor: Monitor = await desk.monitor(account)
    first = await desk.lease(monitor)
    second = await desk.again(first)  # leased by the same node, so only the attempt numbers differ
    await desk.runs.run(second)
    await desk.runs.run(first)
    run = await desk.run_of(first.run.id)
    assert (run.status, run.attempt, run.credits_used) == ("ok", 2, 6)
    assert await desk.settled() == {f"{run.id}.2": 6}
    assert await desk.money(account) == (94, 0)
    assert (await desk.read(monitor)).runs_total == 1
    assert len(await desk.events(account)) == 1


async def test_next_attempt_refunds_the_interrupted_one(desk: Desk) -> None:
    account = await desk.account(100)
    monitor = await desk.monitor(account)
    lease = await desk.lease(monitor)
    recipe = desk.recipes.read(monitor.recipe, {})
    await desk.charges.take(charge_request(lease, recipe))
    assert await desk.money(account) == (94, 6)
    await desk.runs.run(await desk.again(lease))
    assert await desk.settled() == {f"{lease.run.id}.2": 6}
    assert await desk.money(account) == (94, 0)


async def test_run_is_abandoned_after_too_many_interrupted_attempts(desk: Desk) -> None:
    account = await desk.account(100)
    lease = await desk.lease(await desk.monitor(account))
    for _ in range(ATTEMPTS_MAX):
        lease = await desk.again(lease)
    await desk.runs.run(lease)
    run = await desk.run_of(lease.run.id)
    assert (run.status, run.skip_reason) == ("failed", GIVEN_UP)
    assert await desk.money(account) == (100, 0)


async def test_run_of_a_deleted_monitor_is_free(desk: Desk) -> None:
    account = await desk.account(100)
    lease = await desk.lease(await desk.monitor(account, hook="https://example.com/hook"))
    await desk.store.write(lambda tx: tx.run("DELETE FROM monitors"))
    await desk.runs.run(lease)
    assert await desk.money(account) == (100, 0)
    assert await desk.events(account) == []
    assert await desk.store.read(lambda tx: tx.all("SELECT * FROM runs")) == []


@pytest.mark.parametrize("came", [gathered({"stars": 101}), gathered({"stars": 7}, coverage=0.5), None])
async def test_run_cancelled_at_any_step_is_refunded_or_complete(quick: Desk, came: Gathered | None) -> None:
    """Goal: a run has one charge, one end and one event.

    Method: cancel it at each checkpoint, then run the next attempt.
    """
    account = await quick.account()
    monitor = await quick.monitor(account, rules=RISES, hook="https://example.com/hook")

    def answer(_recipe: object) -> Gathered:
        if came is None:
            raise UpstreamFailed("api", "the upstream answered 500")
        return came

    quick.recipes.answer = answer
    leases: list[RunLease] = []

    async def run() -> None:
        leases.append(await quick.lease(monitor, EPOCH + 3600.0 * len(leases)))
        await quick.runs.run(leases[-1])

    async def check(_has_finished: bool) -> None:
        await quick.assert_sound(account)
        runs = await quick.all_runs(monitor.id)
        active = [one for one in runs if one.status in ("pending", "running")]
        if active:  # interrupted before its end: returned to the queue, and completed by the next attempt
            assert [one.status for one in active] == ["pending"]
            await quick.runs.run(await quick.again(RunLease(active[0], monitor)))
        await quick.assert_sound(account)

    await cancel_everywhere(run, check)
    runs = await quick.all_runs(monitor.id)
    settled = await quick.settled()
    assert all(one.status == ("failed" if came is None else runs[0].status) for one in runs)
    assert sum(settled.values()) == sum(one.credits_used for one in runs)
    assert len(settled) == (0 if came is None else len(runs))
    events = [event["data"]["run_id"] for event in await quick.events(account) if "run_" in event["type"]]
    assert events == [one.id for one in runs]
    assert len(await quick.deliveries()) == (0 if came is None else len(runs))
    assert (await quick.read(monitor)).runs_total == len(runs)


@pytest.mark.parametrize("came", [gathered({"stars": 101}), None])
async def test_run_of_a_process_killed_at_any_step_is_charged_once(quick: Desk, came: Gathered | None) -> None:
    """Goal: a run is charged once and ends once.

    Method: the store becomes unreachable at each checkpoint in turn. Then another node continues.
    """
    account = await quick.account()
    monitor = await quick.monitor(account, rules=RISES, hook="https://example.com/hook")
    desks: list[Desk] = [quick]

    def answer(_recipe: object) -> Gathered:
        if came is None:
            raise UpstreamFailed("api", "the upstream answered 500")
        return came

    async def life() -> None:
        desk = Desk(quick.store, f"n{len(desks):03d}")
        desk.recipes.answer = answer
        desks.append(desk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(die_when_cancelled, quick)
            # The end of a run is shielded from the cancellation, but the store is unavailable.
            with suppress(StorageError):
                await desk.runs.run(await desk.lease(monitor, EPOCH + 3600.0 * len(desks)))
            nursery.cancel_scope.cancel()

    async def check(_has_finished: bool) -> None:
        quick.store.failing = None
        await recover(quick.store, now=quick.now)
        next_one = Desk(quick.store, f"m{len(desks):03d}")
        next_one.recipes.answer = answer
        for run in await quick.all_runs(monitor.id):
            if run.finished_at is None:
                await next_one.runs.run(await next_one.again(RunLease(run, monitor)))
        await next_one.assert_sound(account)

    await cancel_everywhere(life, check)
    runs = await quick.all_runs(monitor.id)
    settled = await quick.settled()
    assert all(run.status == ("failed" if came is None else "ok") for run in runs)
    assert sum(settled.values()) == sum(run.credits_used for run in runs)
    assert len(settled) == (0 if came is None else len(runs))
    events = [event["data"]["run_id"] for event in await quick.events(account) if "run_" in event["type"]]
    assert sorted(events) == sorted(run.id for run in runs)
    assert len(await quick.deliveries()) == (0 if came is None else len(runs))
    assert any(run.attempt > 1 for run in runs)


async def die_when_cancelled(desk: Desk) -> None:
    try:
        await trio.sleep_forever()
    finally:
        desk.store.failing = StoreUnavailable("this process is dead")
