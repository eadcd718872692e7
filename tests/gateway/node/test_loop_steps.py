"""No step of a node's event loop takes 50 ms, whatever a client or an upstream sends and however much data there is.

A whole node runs on a separate event loop, over real sockets, and the CPU time of each step is measured. Heavy work
runs in a thread or in small pieces, so that other requests are answered in the meantime. Each commit sends another
third of the costly bodies and pages; `SLUICE_WHOLE_MATRIX=1` sends all.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson
import pytest
import trio

import events.log.retention
import scheduler.retention
from billing.charges.batch_rows import Charge, ChargeRequest
from billing.keys.cache import Key
from events.log.log import Subject
from gateway.node.maintenance import forget_old_claims
from gateway.server.asgi import EXTENSION
from limits.gate import BalanceUpdate
from scheduler.retention import Retention
from storage.store import Tx
from tests.events.desk import alert
from tests.fakes.many_platforms import many_platforms
from tests.fakes.timed_node import TimedNode, open_timed_node
from tests.fakes.upstream_server import Peer, open_upstream_server, reply
from tests.gate.matrix import sample
from tests.gateway.docs.test_large_registry import FREE_READS, SEARCHES
from tests.hostile.bombs import MB, rows_of
from tests.hostile.test_bombs import shapes
from tests.servers.redis import RedisServer
from upstreams.fetching.aside import LONG_BYTES, LONG_FORM_BYTES

ROOMY = {"requests_per_minute": 1_000_000, "concurrent_requests": 20_000, "long_polls": 20_000}
REPOS = "github/profile/repos?handle=octocat"
BODY_BYTES = 1_000_000
DAY_S = 86_400.0


T = TypeVar("T")


def third_of(cases: Mapping[str, T]) -> tuple[tuple[str, T], ...]:
    return sample(cases.items(), share=3)


@asynccontextmanager
async def open_client(node: TimedNode) -> AsyncIterator[httpx.AsyncClient]:
    opened, headers = node.opened, {"x-api-key": node.opened.key}
    async with httpx.AsyncClient(timeout=60, verify=False, base_url=opened.url, headers=headers) as client:
        yield client


class Answer:
    """Holds the upstream's next response."""

    def __init__(self) -> None:
        self.bytes = b""

    def set_body(self, body: bytes, coding: str = "") -> None:
        """Set the body, plain or with a fast compression."""
        encoded = zlib.compress(body, 1) if coding else body
        self.bytes = reply(encoded, "Content-Type: application/json", *([f"Content-Encoding: {coding}"] * bool(coding)))

    async def script(self, peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(self.bytes)


LONG_BODIES = {
    "the most lists that are read in one step": rows_of(b"[]", 43_000),
    "the most rows that are read in one step": rows_of(b'{"id":1}', 14_000),
    "nearly JSON": b"[NaN" + b",1" * 60_000 + b"]",
    "the most references that are read in one step": b'{"hits":[{"text":"' + b"&#33;" * 25_000 + b'"}]}',
}
NOISY = orjson.dumps([{"id": at, "name": f"{at * 7919 % 1_000_003:x}" * 3} for at in range(37_000)])
"""The maximum number of values, which compress badly."""


async def test_upstream_bodies_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: every shape at the size limit of a read, plain and compressed; cache hits and replays of the largest."""
    answer = Answer()
    upstreams, breaker = {"defaults": {"retries": 0}}, {"failures": 1_000, "window_s": 60}
    async with open_upstream_server(answer.script) as upstream:
        opening = open_timed_node(tmp_path, egress=upstream.url, upstreams=upstreams, breaker=breaker, limits=ROOMY)
        async with opening as node, open_client(node) as client:
            fresh = {"cache-control": "no-cache"}
            lists = {**LONG_BODIES, "noisy": NOISY, "1,500,000 rows": rows_of(b"{}")}
            bodies = shapes() | {name: (REPOS, body) for name, body in lists.items()}
            for name, (target, body) in third_of(bodies):
                for coding in ("", "deflate") if len(body) < 8 * MB else ("deflate",):
                    answer.set_body(body, coding)
                    async with node.timed(f"{name} {coding}"):
                        assert (await client.get(f"/v1/{target}", headers=fresh)).status_code in (200, 404, 502)
            await readers_of_the_largest(node, client, answer)


async def readers_of_the_largest(node: TimedNode, client: httpx.AsyncClient, answer: Answer) -> None:
    answer.set_body(b'[{"id":1,"description":"' + b"x" * (8 * MB - 100) + b'"}]')
    async with node.timed("the largest response"):
        assert (await client.get(f"/v1/{REPOS}", headers={"cache-control": "no-cache"})).status_code == 200
    async with node.timed("eight readers of the largest response"), trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(client.get, f"/v1/{REPOS}")
    async with node.timed("a cache hit stored for replays"):
        hit = await client.get(f"/v1/{REPOS}", headers={"idempotency-key": "a"})
        assert hit.headers["x-cache"] == "HIT"
    answer.set_body(b'[{"id":1,"description":"' + b"x" * 60_000 + b'"}]')
    for _ in range(2):
        async with node.timed("the largest replay"):
            replay = await client.get(f"/v1/{REPOS}&limit=1", headers={"idempotency-key": "b"})
    assert replay.headers["x-idempotent-replay"] == "true"


MESSAGE = b'<div class="tgme_widget_message" data-post="durov/1">'
CHANNEL, FEED = "telegram/profile/posts?handle=durov", "podcasts/episodes?url=https://feeds.example.org/a"
PAGES_AND_FEEDS = {
    "nested messages": (CHANNEL, MESSAGE * 200),
    "messages": (CHANNEL, (MESSAGE + b"</div>") * 900),
    "an element with many attributes": (CHANNEL, b"<p " + b" ".join(b"a%d" % at for at in range(300_000))),
    "items": (FEED, b"<rss><channel>" + b"<item/>" * 9_900),
    "an item full of markup": (FEED, b"<rss><channel><item><description>" + b"&lt;p&gt;" * 100_000),
}


async def test_upstream_pages_and_feeds_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: each page or feed in full, and the longest beginning of each that is read on the loop."""
    answer = Answer()
    async with open_upstream_server(answer.script) as upstream:
        upstreams, breaker = {"defaults": {"retries": 0}}, {"failures": 1_000, "window_s": 60}
        opening = open_timed_node(tmp_path, egress=upstream.url, upstreams=upstreams, breaker=breaker, limits=ROOMY)
        async with opening as node, open_client(node) as client:
            for name, (target, body) in third_of(PAGES_AND_FEEDS):
                for most in (LONG_FORM_BYTES, LONG_BYTES, 8 * MB):
                    answer.set_body(body[:most])
                    async with node.timed(f"{name}, {most} bytes"):
                        got = await client.get(f"/v1/{target}", headers={"cache-control": "no-cache"})
                        assert got.status_code in (200, 404, 502)


OF_THE_WEB = {
    "a page of paragraphs": b"<p>Some words of a page, and a <a href='/x'>link</a>.</p>" * 160_000,
    "a page of one word": b"<p>" + b"x" * (9 * MB) + b"</p>",
    "a list of pages": b"<urlset>" + b"<url><loc>https://a.example.org/%d</loc></url>" * 150_000,
}


async def test_web_pages_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: pages of almost the maximum size in every format, four concurrently; long robots.txt and sitemaps."""
    answer = Answer()
    async with open_upstream_server(answer.script) as upstream:
        opening = open_timed_node(tmp_path, egress=upstream.url, upstreams={"defaults": {"retries": 0}}, limits=ROOMY)
        async with opening as node, open_client(node) as client:
            formats = "markdown,html,raw_html,links,text"
            targets = [f"scrape?formats={formats}&url=https://h{at}.example.org/" for at in range(4)]
            for name, body in third_of(OF_THE_WEB):
                answer.bytes = reply(body, "Content-Type: text/html")
                async with node.timed(name), trio.open_nursery() as nursery:
                    for target in (*targets, "map?url=https://a.example.org/&limit=5000"):
                        nursery.start_soon(
                            partial(client.get, f"/v1/web/{target}", headers={"cache-control": "no-cache"})
                        )


MONITOR = b'{"recipe":"github/profile","params":{"handle":"a"},"cadence":"daily",'
BODIES = {
    "numbers": b'{"name":[' + b",".join([b"1"] * 499_000) + b"]}",
    "large numbers": b'{"name":[' + b",".join([b"1e308"] * 166_000) + b"]}",
    "small numbers": b'{"name":[' + b",".join([b"5e-324"] * 142_000) + b"]}",
    "a long number": b'{"name":' + b"9" * 999_000 + b"}",
    "lists": b'{"name":[' + b",".join([b"[]"] * 333_000) + b"]}",
    "objects": b'{"name":[' + b",".join([b"{}"] * 333_000) + b"]}",
    "depth": b'{"name":' + b"[" * 499_000 + b"]" * 499_000 + b"}",
    "keys": b"{" + b",".join(b'"%x":0' % key for key in range(105_000)) + b"}",
    "escapes": b'{"name":"' + b"\\u0001" * 166_000 + b'"}',
    "escaped colons": b'{"name":"' + b"\\u003a" * 166_000 + b'"}',
    "escaped backslashes": b'{"name":"\\\\u003a' + b"\\\\" * 499_000 + b'"}',
    "one name": MONITOR[:-1] + b',"params":{' + b",".join([b'"a":0'] * 166_000) + b"}}",
    "not UTF-8": b'{"name":"' + b"\xff" * 999_000 + b'"}',
    "parameters": b'{"recipe":"github/profile","cadence":"daily","params":{'
    + b",".join(b'"%x":0' % key for key in range(100_000))
    + b"}}",
    "rules": MONITOR + b'"alert_rules":[' + b",".join([b"{}"] * 330_000) + b"]}",
    "metrics": MONITOR + b'"track":{"metrics":[' + b",".join([b'"a.b"'] * 160_000) + b"]}}",
}
QUERIES = {
    "pairs": "&".join(["a=1"] * 100),
    "names": "&".join(f"n{at}{'y' * 90}=1" for at in range(99)),
    "one name": "x" * 15_000 + "=1",
    "escapes": "query=" + "%25" * 5_000,
    "characters": "query=" + "%f0%9f%98%80" * 1_300,
    "ampersands": "&" * 15_000,
}
HEADERS = {
    "types": {"accept": "a," * 7_000},
    "directives": {"cache-control": "no-cache;q=0," * 1_100},
    "tags": {"if-none-match": '"a",' * 3_500},
    "a cookie": {"cookie": "a=b;" * 3_500},
}
PAGES = ("/docs/errors", "/docs/errors.md", "/docs/events", "/docs/events.md", "/llms.txt", "/v1/utility/endpoints")


async def test_requests_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: bodies of the maximum size, the longest queries and headers, pages and guides, metrics, a reload."""
    async with open_timed_node(tmp_path, limits=ROOMY) as node, open_client(node) as client:
        assert all(0.9 * BODY_BYTES < len(body) <= BODY_BYTES for body in BODIES.values())
        for name, body in third_of(BODIES):
            for path in ("/v1/monitors", "/v1/monitors/mon_1/backtest"):
                async with node.timed(f"a body of {name} to {path}"):
                    assert (await client.post(path, content=body)).status_code == 400
        for name, query in QUERIES.items():
            async with node.timed(f"a query of {name}"):
                assert (await client.get(f"/v1/hackernews/search?{query}")).status_code == 400
        for name, headers in HEADERS.items():
            async with node.timed(f"a header of {name}"):
                assert (await client.get("/v1/events", headers=headers)).status_code == 200
        for page in PAGES:
            async with node.timed(page):
                found = await client.get(page)
        async with node.timed("guides"):
            for endpoint in found.json()["data"]["endpoints"]:
                assert (await client.get("/v1/utility/endpoint", params={"id": endpoint["id"]})).status_code == 200
        async with node.timed("metrics"):
            assert (await client.get(f"{node.opened.admin_url}/metrics")).status_code == 200
        async with node.timed("a reload"):
            await node.call(partial(node.opened.operate, "reload"))


METRICS = [f"items[].repository.{name}" for name in ("stars", "forks", "open_issues", "size_kb")]
RULES = [{"metric": METRICS[at % 4], "op": "gt", "value": at} for at in range(20)]
ALERTS = orjson.dumps([{**RULES[0], "from": 1, "to": 2, "row_id": str(row)} for row in range(4_000)]).decode()
NUMBERS = zlib.compress(orjson.dumps({str(row): {f"{METRICS[0]}{at}": row for at in range(20)} for row in range(200)}))
NUMBERS_OF_RULES = zlib.compress(orjson.dumps({str(row): dict.fromkeys(METRICS, 100) for row in range(200)}))
ADD_RUN = """
INSERT INTO runs (id, monitor_id, account_id, scheduled_for, status, start_at, attempt, started_at, finished_at,
                  credits_used, legs, alerts, warnings, rows_count)
VALUES (?, ?, ?, ?, 'ok', ?, 1, ?, ?, 1, '[]', ?, '[]', 200)
"""
ADD_DATA = "INSERT INTO run_data (run_id, result, numbers, deltas, kept_at) VALUES (?, ?, ?, ?, ?)"
ADD_DELIVERY = """
INSERT INTO deliveries (id, run_id, monitor_id, account_id, host, body, status, attempts, created_at, failed_at)
VALUES (?, ?, ?, ?, 'a', 'b', 'failed', 60, ?, 1)
"""
ADD_ATTEMPT = "INSERT INTO attempts (delivery_id, number, at, error, latency_ms, answer) VALUES (?, ?, 1, 'x', 1, ?)"
COPY_MONITOR = """
INSERT INTO monitors (id, account_id, name, recipe, params, cadence, alert_rules, webhook_format, suppress, status,
                      rule_state, runs_total, credits_spent, created_at, updated_at, version)
VALUES (?, ?, 'a', 'github/profile', '{{"handle":"a"}}', '"daily"', ?, 'full', 0, 'paused', '{{}}', 0, 0, ?, 1, 0)
"""


def fill_the_past(tx: Tx, monitor: str, account: str) -> None:
    """Add a hundred runs with the maximum numbers of alerts and metrics, and deliveries with long responses."""
    for at in range(100):
        when = 1.7e9 + at * 3_600
        numbers = NUMBERS_OF_RULES if at % 2 else NUMBERS
        tx.run(ADD_RUN, (f"run_{at:03}", monitor, account, *[when] * 4, ALERTS))
        tx.run(ADD_DATA, (f"run_{at:03}", numbers, numbers, numbers, when))
    for at in range(25):
        tx.run(ADD_DELIVERY, (f"dlv_{at:03}", f"run_{at:03}", monitor, account, 1.7e9 + at))
        for number in range(1, 61):
            tx.run(ADD_ATTEMPT, (f"dlv_{at:03}", number, "\u00e9\x01" * 2_000))
    rules = orjson.dumps([{"metric": f"engagement{at}", "op": "gt", "value": at} for at in range(20)]).decode()
    for at in range(100):
        tx.run(COPY_MONITOR.replace("{{", "{").replace("}}", "}"), (f"mon_{at:03}", account, rules, 2e9 + at))


async def test_description_of_500_endpoints_does_not_block_the_loop(tmp_path: Path) -> None:
    """Method: many concurrent first reads, which fill the caches; then later reads of every kind."""
    reads = [*FREE_READS.values(), *SEARCHES.values()]
    async with open_timed_node(tmp_path, only=many_platforms(), limits=ROOMY) as node, open_client(node) as client:
        for target in reads:
            async with node.timed(f"first reads of {target}"), trio.open_nursery() as nursery:
                for coding in ("identity", "gzip", "br"):
                    nursery.start_soon(partial(client.get, target, headers={"accept-encoding": coding}))
        async with node.timed("later reads"), trio.open_nursery() as nursery:
            for target in reads:
                nursery.start_soon(client.get, target)


async def test_lists_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: the largest pages of every list of an account."""
    async with open_timed_node(tmp_path, limits=ROOMY) as node, open_client(node) as client:
        track = {"metrics": METRICS, "row_key": "repository.id", "max_rows": 200}
        body = {"recipe": "github/profile/repos", "cadence": "daily", "params": {"handle": "a"}, "alert_rules": RULES}
        made = (await client.post("/v1/monitors", json={**body, "track": track})).json()["monitor"]["id"]
        store = node.opened.node.stores.store
        await node.call(store.write, partial(fill_the_past, monitor=made, account=node.opened.account))
        pages = ["runs?limit=100", "runs?limit=100&include=result,numbers", "timeseries", "deliveries?limit=25"]
        pages += ["export", "export?format=ndjson", f"chart.svg?row=1&metric={METRICS[0]}"]
        for page in ("monitors?limit=100&status=all", *(f"monitors/{made}/{page}" for page in pages)):
            async with node.timed(page.replace(made, "...")):
                assert (await client.get(f"/v1/{page}")).status_code == 200
        async with node.timed("a backtest"):
            tried = await client.post(f"/v1/monitors/{made}/backtest", json={})
        assert tried.json()["data"]["alerts_fired"] > 1_000
        await append(node, 600)
        for page in ("events?limit=500&cursor=oldest", "credits/transactions?limit=100"):
            async with node.timed(page):
                assert (await client.get(f"/v1/{page}")).status_code == 200


async def append(node: TimedNode, count: int) -> None:
    """Append this many events to the account's feed."""
    stores, opened = node.opened.node.stores, node.opened
    fact = replace(alert(account_id=opened.account, key_id=opened.key_id), subject=Subject("run", "run_1", "n" * 200))
    await node.call(stores.store.write, lambda tx: stores.feed.append(tx, [fact] * count))


POLLS = 10_000


async def test_many_keys_polls_and_charges_do_not_block_the_loop(tmp_path: Path) -> None:
    """Method: tens of thousands of windows, cached keys and responses; polls that wait, wake and are ended."""
    async with open_timed_node(tmp_path, limits=ROOMY, server={"port": 0, "drain_s": 1, "shed": False}) as node:
        for case in (fill_windows, fill_caches, shrink_the_cache, charge_many):
            async with node.timed(case.__name__):
                await node.call(case, node)
        async with node.timed("metrics after all cases"), open_client(node) as client:
            assert (await client.get(f"{node.opened.admin_url}/metrics")).status_code == 200
        await poll_many(node)
        await append(node, 5_000)
        async with node.timed("maintenance"):
            await node.call(sweep_all, node)


async def fill_windows(node: TimedNode) -> None:
    """Fill the windows of a hundred thousand keys in steps. The sweep after one of the steps is measured."""
    window = node.opened.node.admission.gate.window  # type: ignore[attr-defined]  # it is a MemoryGate
    for first in range(0, 100_000, 1_000):
        for key in range(first, first + 1_000):
            window.admit(key, trio.current_time())
        await trio.lowlevel.checkpoint()


async def fill_caches(node: TimedNode) -> None:
    """Fill the caches of keys, rejected keys and balances to their limits, then empty them."""
    stores = node.opened.node.stores
    cache = stores.billing.keys._cache
    for first in range(0, 50_000, 1_000):
        for at in range(first, first + 1_000):
            cache.keep(f"a{at}", Key(f"key_{at}", f"acc_{at}", "", None), cache.begin_lookup())
            cache.keep(f"b{at}", "unknown", cache.begin_lookup())
            stores.billing.balances.observe(f"acc_{at}", BalanceUpdate(1, 1))
        await trio.lowlevel.checkpoint()
    stores.doubt()


async def shrink_the_cache(node: TimedNode) -> None:
    """Fill the cache with short responses, then shrink it as a reload does."""
    cache = node.opened.node.calls.cache
    for at in range(200_000):
        cache.put(b"%d" % at, b"", 600)
        if at % 1_000 == 0:
            await trio.lowlevel.checkpoint()
    cache.bytes_max = 1_000
    await trio.lowlevel.checkpoint()
    cache.put(b"a", b"", 600)


async def charge_many(node: TimedNode) -> None:
    """Take charges together, then settle them together."""
    opened, charges, taken = node.opened, node.opened.node.stores.billing.charges, list[Charge]()

    async def take(at: int) -> None:
        request = ChargeRequest(f"req_{at}", opened.account, opened.key_id, 1, "github", "/v1/github/profile")
        taken.append(await charges.take(request))

    async with trio.open_nursery() as nursery:
        for at in range(2_000):
            nursery.start_soon(take, at)
    for charge in taken:
        charges.settle_nowait(charge)
    await opened.node.stores.store.write(lambda _tx: None)


class Crowd:
    """Ten thousand polls on the node's loop, sent to the app directly.

    Few systems allow as many sockets.
    """

    def __init__(self, node: TimedNode) -> None:
        self.node = node
        self.answered: list[int] = []
        headers = [(b"x-api-key", node.opened.key.encode())]
        self._scope: Any = {"type": "http", "method": "GET", "path": "/v1/events", "headers": headers}
        self._scope |= {"query_string": b"wait_s=25&cursor=now", "extensions": {EXTENSION: {}}}

    async def send(self, message: Any) -> None:
        if "status" in message:
            self.answered.append(message["status"])
        await trio.lowlevel.checkpoint()

    async def park(self) -> None:
        """Poll until all are answered. Polls start in groups of five hundred."""
        nothing: Any = partial(trio.sleep, 60)
        async with trio.open_nursery() as nursery:
            for at in range(1, POLLS + 1):
                nursery.start_soon(self.node.opened.node.api, self._scope, nothing, self.send)
                if at % 500 == 0 and at < POLLS:  # the test waits for the last ones itself, and then wakes all
                    await self.wait_parked(at)

    async def wait_parked(self, count: int) -> None:
        while self.node.opened.node.feed.hub.parked() < count:  # noqa: ASYNC110 - the node sets no event
            await trio.sleep(0.01)


async def poll_many(node: TimedNode) -> None:
    """Let polls wait and wake them, then let them wait again and end them."""
    end_polls = partial(node.call, node.opened.node.feed.hub.close)
    for case, wake in (("woken", partial(append, node, 1)), ("ended", end_polls)):
        crowd = Crowd(node)
        async with node.timed(f"ten thousand polls {case}"), trio.open_nursery() as nursery:
            async with node.timed("ten thousand polls waiting"):
                nursery.start_soon(node.call, crowd.park)
                await node.call(crowd.wait_parked, POLLS)
            await wake()
        assert crowd.answered == [200] * POLLS


async def sweep_all(node: TimedNode) -> None:
    """Run every maintenance sweep far in the future, so that everything is removed."""
    store, log, later = node.opened.node.stores.store, node.opened.node.runtime.log, 4e9
    assert await events.log.retention.sweep(store, later, 1, pause_s=0) > 5_000
    await scheduler.retention.sweep(store, later, Retention(1, 1), pause_s=0)

    async def sweep_at() -> float:
        await trio.lowlevel.checkpoint()
        return later

    with trio.move_on_after(0.5):
        await forget_old_claims(store, log, sweep_at)


@pytest.mark.parametrize("size", [200_000, 250_000])
async def test_shared_responses_do_not_block_the_loop(size: int, empty_redis: RedisServer, tmp_path: Path) -> None:
    answer = Answer()
    async with open_upstream_server(answer.script) as upstream:
        opening = open_timed_node(tmp_path, egress=upstream.url, state={"url": empty_redis.url}, limits=ROOMY)
        async with opening as node, open_client(node) as client:
            answer.set_body(b'[{"id":1,"description":"' + b"\xc3\xa9" * (size // 2) + b'"}]')
            for case in ("a long response shared by all nodes", "the same response from Redis"):
                async with node.timed(case):
                    assert (await client.get(f"/v1/{REPOS}")).status_code == 200
                await node.call(forget, node)


async def forget(node: TimedNode) -> None:
    """Empty the node's own cache, so that only Redis has the response."""
    await trio.lowlevel.checkpoint()
    node.opened.node.calls.cache._entries.clear()
