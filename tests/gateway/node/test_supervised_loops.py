"""A failure in any background loop of a node: the node responds, logs and counts it, and the loop continues.

These tests cover every loop that a node registers with its supervision, including new ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio

from storage.supervision import Supervision, Work
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.stores import engine
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.waiting import until

PROFILE = "/v1/github/profile?handle="
ROOMY = {"requests_per_minute": 100_000, "concurrent_requests": 10}
ALONE = frozenset(
    re.findall(
        r"\w+",
        """accept account_webhooks archive_days backlog clock clock_skew deliveries disk erase_accounts feed_close
        feed_deadlines feed_reads finish_charges flush_usage forget_claims job_leases jobs overload run_leases
        seal_webhook_urls server_hangups server_refusals server_watch sessions status_hours store_growth sweep_cohorts
        sweep_events sweep_jobs sweep_monitors trim_shares upstream_deadlines""",
    )
)
SHARED = frozenset(
    re.findall(
        r"\w+",
        """cache_landings cache_locks cache_renewals circuit_hints feed_look feed_messages gate_beat keep_months
        membership_beat membership_recovery state_link""",
    )
)
ENDING = frozenset(("seal_webhook_urls", "server_refusals"))
"""Loops that may end before a failure can be injected into their first run."""


class Planted(Exception):
    """The exception that these tests inject."""


class FaultySupervision(Supervision):
    """Injects one failure into each loop while it runs, and further ones into the loop named by `failing`."""

    pause_s = 0.1
    steady_s = 1.0
    failing: str = ""
    runs_s = 0.05

    async def keep(self, name: str, work: Work) -> None:
        has_failed = False

        async def faulty() -> None:
            nonlocal has_failed
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail_if_due, name, has_failed)
                has_failed = True
                await work()
                nursery.cancel_scope.cancel()

        await super().keep(name, faulty)

    async def _fail_if_due(self, name: str, has_failed: bool) -> None:
        await trio.sleep(self.runs_s)
        while has_failed and self.failing != name:  # noqa: ASYNC110 - the test sets no event
            await trio.sleep(self.runs_s)
        raise Planted(name)


def supervision_of(node: OpenNode) -> FaultySupervision:
    supervision = node.node.supervision
    assert isinstance(supervision, FaultySupervision)
    return supervision


async def counts(node: OpenNode) -> dict[str, float]:
    """Return the number of failures of every loop, from the metrics."""
    text = (await node.client.get(f"{node.admin_url}/metrics")).text
    found = re.findall(r'^sluice_loop_failures_total\{loop="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {name: float(count) for name, count in found}


async def readiness(node: OpenNode) -> tuple[int, str]:
    answer = await node.client.get(f"{node.admin_url}/readyz")
    return answer.status_code, answer.text


async def assert_outlives_faults(node: OpenNode, names: frozenset[str]) -> None:
    supervision = supervision_of(node)
    await until(lambda: all(count for name, count in supervision.failures().items() if name not in ENDING))
    failed = await counts(node)
    assert names - failed.keys() == set(), "these loops are not supervised"
    assert {name for name, count in failed.items() if not count} <= ENDING
    logged = node.log_events("loop_failed")
    assert {line["loop"] for line in logged} == {name for name, count in failed.items() if count}
    assert all("Traceback" in line["error"] and f"Planted: {line['loop']}" in line["error"] for line in logged)

    with trio.fail_after(30):
        while await readiness(node) != (200, "ready\n"):  # noqa: ASYNC110 - the link to the state may be reconnecting
            await trio.sleep(0.1)
    answered = await node.get(PROFILE + "torvalds")
    assert (answered.status, answered.json["credits_used"]) == (200, 1)
    await node.assert_sound()


@pytest.mark.critical
async def test_node_survives_a_fault_in_every_loop(tmp_path: Path) -> None:
    async with open_test_node(
        tmp_path,
        supervise=FaultySupervision,
        limits=ROOMY,
        ledger={"archive": str(tmp_path / "archive")},
        web={"browser_url": "http://127.0.0.1:1"},
    ) as node:
        await assert_outlives_faults(node, ALONE)


@pytest.mark.critical
@pytest.mark.skipif(engine() != "sqlite", reason="this test needs its own database")
async def test_node_that_shares_its_store_survives_a_fault_in_every_loop(
    tmp_path: Path, postgres: PostgresServer, empty_redis: RedisServer
) -> None:
    async with open_test_node(
        tmp_path,
        supervise=FaultySupervision,
        limits=ROOMY,
        store={"url": postgres.fresh()},
        state={"url": empty_redis.url},
    ) as node:
        await assert_outlives_faults(node, ALONE - {"archive_days", "sessions"} | SHARED)


@pytest.mark.critical
async def test_loop_that_keeps_failing_makes_the_node_unready_until_it_has_recovered(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, supervise=FaultySupervision) as node:
        supervision = supervision_of(node)
        await until(lambda: all(count for name, count in supervision.failures().items() if name not in ENDING))
        assert (await readiness(node))[0] == 200, "one failure of each loop does not make the node unready"
        supervision.failing = "trim_shares"
        await until(lambda: supervision.fault is not None)
        status, reason = await readiness(node)
        assert status == 503
        assert re.fullmatch(r"loop down: trim_shares \(failed \d+ times in a row, last with Planted\)\n", reason), (
            reason
        )
        assert (await node.get(PROFILE + "octocat")).status == 200
        supervision.failing = ""
        await until(lambda: supervision.fault is None)
        assert await readiness(node) == (200, "ready\n")
