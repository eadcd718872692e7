"""A billed call whose charge row is missing when it ends: the response is sent and costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from storage.store import Tx
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import json_answer

PROFILE = "/v1/github/profile?handle=octocat"


def lose_charges(tx: Tx) -> int:
    lost = tx.run("DELETE FROM charges")
    tx.run("UPDATE keys SET used = 0")
    tx.run("UPDATE accounts SET balance = balance + held, held = 0, place = place - 1, version = version + 1")
    return lost


async def lose_the_next_charge(node: OpenNode) -> None:
    """Delete the charge of the call that waits for its upstream, then let the upstream respond."""
    with node.upstream.holding():
        while not node.upstream.requests:  # noqa: ASYNC110 - the upstream sets no event
            await trio.sleep(0.01)
        assert await node.node.stores.store.write(lose_charges) == 1


@pytest.mark.critical
@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "once"}])
async def test_upstream_error_with_lost_charge_is_still_returned(tmp_path: Path, headers: dict[str, str]) -> None:
    async with open_test_node(tmp_path) as node, trio.open_nursery() as nursery:
        node.upstream.always(json_answer({"message": "Not Found"}, status=404))
        nursery.start_soon(lose_the_next_charge, node)
        await trio.testing.wait_all_tasks_blocked()
        answered = await node.get(PROFILE, headers=headers)
        assert (answered.status, answered.json["credits_used"]) == (404, 0)
        assert await node.gauge("sluice_charges_lost_total") == 1
        await node.assert_sound()
