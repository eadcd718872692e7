"""A disk below its floor: a node rejects what would be charged, and nothing else, until there is enough space again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from storage.disk_watch import CHECK_S
from storage.errors import StoreUnavailable
from storage.store import DiskSpace
from tests.fakes.calling import Answered
from tests.fakes.monitoring import made
from tests.fakes.node import OpenNode, open_test_node

PROFILE = "/v1/github/profile?handle={}"
FLOOR = 1_000


class Disk:
    """A disk whose free space the test sets."""

    free = 10 * FLOOR

    async def probe(self) -> DiskSpace:
        await trio.lowlevel.checkpoint()
        return DiskSpace(1_000 * FLOOR, self.free)

    async def set_free(self, free: int, node: OpenNode) -> None:
        """Change the free space, and let the node check its disk."""
        self.free = free
        await node.node.stores.disk.check()


@asynccontextmanager
async def open_floored(folder: Path) -> AsyncIterator[tuple[OpenNode, Disk]]:
    disk = Disk()
    async with open_test_node(folder, probe_disk=disk.probe, store={"disk_floor_bytes": FLOOR}) as node:
        yield node, disk


async def test_new_calls_are_not_charged_below_the_disk_floor(tmp_path: Path) -> None:
    async with open_floored(tmp_path) as (node, disk):
        assert (await node.get(PROFILE.format("cached"))).status == 200
        await disk.set_free(FLOOR - 1, node)
        for headers in ({}, {"Idempotency-Key": "one"}):
            refused = await node.get(PROFILE.format("new"), headers=headers)
            assert (refused.status, refused.json["error"]["type"]) == (503, "SERVICE_UNAVAILABLE")
            assert refused.headers["retry-after"] == "1"
            assert refused.json["credits_used"] == 0
        assert (await node.get(PROFILE.format("cached"))).json["cached"]
        assert (await node.get("/v1/credits/balance")).status == 200
        unready = await node.client.get(f"{node.admin_url}/readyz")
        assert unready.status_code == 503
        assert unready.text.startswith("disk full: 999 bytes are free on the disk, ")
        assert (await node.client.get(f"{node.admin_url}/healthz")).status_code == 200
        assert await node.gauge("sluice_disk_free_bytes") == FLOOR - 1
        assert await node.gauge("sluice_disk_floor_bytes") == FLOOR
        await node.assert_sound()

        await disk.set_free(10 * FLOOR, node)
        assert (await node.get(PROFILE.format("new"), headers={"Idempotency-Key": "one"})).json["credits_used"] == 1
        assert (await node.client.get(f"{node.admin_url}/readyz")).status_code == 200
        await node.assert_sound()


async def test_running_calls_are_settled_below_the_floor(tmp_path: Path) -> None:
    async with open_floored(tmp_path) as (node, disk):
        answers: list[Answered] = []

        async def call() -> None:
            answers.append(await node.get(PROFILE.format("running")))

        async with trio.open_nursery() as nursery:
            with node.upstream.holding():
                nursery.start_soon(call)
                while not node.upstream.requests:  # noqa: ASYNC110 - the upstream sets no event
                    await trio.sleep(0.01)
                await disk.set_free(0, node)
        assert [(answer.status, answer.json["credits_used"]) for answer in answers] == [(200, 1)]
        assert (await node.get(PROFILE.format("later"))).status == 503
        await node.assert_sound()


async def test_monitor_run_is_rejected_below_the_floor(tmp_path: Path) -> None:
    async with open_floored(tmp_path) as (node, disk):
        monitor = await made(node)
        await disk.set_free(0, node)
        begun = node.node.monitors.clock.begun_total
        with pytest.raises(StoreUnavailable, match=r"store\.disk_floor_bytes"):
            await node.operate("monitor.run", monitor=monitor)
        assert node.node.monitors.clock.begun_total == begun
        await disk.set_free(10 * FLOOR, node)
        record = await node.operate("monitor.run", monitor=monitor)
        assert record["status"] != "pending"
        await node.assert_sound()


async def test_node_checks_the_disk_and_logs_changes(tmp_path: Path) -> None:
    async with open_floored(tmp_path) as (node, disk):
        for free, event in ((0, "disk_full"), (10 * FLOOR, "disk_has_room")):
            disk.free = free
            while not node.log_events(event):  # noqa: ASYNC110 - the node sets no event
                await trio.sleep(CHECK_S / 20)
        assert node.node.stores.disk.refusal is None


async def test_growth_report_has_table_sizes_and_metrics_count_charged_calls(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        report = await node.operate("store.size")
        assert {"accounts", "keys", "events", "claims", "runs", "deliveries"} <= {t["name"] for t in report["tables"]}
        assert report["growth_bytes_a_day"] is None
        text = (await node.client.get(f"{node.admin_url}/metrics")).text
        samples = dict(re.findall(r'^sluice_store_table_bytes\{table="(\w+)"\} (\S+)$', text, re.M))
        assert samples.keys() == {table["name"] for table in report["tables"]}
        assert float(samples["keys"]) > 0
        assert await node.gauge("sluice_store_bytes") >= max(map(float, samples.values()))
        for handle in ("a", "b", "a"):
            await node.get(PROFILE.format(handle))
        assert node.node.metrics.charged_total() == 2, "cache hits are not charged calls"
