"""One of three nodes is killed with SIGKILL under load."""

from __future__ import annotations

from contextlib import suppress

import trio

from gateway.node.membership import MembershipPace
from limits.shared_gate import GateSpans
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.many.conftest import OpenCluster
from tests.many.harness import Answer, Unanswered, until
from tests.many.load import MISS, assert_served, open_load
from tests.processes.serving import QUICK

SLOW = ScriptedAnswer(delay_s=100.0)
HELD = 20  # also limits the load's key, which reaches this limit only if responses take a second
SPANS = GateSpans(lease_s=5.0, renew_s=1.0)
BUSY_S = 15.0
"""The additional time on a busy machine until the leases have ended."""
REFUND_S = 60.0


def test_defaults_end_leases_and_take_over_within_30_s() -> None:
    """The next test verifies the behavior with shorter spans."""
    assert GateSpans().lease_s == 30
    assert MembershipPace().dead_after_s + 2 * MembershipPace().beat_s <= REFUND_S / 2


async def test_killed_nodes_leases_end_and_its_charges_are_refunded(cluster_of: OpenCluster) -> None:
    async with cluster_of(limits__concurrent_requests=HELD, spans=SPANS, pace=QUICK) as cluster:
        doomed, one, other = cluster.nodes
        account, key = await cluster.new_key(balance=HELD)
        cluster.upstream.script = lambda asked: SLOW if "slow" in asked else None

        async def ask_slowly(number: int) -> None:
            with suppress(Unanswered):
                await cluster.ask(doomed, f"/v1/github/profile?handle=slow{number}", key)

        async with open_load(cluster, per_s=20) as answers, trio.open_nursery() as nursery:
            for number in range(HELD):
                nursery.start_soon(ask_slowly, number)
            await until(lambda: _all_held(cluster.upstream.requests), within_s=30)
            assert (await cluster.ask(one, MISS.format(n="-x"), key)).status == 429
            cluster.kill(doomed)
            killed_at = trio.current_time()
            told: list[Answer] = []

            async def is_free() -> bool:
                told.append(await cluster.ask(other, "/v1/credits/balance", key))
                return told[-1].status != 429

            await until(is_free, within_s=SPANS.lease_s + BUSY_S)
            assert len(told) > 1, "the leases were held when it died"

            async def is_refunded() -> bool:
                return await cluster.balance(account) == HELD

            await until(is_refunded, within_s=killed_at + REFUND_S - trio.current_time())
        assert_served([answer for answer in answers if answer.sent_at > killed_at])


async def _all_held(requests: list[str]) -> bool:
    await trio.lowlevel.checkpoint()
    return sum("slow" in asked for asked in requests) == HELD
