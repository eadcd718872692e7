"""Clients over sockets while an upstream throttles the node: who is served, who is rejected, and the credits."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import trio

from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.gateway.api.routes.asking import at_once

CLIENTS = 50
FIRST = "/v1/github/profile?handle=first"
SOURCE = '{platform="github",source="api"}'
THROTTLED = json_answer({"message": "slow down"}, 429, retry_after="1")
BODY = json_answer({"login": "octocat", "id": 1}).body


class Script:
    """Returns the given responses one after the other, then repeats the last. `asked_at` has the time of each call."""

    def __init__(self, *answers: ScriptedAnswer) -> None:
        self.asked_at: list[float] = []
        self._answers = answers

    def __call__(self, _asked: str) -> ScriptedAnswer:
        self.asked_at.append(trio.current_time())
        return self._answers[min(len(self.asked_at), len(self._answers)) - 1]


USERS = [f"/v1/github/profile?handle=user{number}" for number in range(CLIENTS)]


async def throttle(node: OpenNode) -> None:
    """Send the first request, which meets the throttling and is answered immediately."""
    answer = await node.get(FIRST)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert await node.money() == (CREDITS, 0)


async def test_fifty_clients_wait_out_a_short_hold_one_call_at_a_time(node: OpenNode) -> None:
    """One call at a time until one succeeds, even if the first fails. Then all are served, and each is charged once."""
    script = Script(
        THROTTLED,
        ScriptedAnswer(500, b"{}", delay_s=0.2),
        ScriptedAnswer(200, BODY, delay_s=0.3),
        ScriptedAnswer(200, BODY),
    )
    node.upstream.script = script
    await throttle(node)
    answers = await at_once(node, *USERS)
    assert Counter(answer.status for answer in answers) == {200: CLIENTS}
    first, failing, succeeding, *others = script.asked_at
    assert failing >= first + 1.0
    assert succeeding >= failing + 0.2
    assert min(others) >= succeeding + 0.3
    assert len(others) == CLIENTS - 1, "the failed call is repeated"
    assert await node.money() == (CREDITS - CLIENTS, 0)
    await node.assert_sound()
    assert await node.gauge(f"sluice_governor_waits_total{SOURCE}") >= CLIENTS
    counts = {"governor_holds_total": 1, "governor_queued": 0, "governor_refused_total": 0}
    counts |= {"upstream_in_flight": 0, "upstream_retries_total": 1, "retry_refused_total": 0}
    for name, count in counts.items():
        assert await node.gauge(f"sluice_{name}{SOURCE}") == count, name


async def test_lasting_throttle_refunds_everyone_without_useless_waits(tmp_path: Path) -> None:
    """A second hold outlasts every deadline, so nearly all are rejected when the first retry is throttled again."""
    script = Script(THROTTLED)
    async with open_test_node(tmp_path, upstreams={"defaults": {"timeout_s": 1.9}}) as node:
        node.upstream.script = script
        await throttle(node)
        with trio.fail_after(1.9 + 5.0):
            answers = await at_once(node, *USERS)
        assert Counter(answer.status for answer in answers) == {503: CLIENTS}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert {answer.json["credits_used"] for answer in answers} == {0}
        gaps_s = [later - earlier for earlier, later in pairwise(script.asked_at)]
        assert min(gaps_s) >= 1.0, "a hold lasts a second, and one call follows each"
        assert await node.money() == (CREDITS, 0)
        await node.assert_sound()
        assert await node.gauge(f"sluice_governor_refused_total{SOURCE}") == CLIENTS - len(gaps_s)
