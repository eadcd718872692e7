"""Monitors of a node, created and read over HTTP, and past runs inserted as if they had happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from scheduler.monitors.metrics.numbers import Numbers, deltas_of, plain_deltas
from scheduler.monitors.model.records import Run, RunData
from scheduler.monitors.runs import run_rows
from storage.store import Tx
from tests.fakes.calling import Answered
from tests.fakes.feeding import post
from tests.fakes.node import OpenNode

MONITORS = "/v1/monitors"
FIRST = 1_800_000_000.0
"""The slot of the first past run: 2027-01-15T08:00:00Z."""
HOUR_S = 3600.0
FOLLOWERS = "author.followers"
COMMENTS, LIKES = "items[].post.engagement.comments", "items[].post.engagement.likes"
HOOKED: Mapping[str, Any] = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "daily",
    "webhook_url": "https://example.com/hook",
}
TRACKED: Mapping[str, Any] = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "hourly",
    "track": {"metrics": [FOLLOWERS, "author.following"]},
}
POSTS: Mapping[str, Any] = {
    "recipe": "github/search",
    "params": {"query": "trio"},
    "cadence": "hourly",
    "track": {"metrics": [LIKES, COMMENTS]},
}


async def make(node: OpenNode, body: Mapping[str, Any] = TRACKED, *, key: str = "", **more: Any) -> Any:
    """Return the response to a successful create, with `monitor` and `webhook_secret`."""
    answer = await post(node, MONITORS, {**body, **more}, key=key)
    assert answer.status == 201, answer.body
    return answer.json


async def made(node: OpenNode, body: Mapping[str, Any] = TRACKED, **more: Any) -> str:
    """Return the id of a new monitor."""
    id_: str = (await make(node, body, **more))["monitor"]["id"]
    return id_


async def patch(node: OpenNode, monitor_id: str, key: str = "", **fields: Any) -> Answered:
    """Change a monitor."""
    answer = await node.client.patch(
        f"{node.url}{MONITORS}/{monitor_id}", content=orjson.dumps(fields), headers={"x-api-key": key or node.key}
    )
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def listed(node: OpenNode, query: str = "status=all", *, key: str = "") -> list[str]:
    """Return the ids of a page of monitors."""
    return [item["id"] for item in (await node.get(f"{MONITORS}?{query}", key=key)).json["data"]["items"]]


async def ran(
    node: OpenNode,
    monitor_id: str,
    each: Sequence[Numbers],
    *,
    alerts: Mapping[int, Sequence[Mapping[str, Any]]] | None = None,
    status: str = "ok",
    plain: bool = False,
    first: float = FIRST,
) -> None:
    """Insert past runs of a monitor, one per hour.

    `alerts` has the alerts of each run, by run number. `plain` applies to all other runs.
    """
    fired = alerts or {}
    before: list[Numbers | None] = [None, *each]

    def add(tx: Tx) -> None:
        for place, numbers in enumerate(each):
            at = first + place * HOUR_S
            run = Run(
                f"run_{monitor_id[-4:]}_{int(at)}",
                monitor_id,
                node.account,
                at,
                status,  # type: ignore[arg-type]  # one of the words that a test means
                at,
                started_at=at,
                finished_at=at + 1.0,
                alerts=orjson.dumps(fired.get(place, [])).decode(),
                skip_reason="no_tracked_value" if status == "failed" else None,
            )
            run_rows.add_runs(tx, [run])
            if status != "failed":
                run_rows.add_data(tx, run.id, _data(before[place], numbers, plain=plain), at=at + 1.0)

    await node.node.stores.store.write(add)


def _data(prev: Numbers | None, cur: Numbers, *, plain: bool) -> RunData:
    if plain:
        deltas: Any = plain_deltas(None if prev is None else prev.get("_"), cur.get("_", {}))
    else:
        found = deltas_of(prev, cur)
        deltas = None if found is None else found.to_json()
    return RunData(b'{"kept":true}', orjson.dumps(cur), None if deltas is None else orjson.dumps(deltas))
