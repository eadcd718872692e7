"""A node dies or freezes while it leads a shared call: another node makes the call soon after."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from functools import partial

import trio

from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.many.conftest import OpenCluster
from tests.many.harness import Answer, Cluster, Node, Unanswered, until
from tests.processes.serving import QUICK

SAME = "/v1/github/profile?handle=the-same"
PROFILE = {"login": "the-same", "id": 1, "html_url": "https://github.com/the-same"}
LATE, FOLLOWER = "the late one's", "the follower's"
TAKEN_OVER_S = 15.0
"""The takeover takes two seconds on an idle machine. This maximum is half of a lease's 30 s."""
LATE_S = 4.0
REFUND_S = 60.0


def _script(cluster: Cluster, first: ScriptedAnswer) -> None:
    """Script the upstream: the given answer to the first call, and another answer to all later calls."""

    def answer(_asked: str) -> ScriptedAnswer:
        return first if len(cluster.upstream.requests) == 1 else json_answer(PROFILE | {"name": FOLLOWER})

    cluster.upstream.script = answer


async def _has_leader(cluster: Cluster) -> bool:
    await trio.lowlevel.checkpoint()
    return len(cluster.upstream.requests) == 1


async def _ask(cluster: Cluster, node: Node, answers: list[Answer]) -> None:
    with suppress(Unanswered):
        answers.append(await cluster.ask(node, SAME))


def _name(answer: Answer) -> str:
    return next(name for name in (LATE, FOLLOWER) if name.encode() in answer.body)


async def test_killed_leaders_call_is_made_by_another_node_and_charged_once(
    cluster_of: OpenCluster,
) -> None:
    async with cluster_of(pace=QUICK) as cluster:
        await _lose_leader(cluster)


async def _lose_leader(cluster: Cluster) -> None:
    _script(cluster, ScriptedAnswer(delay_s=100))
    before = await cluster.balance()
    answers: list[Answer] = []
    doomed = cluster.nodes[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask, cluster, doomed, [])
        await until(partial(_has_leader, cluster), within_s=30)
        for node in cluster.nodes[1:]:
            nursery.start_soon(_ask, cluster, node, answers)
        await trio.sleep(0.7)  # the leader has renewed its lock before this time
        assert answers == []
        cluster.kill(doomed)
        killed_at = trio.current_time()
    assert [answer.status for answer in answers] == [200, 200]
    assert max(answer.there_at for answer in answers) - killed_at < TAKEN_OVER_S
    assert sorted(answer.json["credits_used"] for answer in answers) == [0, 1]
    assert len(cluster.upstream.requests) == 2

    async def is_refunded() -> bool:
        return await cluster.balance() == before - 1

    await until(is_refunded, within_s=REFUND_S)


async def test_frozen_leader_serves_its_caller_but_replaces_no_later_answer(
    cluster: Cluster,
) -> None:
    _script(cluster, replace(json_answer(PROFILE | {"name": LATE}), delay_s=LATE_S))
    before = await cluster.balance()
    late: list[Answer] = []
    frozen, follower, third = cluster.nodes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask, cluster, frozen, late)
        await until(partial(_has_leader, cluster), within_s=30)
        frozen.process.signal(signal.SIGSTOP)
        try:
            stopped_at = trio.current_time()
            followed = await cluster.ask(follower, SAME)
            assert trio.current_time() - stopped_at < TAKEN_OVER_S
            await trio.sleep(max(0.0, stopped_at + LATE_S - trio.current_time()))
        finally:
            frozen.process.signal(signal.SIGCONT)
    assert (followed.status, _name(followed), followed.json["credits_used"]) == (200, FOLLOWER, 1)
    assert [(one.status, _name(one), one.json["credits_used"]) for one in late] == [(200, LATE, 1)]
    found = await cluster.ask(third, SAME)
    assert (_name(found), found.json["credits_used"]) == (FOLLOWER, 0)
    assert before - await cluster.balance() == 2
