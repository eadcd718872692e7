"""Web checks on the monitors' clock: which changes are reported, once each, and what the checks cost."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.payload import make_payload
from scheduler.monitors.runs.run_rows import RunLease
from scheduler.monitors.runs.runs import Runs
from scheduler.monitors.web.checks import compare, lines_of
from scheduler.monitors.web.watch import DAY_S, WebWatch
from scheduler.retention import Retention, sweep
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH, Desk
from tests.scheduler.stored import kept_data
from upstreams.model.errors import NotFound

PAGE = "https://example.com/shop"
HOOK = "https://receiver.example.com/hook"
LINES = st.lists(st.text("abc ", max_size=8), max_size=12)


def read(text: str) -> Any:
    return gathered({"page": {"content": {"text": text}}}, used_credits=1)


async def watched(desk: Desk, watch: WebWatch | None = None, *, credits: int = 1_000) -> tuple[str, Monitor]:  # noqa: A002
    """Create an account with a watch and its webhook. Each check's recipe costs 1 credit."""
    desk.recipes.credits_least = desk.recipes.credits_most = 1
    account = await desk.account(credits)
    chosen = watch or WebWatch("scrape", PAGE)
    plain = await desk.monitor(account, hook=HOOK)

    def make(tx: Any) -> None:
        tx.run("UPDATE monitors SET web = ?, recipe = ? WHERE id = ?", (chosen.stored(), chosen.recipe, plain.id))

    await desk.store.write(make)
    desk.runs = Runs((desk.store, desk.charges, desk.feed), desk.recipes, make_payload, desk.outbox, now=desk.now)
    return account, await desk.read(plain)


async def check(desk: Desk, monitor: Monitor, text: str, place: int) -> tuple[Run, dict[str, Any]]:
    """Run one check that reads this text, and return its stored data."""
    desk.recipes.answer = lambda _recipe: read(text)
    run = await desk.ran(monitor, EPOCH + 3_600.0 * place)
    data = await desk.store.read(lambda tx: kept_data(tx, run.id))
    return run, orjson.loads(data.deltas or b"{}")


async def test_change_sends_an_event_and_a_delivery(desk: Desk) -> None:
    account, monitor = await watched(desk)
    first, kept = await check(desk, monitor, "Bread\nNow 14 euros", 0)
    assert (first.status, first.credits_used, kept["first"], kept["changed"]) == ("ok", 2, True, False)
    _, same = await check(desk, monitor, "Bread\n\n  Now 14  euros ", 1)
    assert (same["changed"], same["similarity"]) == (False, 1.0)
    assert (await desk.events(account), await desk.deliveries()) == ([], [])
    changed, told = await check(desk, monitor, "Bread\nNow 12 euros", 2)
    assert (told["added"], told["removed"], told["similarity"]) == (["Now 12 euros"], ["Now 14 euros"], 0.75)
    (event,) = await desk.events(account)
    assert (event["type"], event["data"]["check_id"], event["data"]["lines_added"]) == ("web.changed", changed.id, 1)
    assert "euros" not in orjson.dumps(event["data"]).decode(), "events hold counts and ids only"
    ((run_id, host, body, status),) = await desk.deliveries()
    assert (run_id, host, status) == (changed.id, "receiver.example.com", "queued")
    delivered = orjson.loads(body)
    assert (delivered["check_id"], delivered["added"], delivered["url"]) == (changed.id, ["Now 12 euros"], PAGE)
    _, after = await check(desk, monitor, "Bread\nNow 12 euros", 3)
    assert after["changed"] is False
    assert await desk.money(account) == (1_000 - 4 * 2, 0)


async def test_small_differences_add_up_to_a_change(quick: Desk) -> None:
    words = [f"word{place}" for place in range(100)]
    account, monitor = await watched(quick, WebWatch("scrape", PAGE, threshold=0.025))
    told = []
    for place in range(8):
        words[place] = f"other{place}"
        _, kept = await check(quick, monitor, " ".join(words), place)
        told.append(kept["changed"])
    assert told == [False, False, False, True, False, False, True, False]
    assert [event["type"] for event in await quick.events(account)] == ["web.changed"] * 2


async def test_failed_check_is_free_reported_and_not_a_baseline(quick: Desk) -> None:
    account, monitor = await watched(quick)
    await check(quick, monitor, "Bread", 0)

    def gone(_recipe: object) -> Any:
        raise NotFound("robots.txt forbids the page", reason="robots_disallowed")

    quick.recipes.answer = gone
    failed = await quick.ran(monitor, EPOCH + 3_600.0)
    empty, _ = await check(quick, monitor, "   ", 2)
    assert [(one.status, one.credits_used) for one in (failed, empty)] == [("failed", 0), ("failed", 0)]
    _, back = await check(quick, monitor, "Bread", 3)
    assert back["similarity"] == 1.0
    events = await quick.events(account)
    assert [(one["type"], one["data"]["skip_reason"]) for one in events] == [
        ("web.check_failed", "robots_disallowed"),
        ("web.check_failed", "no_text"),
    ]
    assert await quick.money(account) == (1_000 - 4, 0)


