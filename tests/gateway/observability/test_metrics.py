"""What an operator can tune a node by: every part's counters after a handful of requests, over the admin address."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import Told

PROFILE = "/v1/github/profile?handle=octocat"
REPOS = "/v1/github/profile/repos?handle=octocat"
KEY = {"idempotency-key": "one"}


async def numbers(node: OpenNode) -> dict[str, float]:
    """Every line of the metrics, by its name and labels."""
    text = (await node.client.get(f"{node.admin_url}/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_limits_claims_ledger_and_phases_are_counted_as_they_happened(tmp_path: Path) -> None:
    limits = {"requests_per_minute": 6, "concurrent_requests": 2}
    async with open_test_node(tmp_path, limits=limits) as node:
        node.upstream.script = lambda asked: Told(200, b"[]" if "/repos" in asked else b'{"id": 1, "login": "octocat"}')
        assert (await node.get(PROFILE)).status == 200
        assert (await node.get(PROFILE)).json["cached"] is True
        for _ in range(2):
            assert (await node.get(PROFILE, headers={**KEY, "cache-control": "no-cache"})).status == 200
        assert (await node.get(REPOS, headers=KEY)).code == "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH"
        assert (await node.get(REPOS)).json["credits_used"] == 1
        assert (await node.get(REPOS)).code == "RATE_LIMITED"
        await node.money()
        told = await numbers(node)
    assert told['sluice_admissions_total{result="admitted"}'] == 6
    assert told['sluice_admissions_total{result="rate_limited"}'] == 1
    assert told['sluice_admissions_total{result="concurrency_limited"}'] == 0
    assert told["sluice_leases"] == 0
    assert told['sluice_idempotency_total{result="claimed"}'] == 1
    assert told['sluice_idempotency_total{result="replayed"}'] == 1
    assert told['sluice_idempotency_total{result="mismatch"}'] == 1
    assert told['sluice_ledger_credits_total{kind="deduction"}'] == 1 + 1 + 5
    assert told['sluice_ledger_credits_total{kind="settlement"}'] == 3
    assert told['sluice_ledger_credits_total{kind="refund"}'] == 4
    assert told['sluice_overhead_phase_seconds_count{phase="charge"}'] == 3
    assert told['sluice_overhead_phase_seconds_count{phase="own"}'] == 3
    assert told['sluice_overhead_phase_seconds_count{phase="close"}'] == 2
    assert told['sluice_upstream_calls_total{platform="github",source="api"}'] == 3
