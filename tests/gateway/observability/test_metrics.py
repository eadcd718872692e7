"""Metrics for operators: how requests are counted, and the counters of all parts on the admin address."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.request import Reply
from gateway.observability.metrics import LatencyHistogram, Metrics
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer

PROFILE = "/v1/github/profile?handle=octocat"
REPOS = "/v1/github/profile/repos?handle=octocat"
KEY = {"idempotency-key": "one"}


async def numbers(node: OpenNode) -> dict[str, float]:
    """Every line of the metrics, by name and labels."""
    text = (await node.client.get(f"{node.admin_url}/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_limits_claims_ledger_and_phases_are_counted(tmp_path: Path) -> None:
    limits = {"requests_per_minute": 6, "concurrent_requests": 2}
    async with open_test_node(tmp_path, limits=limits) as node:
        node.upstream.script = lambda asked: ScriptedAnswer(
            200, b'[{"id": 2, "name": "a"}]' if "/repos" in asked else b'{"id": 1, "login": "octocat"}'
        )
        assert (await node.get(PROFILE)).status == 200
        assert (await node.get(PROFILE)).json["cached"] is True
        for _ in range(2):
            assert (await node.get(PROFILE, headers={**KEY, "cache-control": "no-cache"})).status == 200
        assert (await node.get(REPOS, headers=KEY)).code == "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH"
        assert (await node.get(REPOS)).json["credits_used"] == 1
        assert (await node.get(REPOS)).code == "RATE_LIMITED"
        await node.money()
        values = await numbers(node)
    assert values['sluice_admissions_total{result="admitted"}'] == 6
    assert values['sluice_admissions_total{result="rate_limited"}'] == 1
    assert values['sluice_admissions_total{result="concurrency_limited"}'] == 0
    assert values["sluice_leases"] == 0
    for resource in ("reading", "workers"):
        assert values[f'sluice_turns_in_use{{resource="{resource}"}}'] == 0
        assert values[f'sluice_turns_waiting{{resource="{resource}"}}'] == 0
    assert values['sluice_idempotency_total{result="claimed"}'] == 1
    assert values['sluice_idempotency_total{result="replayed"}'] == 1
    assert values['sluice_idempotency_total{result="mismatch"}'] == 1
    assert values['sluice_ledger_credits_total{kind="deduction"}'] == 1 + 1 + 5
    assert values['sluice_ledger_credits_total{kind="settlement"}'] == 3
    assert values['sluice_ledger_credits_total{kind="refund"}'] == 4
    assert values['sluice_overhead_phase_seconds_count{phase="charge"}'] == 3
    assert values['sluice_overhead_phase_seconds_count{phase="own"}'] == 3
    assert values['sluice_overhead_phase_seconds_count{phase="close"}'] == 2
    assert values['sluice_upstream_calls_total{platform="github",source="api"}'] == 3


# Counting, without a node

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample of a scrape, by name and label values."""
    return {
        ",".join((sample.name, *sample.labels.values())): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


@given(st.lists(st.floats(0, 100) | st.sampled_from(BOUNDS_S), max_size=20), st.integers(0, 20))
def test_bucket_counts_durations_up_to_its_bound(durations_s: list[float], looked_at: int) -> None:
    """The result does not depend on how often it is read."""
    histogram = LatencyHistogram()
    for nth, duration_s in enumerate(durations_s):
        histogram.observe(duration_s)
        if nth == looked_at:
            histogram.cumulative()
    buckets, sum_s = histogram.cumulative()
    assert [count for _, count in buckets[:-1]] == [sum(one <= bound for one in durations_s) for bound in BOUNDS_S]
    assert buckets[-1] == ("+Inf", len(durations_s))
    assert sum_s == pytest.approx(sum(durations_s))


def test_request_is_counted_by_route_code_and_phase() -> None:
    metrics = Metrics()
    metrics.count("/v1/a", Reply(200, b"", credits_used=5, upstream_s=2.0, charge_s=0.25, close_s=0.125), 1.0)
    metrics.count("/v1/a", Reply(200, b""), 0.5)
    metrics.count("other", Reply(404, b"", code="ENDPOINT_NOT_FOUND"), 0.5)
    found = samples(metrics)
    assert found["sluice_requests_total,/v1/a,OK"] == 2
    assert found["sluice_requests_total,other,ENDPOINT_NOT_FOUND"] == 1
    assert found["sluice_credits_used_total"] == 5
    assert (found["sluice_overhead_seconds_count"], found["sluice_overhead_seconds_sum"]) == (3, 2.0)
    assert (found["sluice_upstream_seconds_count,a"], found["sluice_upstream_seconds_sum,a"]) == (1, 2.0)
    phases = {name: found[f"sluice_overhead_phase_seconds_sum,{name}"] for name in ("charge", "close", "own")}
    assert phases == {"charge": 0.25, "close": 0.125, "own": 0.625}
    assert {found[f"sluice_overhead_phase_seconds_count,{name}"] for name in phases} == {1}


def test_platform_waits_report_the_p95_bound() -> None:
    metrics = Metrics()

    def wait(upstream_s: float, times: int) -> None:
        for _ in range(times):
            metrics.count("/v1/github/profile", Reply(200, b"", upstream_s=upstream_s), 0.001)

    assert metrics.waits_for("github") == (0, None)
    wait(0.15, 95)
    wait(7.0, 5)
    assert metrics.waits_for("github") == (100, 0.2)
    wait(7.0, 1)
    assert metrics.waits_for("github") == (101, 10.0)
    wait(31.0, 50)
    assert metrics.waits_for("github") == (151, None)
    assert metrics.waits_for("gitlab") == (0, None)


def test_phase_duration_is_never_negative() -> None:
    """A commit may be measured as longer than the request around it."""
    metrics = Metrics()
    metrics.count("/v1/a", Reply(200, b"", charge_s=0.3), 0.2)
    assert samples(metrics)["sluice_overhead_phase_seconds_sum,own"] == 0.0


@pytest.mark.parametrize("requests", [1, 255, 256, 257, 1_000])
def test_batched_counting_loses_and_duplicates_no_request(requests: int) -> None:
    metrics = Metrics()
    for nth in range(requests):
        metrics.count(f"/v1/{nth % 3}", Reply(200, b""), 0.1)
    for _ in range(2):
        found = samples(metrics)
        assert sum(value for name, value in found.items() if name.startswith("sluice_requests_total")) == requests
        assert found["sluice_overhead_seconds_count"] == requests
