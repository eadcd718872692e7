"""Free responses stored under idempotency keys do not make the store grow (a real node and store)."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.fakes.node import open_test_node
from tests.fakes.outsider import open_outsider
from tests.fakes.scripted_upstream import json_answer
from tests.fakes.stores import engine, store_at

PROFILE = "/v1/github/profile?handle=octocat"
ROOMY = {"requests_per_minute": 100_000, "concurrent_requests": 1000}
HITS = 600
GROWTH_BYTES_MAX = 5_000_000


def stored_bytes(file: Path) -> int:
    """Return the size of the store on disk, after a checkpoint of its write-ahead log."""
    with open_outsider(store_at(file)) as store:
        if engine() != "sqlite":
            return int(next(iter(store.run("SELECT pg_database_size(current_database())")))[0])
        store.run("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(one.stat().st_size for one in file.parent.glob(f"{file.name}*"))


async def test_large_response_is_stored_once_for_free_hits_under_new_keys(tmp_path: Path) -> None:
    bio = " ".join(f"word{number}" for number in range(6_600))
    async with open_test_node(tmp_path, limits=ROOMY) as node:
        node.upstream.script = lambda _asked: json_answer({"id": 1, "login": "octocat", "bio": bio})
        paid = await node.get(PROFILE)
        assert 56_000 < len(paid.body) < 64_000
        before = await trio.to_thread.run_sync(stored_bytes, tmp_path / "sluice.db")
        for number in range(HITS):
            hit = await node.get(PROFILE, headers={"idempotency-key": f"fresh-{number}"})
            assert (hit.status, hit.json["credits_used"], hit.json["cached"]) == (200, 0, True)
        await node.money()
        grown = await trio.to_thread.run_sync(stored_bytes, tmp_path / "sluice.db") - before
        assert grown < GROWTH_BYTES_MAX, f"{HITS} free responses grew the store by {grown} bytes"
        replay = await node.get(PROFILE, headers={"idempotency-key": "fresh-0"})
        assert replay.headers["x-idempotent-replay"] == "true"
        assert replay.json["data"] == paid.json["data"]
