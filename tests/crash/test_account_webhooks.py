"""A node with account webhooks under repeated SIGKILL: each event is in exactly one batch, which is delivered."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import httpx
import orjson
import trio

from tests.crash.lives import ENVIRON, settle, start, verified
from tests.fakes.outsider import open_outsider
from tests.fakes.upstream_server import UpstreamServer, always, open_upstream_server, reply
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place

KILLS: Final = 8
SECRET: Final = "a secret of my own"
LEFT: Final = (
    "SELECT (SELECT COUNT(*) FROM runs WHERE finished_at IS NULL) "
    "+ (SELECT COUNT(*) FROM deliveries WHERE status = 'queued') "
    "+ (SELECT COUNT(*) FROM account_webhooks JOIN feeds ON feeds.account_id = account_webhooks.account_id "
    "WHERE feeds.last_pos > account_webhooks.pos)"
)
"""Counts the runs, batches and deliveries that have not ended."""
MONITOR: Final = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "daily",
    "run_now": True,
    "track": {"metrics": ["author.followers"]},
}
"""A Monitor whose run fails for free, because there is no upstream. The feed reports the failure."""


async def test_each_event_of_a_killed_node_is_delivered_in_one_batch(tmp_path: Path, commands: Commands) -> None:
    """Goal: at any SIGKILL, no event is lost or queued twice, and batches are in the order of the feed."""
    rng = Random(11)
    with trio.fail_after(240), open_fleet(commands) as fleet:
        async with open_upstream_server(always(reply(b"taken"))) as receiver:
            place = Place(tmp_path, commands, ENVIRON)
            place.configure(
                webhooks={"allow_insecure_targets": True, "backoff_s": [0.2] * 5, "timeout_s": 1},
                upstreams={"egress": "http://127.0.0.1:9", "defaults": {"retries": 0, "timeout_s": 1}},
                limits={"requests_per_minute": 1_000_000},
            )
            account = place.json_of("account", "create", "--name", "t", "--plan", "enterprise", "--credits", "1000")[
                "id"
            ]
            key = place.json_of("key", "create", "--account", account)["key"]
            for life in range(KILLS):
                await _killed(place, fleet, receiver, key, rng, is_first=life == 0)
            await settle(place, fleet, LEFT)
            received = [verified(request, SECRET) for request in receiver.requests]
    with open_outsider(place.store_url) as store:
        happened = [id_ for (id_,) in store.run("SELECT id FROM events WHERE account_id = ? ORDER BY pos", account)]
    batches = {batch["id"]: [event["id"] for event in batch["events"]] for batch in received}
    assert len(happened) >= KILLS * 3, "the node was killed while events were written"
    assert [event for _, events in sorted(batches.items()) for event in events] == happened
    for batch in received:
        assert [event["id"] for event in batch["events"]] == batches[batch["id"]], "repeated with the same bytes"


async def _killed(
    place: Place, fleet: Fleet, receiver: UpstreamServer, key: str, rng: Random, *, is_first: bool
) -> None:
    """Run one process of a node with Monitors, killed at any moment after a few runs."""
    node = start(place, fleet)
    url = (await node.listening())["url"]
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": key}, timeout=30) as client:
        if is_first:
            body = {"url": f"{receiver.url}/hook", "types": ["*"], "secret": SECRET}
            made = await client.post("/v1/webhooks", content=orjson.dumps(body))
            assert made.status_code == 201, made.content
        for _ in range(rng.randrange(3, 8)):
            made = await client.post("/v1/monitors", content=orjson.dumps(MONITOR))
            assert made.status_code == 201, made.content
            await trio.sleep(rng.random() * 0.15)
        await trio.sleep(rng.random() * 0.6)
        fleet.kill(node)
