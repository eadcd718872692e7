"""Helpers that append events to a node's feed and read it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import trio
from msgspec.structs import asdict

from events.log.kinds import (
    KINDS,
    AccountWebhookPaused,
    CreditsLow,
    DiscoverCounts,
    DiscoverCredits,
    DiscoverLegs,
    DiscoverNewCounts,
    DiscoverNewRows,
    DiscoverRun,
    KeyRevoked,
    MonitorAlert,
    WebChange,
    WebCheckFailed,
)
from events.log.log import Fact, Subject
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode
from tests.fakes.upstream_server import until

FEED = "/v1/events"
CONSUMERS = f"{FEED}/consumers"
DISCOVER = DiscoverRun(
    run_id="dr_1",
    status="completed",
    stopped_because=None,
    counts=DiscoverCounts(
        legs=DiscoverLegs(planned=3, done=1, empty=1, failed=1, skipped=0, pending=0),
        rows_kept=12,
    ),
    credits=DiscoverCredits(spent=3),
    version=7,
    schedule_id="ds_1",
)
NEW_ROWS = DiscoverNewRows(
    **{
        **asdict(DISCOVER),
        "counts": DiscoverNewCounts(legs=DISCOVER.counts.legs, rows_kept=12, rows_new=5),
    }
)


def revoked(account: str, number: int = 0) -> Fact:
    """Return an event that every key of the account sees."""
    data = KeyRevoked(key_id=f"key_{number}", last4="abcd")
    return Fact(account, "key.revoked", Subject("key", f"key_{number}", "mine"), data)


def low(account: str) -> Fact:
    """Return an event of another type that every key of the account sees."""
    data = CreditsLow(
        balance=20, held=1, pack_credits=100, threshold_credits=20, credits_per_day=None, exhausted_at=None
    )
    return Fact(account, "credits.low", Subject("account", account), data)


def alert(account: str, key_id: str, run: str = "run_1", monitor: str = "mon_1") -> Fact:
    """Return an event about an object that the key created."""
    data = MonitorAlert(monitor_id=monitor, run_id=run, scheduled_for="2026-01-01T00:00:00Z", alerts_fired=1)
    return Fact(account, "monitor.alert_fired", Subject("run", run), data, key_id=key_id, parent_id=monitor)


def discovered(account: str, key_id: str | None, type_: str = "discover.completed") -> Fact:
    """Return a discover run's event."""
    links = {name: f"/v1/prism/discover/runs/dr_1{path}" for name, path in _LINKS.items()}
    data = DISCOVER if KINDS[type_].data is DiscoverRun else NEW_ROWS
    return Fact(account, type_, Subject("discover_run", "dr_1"), data, key_id=key_id, parent_id="ds_1", links=links)


def checked(account: str, key_id: str | None) -> tuple[Fact, Fact]:
    """Return the events of two checks of a web monitor: one that found a change, and one that failed."""
    at, subject = "2026-01-31T12:00:00.000Z", Subject("web_check", "run_1", "Bread")
    change = WebChange(
        monitor_id="wm_1",
        check_id="run_1",
        scheduled_for=at,
        similarity_percent=90,
        lines_added=1,
        lines_removed=1,
        credits_spent=2,
    )
    failure = WebCheckFailed(monitor_id="wm_1", check_id="run_1", status="failed", scheduled_for=at, skip_reason="gone")
    both = (("web.changed", change), ("web.check_failed", failure))
    one, other = (Fact(account, type_, subject, data, key_id=key_id, parent_id="wm_1") for type_, data in both)
    return one, other


def hook_paused(account: str) -> Fact:
    """Return the event of a paused account webhook."""
    data = AccountWebhookPaused(webhook_id="wh_1", delivery_id="whd_1", failures_in_a_row=10)
    return Fact(account, "webhook.paused", Subject("webhook", "wh_1"), data)


_LINKS = {"run": "", "results": "/results.jsonl", "changes": "?changes_since=6"}


async def append(node: OpenNode, *facts: Fact) -> None:
    """Append events in one transaction, as their producers do."""
    await node.node.stores.store.write(lambda tx: node.node.stores.feed.append(tx, facts))


async def append_some(node: OpenNode, count: int, first: int = 0) -> None:
    """Append this many events of the node's account."""
    await append(node, *[revoked(node.account, number) for number in range(first, first + count)])


async def post(
    node: OpenNode, target: str, body: Any, *, key: str = "", headers: Mapping[str, str] | None = None
) -> Answered:
    """Send a POST with this body: bytes unchanged, anything else as JSON."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    own = {"x-api-key": key or node.key, **(headers or {})}
    answer = await node.client.post(node.url + target, content=content, headers=own)
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def ack(node: OpenNode, name: str, cursor: str, key: str = "") -> Answered:
    """Acknowledge events up to `cursor` for a consumer."""
    return await post(node, f"{CONSUMERS}/{name}/ack", {"cursor": cursor}, key=key)


async def page(node: OpenNode, query: str = "", *, key: str = "") -> Any:
    """Return the envelope of a successful read."""
    answer = await node.get(f"{FEED}?{query}".removesuffix("?"), key=key)
    assert answer.status == 200, answer.body
    return answer.json


def subjects(body: Any) -> list[str]:
    """Return the subjects of a page's events, in order."""
    return [item["subject"]["id"] for item in body["data"]["items"]]


def cursor_of(body: Any) -> str:
    """Return the cursor at the end of a page."""
    cursor = body["pagination"]["next_cursor"]
    assert isinstance(cursor, str)
    return cursor


async def end(node: OpenNode) -> str:
    """Return the cursor at the end of the log."""
    return cursor_of(await page(node, "cursor=now"))


@asynccontextmanager
async def polling(node: OpenNode, query: str, **more: Any) -> AsyncIterator[Callable[[], Awaitable[Answered]]]:
    """A long-poll that is parked when the block begins. Call the result to wait for its response."""
    answers: list[Answered] = []
    done = trio.Event()
    parked = node.node.feed.hub.parked()

    async def poll() -> None:
        answers.append(await node.get(f"{FEED}?{query}", **more))
        done.set()

    async def answer() -> Answered:
        await done.wait()
        return answers[0]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        await until(lambda: node.node.feed.hub.parked() > parked or answers)
        yield answer
        nursery.cancel_scope.cancel()


async def drop_before(node: OpenNode, first_pos: int) -> None:
    """Remove the events before a position in one step, as retention does."""
    where = (node.account, first_pos)

    def drop(tx: Any) -> None:
        tx.run("DELETE FROM events WHERE account_id = ? AND pos < ?", where)
        tx.run(
            """
            UPDATE feeds SET first_pos = ?, first_at = COALESCE((SELECT created_at FROM events
                WHERE events.account_id = feeds.account_id AND pos = ?), last_at) WHERE account_id = ?
            """,
            (first_pos, first_pos, node.account),
        )

    await node.node.stores.store.write(drop)
