"""Objects of an account are invisible to others: every route with an id is requested with another account's key."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from gateway.docs.guide import example_body
from gateway.docs.operations import ApiOperation
from tests.fakes.node import OpenNode, open_test_node

MONITOR = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "daily",
    "webhook_url": "http://127.0.0.1:9/hook",
    "run_now": True,
}
OF_KEYS = ("consumer",)
"""Parameters whose values a caller chooses: a consumer with this name would belong to the other account."""


async def test_other_accounts_objects_are_unknown_on_every_route(tmp_path: Path) -> None:
    """Goal: isolation. Method: a monitor with a run; another account's key gets 404 from every route with an id."""
    async with open_test_node(tmp_path, webhooks={"allow_insecure_targets": True}) as node:
        made = await send(node, "POST", "/v1/monitors", MONITOR, node.key)
        monitor = made["monitor"]["id"]
        runs = (await node.get(f"/v1/monitors/{monitor}/runs")).json["data"]["items"]
        ids = {"monitor_id": monitor, "run_id": runs[0]["run_id"]}
        other, _ = await node.new_key(await node.new_account())
        operations = [one for one in node.node.description.reference.operations if is_tried(one)]
        assert len(operations) >= 20
        for operation in operations:
            path = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], f"{found[1]}_none"), operation.path)
            query = "?metric=author.followers" if path.endswith("chart.svg") else ""
            answer = await node.client.request(
                operation.method,
                f"{node.url}{path}{query}",
                headers={"x-api-key": other, "content-type": "application/json"},
                content=orjson.dumps(example_body(operation)) if operation.body else None,
            )
            assert answer.status_code == 404, (operation.method, path, answer.text)
            assert "octocat" not in answer.text
        assert (await node.get(f"/v1/monitors/{monitor}")).status == 200


def is_tried(operation: ApiOperation) -> bool:
    names = {param.name for param in operation.in_path}
    return bool(names) and names.isdisjoint(OF_KEYS) and not operation.path.endswith("/ws")


async def send(node: OpenNode, method: str, path: str, body: object, key: str) -> dict[str, dict[str, str]]:
    answer = await node.client.request(method, node.url + path, headers={"x-api-key": key}, content=orjson.dumps(body))
    found: dict[str, dict[str, str]] = answer.json()
    return found
