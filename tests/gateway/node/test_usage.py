"""A node counts the calls of free endpoints by key and endpoint."""

from pathlib import Path

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_refused

PROFILE = "/v1/github/profile"
READ = """
SELECT keys.id, endpoints.path, SUM(calls), SUM(hits), SUM(refusals) FROM usage
JOIN keys ON keys.number = key JOIN endpoints ON endpoints.id = endpoint
GROUP BY keys.id, endpoints.path ORDER BY endpoints.path
"""


async def usage(node: OpenNode) -> list[tuple[str, int, int, int]]:
    """Return calls, hits and rejections by path, for each key."""
    await node.node.stores.billing.usage.flush()
    rows = await node.node.stores.store.read(lambda tx: tx.all(READ))
    return [row[1:] for row in rows]


async def test_usage_counts_calls_hits_and_rejections_of_each_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 6}) as node:
        for _ in range(3):
            await node.get(f"{PROFILE}?handle=octocat")
        await node.get("/v1/credits/balance")
        await node.get("/v1/utility/endpoints")
        assert_refused(await node.get(f"{PROFILE}?handle="), "INVALID_REQUEST", 400)
        for path in (f"{PROFILE}?handle=octocat", "/v1/credits/balance"):
            assert_refused(await node.get(path), "RATE_LIMITED", 429)
        key, _id = await node.new_key(await node.new_account(0))
        assert_refused(await node.get(f"{PROFILE}?handle=hubot", key=key), "INSUFFICIENT_CREDITS", 402)
        await node.assert_sound()
        assert sorted(await usage(node)) == [(PROFILE, 0, 0, 1), (PROFILE, 1, 2, 1)]
