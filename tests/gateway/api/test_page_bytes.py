"""Pages of long rows end at a size limit in bytes, and their cursors neither lose nor repeat a row."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from scheduler.packing import PAGE_BYTES, PIECE_BYTES
from storage.store import Tx
from tests.fakes.long_jobs import JOB_ID, rows_of_job
from tests.fakes.node import OpenNode, open_test_node
from tests.gate.matrix import sample
from tests.gateway.api.routes.asking import answered, ask
from tests.gateway.api.routes.discover.algolia import Algolia

pytestmark = pytest.mark.critical
RESULTS = f"/v1/web/jobs/{JOB_ID}/results"
AROUND_BYTES = 2_000
"""The bytes that a response or a row has in addition to its stored content."""


def sizes_of(rng: Random, count: int) -> list[int]:
    """Return sizes around the limits of a piece and of a page."""
    chosen = (10, 5_000, PIECE_BYTES - 100, PIECE_BYTES, PAGE_BYTES // 2, PAGE_BYTES - 50, PAGE_BYTES, PAGE_BYTES + 9)
    return [rng.choice(chosen) for _ in range(count)]


def marks_of(row: dict[str, Any]) -> tuple[int, int]:
    return row["number"], len(row["page"]["content"]["markdown"])


@pytest.mark.parametrize("seed", sample(range(6)))
async def test_result_pages_contain_each_row_once_within_the_byte_limit(node: OpenNode, seed: int) -> None:
    rng = Random(seed)
    sizes = sizes_of(rng, 14)

    def store(tx: Tx) -> None:
        for sql, params in rows_of_job(node.account, sizes):
            tx.run(sql, params)

    await node.node.stores.store.write(store)
    expected = list(enumerate(sizes, 1))
    found, cursor = list[tuple[int, int]](), ""
    while True:
        answer = await answered(node, "GET", f"{RESULTS}?limit={rng.choice((1, 3, 100))}{cursor}")
        page = answer.json()
        rows = [marks_of(row) for row in page["data"]["items"]]
        assert rows, "every page has at least one row"
        assert len(rows) == 1 or len(answer.content) < PAGE_BYTES + AROUND_BYTES * len(rows)
        assert page["pagination"]["page_size"] == len(rows)
        found += rows
        if not page["pagination"]["has_more"]:
            break
        cursor = f"&cursor={page['pagination']['next_cursor']}"
    assert found == expected
    lines = (await node.get(f"{RESULTS}.jsonl")).body.splitlines()
    assert [marks_of(orjson.loads(line)) for line in lines] == expected


async def test_run_changes_contain_each_row_once_within_the_byte_limit(tmp_path: Path) -> None:
    rng, runs = Random(1), "/v1/prism/discover/runs"
    async with open_test_node(tmp_path, credits=500) as node:
        node.upstream.script = Algolia({"trio": range(16)}).answer
        body = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 20}
        _, begun = await ask(node, "POST", runs, body)
        run_id = begun["data"]["run_id"]
        before = (await node.get(f"{runs}/{run_id}/results.jsonl")).body.splitlines()
        ids = [orjson.loads(line)["row_id"] for line in before]
        sizes = dict(zip(ids, sizes_of(rng, len(ids)), strict=True))

        def lengthen(tx: Tx) -> None:
            for row_id, size in sizes.items():
                record = zlib.compress(orjson.dumps({"post": {"id": row_id, "text": "x" * size}}))
                tx.run("UPDATE discover_rows SET record = ? WHERE run_id = ? AND row_id = ?", (record, run_id, row_id))

        await node.node.stores.store.write(lengthen)
        found, version, has_more = dict[str, int](), 0, True
        while has_more:
            answer = await answered(node, "GET", f"{runs}/{run_id}?changes_since={version}")
            data = answer.json()["data"]
            rows = {one["row_id"]: len(one["record"]["post"]["text"]) for one in data["added"]}
            assert rows
            assert not rows.keys() & found.keys()
            assert len(rows) == 1 or len(answer.content) < PAGE_BYTES + AROUND_BYTES * (len(rows) + 1)
            assert data["version"] > version
            found |= rows
            version, has_more = data["version"], data["has_more"]
        assert found == sizes
        lines = (await node.get(f"{runs}/{run_id}/results.jsonl")).body.splitlines()
        read = [orjson.loads(line) for line in lines]
        assert {one["row_id"]: len(one["record"]["post"]["text"]) for one in read} == sizes
        assert [one["row_id"] for one in read] == ids
