"""A node with job webhooks under repeated SIGKILL: the end of each job is delivered once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import orjson
import trio

from tests.crash.lives import ENVIRON, settle, start, verified
from tests.fakes.outsider import open_outsider
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.fakes.upstream_server import UpstreamServer, always, open_upstream_server, reply
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place

KILLS: Final = 8
SECRET: Final = "a secret of my own"
LEFT: Final = (
    "SELECT (SELECT COUNT(*) FROM jobs WHERE finished_at IS NULL) "
    "+ (SELECT COUNT(*) FROM deliveries WHERE status = 'queued')"
)
"""Counts the jobs that have not ended and the deliveries that have not arrived."""
HTML: Final = {"content-type": "text/html"}
BODY: Final = b"<html><title>A page</title><body><main><p>It has a text that is long enough.</p></main></body></html>"


def page(asked: str) -> ScriptedAnswer:
    """Serve a page at each address, without a robots file."""
    return ScriptedAnswer(404, b"", HTML) if asked.endswith("robots.txt") else ScriptedAnswer(200, BODY, HTML)


async def test_each_job_end_is_delivered_once_if_its_node_is_killed(tmp_path: Path, commands: Commands) -> None:
    """Goal: at any SIGKILL, a job that has ended has one delivery, which arrives; other jobs have none."""
    rng, begun = Random(7), list[str]()
    upstream = Upstream()
    upstream.script = page
    with trio.fail_after(240), open_fleet(commands) as fleet:
        async with open_upstream(upstream) as egress, open_upstream_server(always(reply(b"taken"))) as receiver:
            place = Place(tmp_path, commands, ENVIRON)
            place.configure(
                webhooks={"allow_insecure_targets": True, "backoff_s": [0.2] * 5, "timeout_s": 1},
                upstreams={"egress": egress},
                limits={"requests_per_minute": 1_000_000},
            )
            account = place.json_of("account", "create", "--name", "t", "--plan", "enterprise", "--credits", "1000")[
                "id"
            ]
            key = place.json_of("key", "create", "--account", account)["key"]
            for _ in range(KILLS):
                begun += await _killed(place, fleet, receiver, key, rng)
                _check(place)
            await settle(place, fleet, LEFT)
            told = {job["job_id"]: job for job in (verified(one, SECRET) for one in receiver.requests)}
    assert set(begun) <= set(told), "the end of each confirmed job was delivered"
    assert {job["status"] for job in told.values()} == {"completed"}
    _check(place)


async def _killed(place: Place, fleet: Fleet, receiver: UpstreamServer, key: str, rng: Random) -> list[str]:
    """Run one process of a node, killed at any moment after a few jobs. Return the jobs that were started."""
    node = start(place, fleet)
    url = (await node.listening())["url"]
    begun = list[str]()
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": key}, timeout=30) as client:
        for number in range(rng.randrange(2, 5)):
            made = await client.post("/v1/web/batch-scrape", content=orjson.dumps(_batch(receiver, number)))
            assert made.status_code == 202, made.content
            begun.append(made.json()["data"]["job_id"])
            await trio.sleep(rng.random() * 0.3)
        await trio.sleep(rng.random() * 0.8)
        fleet.kill(node)
    return begun


def _batch(receiver: UpstreamServer, number: int) -> dict[str, Any]:
    urls = [f"https://h{number}.example.com/{place}" for place in range(2)]
    return {"urls": urls, "webhook_url": f"{receiver.url}/hook", "webhook_secret": SECRET}


def _check(place: Place) -> None:
    """Check that the end of a job and its delivery were one transaction: each ended job has exactly one delivery."""
    sql = """
        SELECT jobs.id, jobs.finished_at IS NOT NULL,
               (SELECT COUNT(*) FROM deliveries WHERE deliveries.monitor_id = jobs.id) FROM jobs
    """
    with open_outsider(place.store_url) as store:
        assert [row for row in store.run(sql) if int(row[1]) != row[2]] == []