async def test_check_without_credits_is_skipped_and_reported(quick: Desk) -> None:
    account, monitor = await watched(quick, credits=3)
    await check(quick, monitor, "Bread", 0)
    skipped, _ = await check(quick, monitor, "Rolls", 1)
    assert (skipped.status, skipped.skip_reason) == ("skipped", "insufficient_credits")
    assert [one["data"]["status"] for one in await quick.events(account)] == ["skipped"]


async def test_search_results_are_compared_by_title_and_url(quick: Desk) -> None:
    _, monitor = await watched(quick, WebWatch("search", query="bread"))

    def results(*names: str) -> Any:
        rows = [{"page": {"url": f"https://{one}.example/", "metadata": {"title": one}}} for one in names]
        return gathered({"items": rows}, used_credits=1)

    told = []
    for place, names in enumerate((("a", "b"), ("b", "a"), ("b", "c"), ())):
        quick.recipes.answer = lambda _recipe, names=names: results(*names)
        run = await quick.ran(monitor, EPOCH + 3_600.0 * place)
        data = await quick.store.read(lambda tx, run=run: kept_data(tx, run.id))
        told.append(orjson.loads(data.deltas or b"{}"))
    assert [one["changed"] for one in told] == [False, False, True, True]
    assert (told[2]["added"], told[2]["removed"]) == (["c https://c.example/"], ["a https://a.example/"])


async def test_each_change_is_reported_once_despite_interruptions(quick: Desk) -> None:
    """Goal: each change is reported once, and charges are exact.

    Method: cancel every check at each step, then retry it.
    """
    account, monitor = await watched(quick)
    prices = ["10"]

    async def run() -> None:
        quick.recipes.answer = lambda _recipe: read(f"Bread\nNow {prices[-1]} euros")
        lease = await quick.lease(monitor, EPOCH + 3_600.0 * len(prices))
        prices.append(str(10 + len(prices)))
        await quick.runs.run(lease)

    async def sound(_has_finished: bool) -> None:
        for one in await quick.all_runs(monitor.id):
            if one.status in ("pending", "running"):
                assert one.status == "pending"
                latest = await quick.read(monitor)
                await quick.runs.run(await quick.again(RunLease(one, latest)))
        await quick.assert_sound(account)

    await cancel_everywhere(run, sound)
    runs = await quick.all_runs(monitor.id)
    assert len(runs) > 5
    assert {one.status for one in runs} == {"ok"}
    assert sum((await quick.settled()).values()) == 2 * len(runs)
    changes = [one["data"]["check_id"] for one in await quick.events(account)]
    assert changes == [row[0] for row in await quick.deliveries()]
    assert len(changes) == len(set(changes)) == len(runs) - 1, "all checks except the first one"


async def test_changes_are_reported_exactly_when_words_differ(quick: Desk) -> None:
    """Goal: no change is missed or invented. Method: compare random edits with a model of the last reported text."""
    random, (account, monitor) = Random(7), await watched(quick)
    lines = [f"line {place} of the page" for place in range(20)]
    last, expected, changed = sorted(" ".join(lines).split()), 0, []
    for place in range(60):
        match random.randrange(5):
            case 0:
                random.shuffle(lines)
            case 1:
                lines[random.randrange(len(lines))] = f"another line, {random.randrange(50)}"
            case 2:
                lines.insert(random.randrange(len(lines)), "   ")
            case 3 if len(lines) > 5:
                lines.pop()
        _, kept = await check(quick, monitor, "\n".join(lines), place)
        words = sorted(" ".join(lines).replace(",", " ,").split())
        expected += place > 0 and words != last
        changed.append(kept["changed"])
        last = words if place == 0 or words != last else last
    assert sum(changed) == expected > 10
    assert len(await quick.events(account)) == expected


async def test_old_checks_are_deleted_except_the_baseline(quick: Desk) -> None:
    _, monitor = await watched(quick, WebWatch("scrape", PAGE, retention_days=2))
    for place in range(4):
        quick.time = EPOCH + place * DAY_S
        await check(quick, monitor, "Bread" if place < 1 else "Rolls", place)
    quick.time = EPOCH + 5.5 * DAY_S
    await quick.store.write(lambda tx: tx.run("UPDATE deliveries SET status = 'failed', next_at = NULL, failed_at = 0"))
    await sweep(quick.store, quick.time, Retention(runs_days=400, results_days=1), pause_s=0.0)
    runs = await quick.all_runs(monitor.id)
    assert [(one.finished_at or 0.0) - EPOCH for one in runs] == [DAY_S]
    assert (await quick.read(monitor)).baseline_run_id == runs[0].id


@given(before=LINES, after=LINES)
def test_added_and_removed_lines_transform_the_text(before: list[str], after: list[str]) -> None:
    old, new = lines_of("\n".join(before)), lines_of("\n".join(after))
    found = compare(old, new)
    kept = list(old)
    for line in found.removed:
        kept.remove(line)
    assert sorted([*kept, *found.added]) == sorted(new)
    assert 0.0 <= found.similarity <= 1.0
    assert compare(new, old).similarity == found.similarity
    if sorted(old) == sorted(new):
        assert (found.added, found.removed, found.similarity) == ((), (), 1.0)
