"""The window and the leases of one key through three nodes."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from events.instants import unix
from limits.shared_gate import GateSpans
from tests.many.conftest import OpenCluster
from tests.many.harness import Answer
from tests.many.load import FREE, MISS, ask_all, assert_filled, open_load

LIMIT = 60
MINUTE_S = 60.0
WINDOW_S = 3.0
RUN_S = 2.5 * WINDOW_S


def assert_exact(answers: Sequence[Answer]) -> None:
    """Check that the limit was respected at some time between request and response.

    Requests that timed out at Redis may have used a slot.
    """
    perhaps = [answer for answer in answers if answer.status in {200, 503}]
    admitted = [answer for answer in answers if answer.status == 200]
    for first in admitted:
        end = first.sent_at + WINDOW_S
        within = [one for one in admitted if first.sent_at <= one.sent_at and one.there_at < end]
        assert len(within) <= LIMIT, "more requests than the window's limit"
    for refused in (answer for answer in answers if answer.status == 429):
        begin = refused.sent_at - WINDOW_S
        before = [one for one in perhaps if one.there_at > begin and one.sent_at < refused.there_at]
        assert len(before) >= LIMIT, "refused although the window was not full"


async def test_window_admits_its_exact_limit_of_concurrent_requests(
    cluster_of: OpenCluster,
) -> None:
    async with cluster_of(limits__requests_per_minute=LIMIT) as cluster:
        answers = await ask_all(cluster, [FREE] * 3 * LIMIT)
        assert_filled(cluster, answers, LIMIT)
        refused = [one for one in answers if one.status == 429]
        assert len(refused) >= 2 * LIMIT
        assert all(1 <= int(one.headers["retry-after"]) <= MINUTE_S for one in refused)
        assert max(int(one.headers["retry-after"]) for one in refused) > MINUTE_S / 2


async def test_window_is_exact_across_nodes_with_different_clocks(cluster_of: OpenCluster) -> None:
    """Method: windows of a few seconds, shorter than the difference of the clocks; longer ones would prove no more."""
    spans, skews_s = GateSpans(window_s=WINDOW_S), (-5.0, 0.0, 5.0)
    async with cluster_of(limits__requests_per_minute=LIMIT, skews_s=skews_s, spans=spans) as cluster:
        async with open_load(cluster, per_s=30, target=FREE) as answers:
            await trio.sleep(RUN_S)
            clocks = [
                unix((await cluster.ask(node, "/v1/status")).json["data"]["updated_at"]) for node in cluster.nodes
            ]
        assert [round((ahead - clocks[1]) / 5) for ahead in clocks] == [-1, 0, 1]
        assert_exact(answers)
        assert {200, 429} <= {answer.status for answer in answers} <= {200, 429, 503}
        assert sum(answer.status == 200 for answer in answers) > LIMIT, "the window has moved"


async def test_leases_stay_within_the_limit_and_end_with_their_requests(
    cluster_of: OpenCluster,
) -> None:
    async with cluster_of(limits__concurrent_requests=5) as cluster:
        cluster.upstream.behaviour.latency_s = 1.5  # all requests are admitted or refused within this time
        for _ in range(2):
            answers = await ask_all(cluster, [MISS.format(n=next(cluster.numbers)) for _ in range(30)])
            assert sorted(one.status for one in answers) == [200] * 5 + [429] * 25
