"""Calls of any method, with a JSON body and headers of their own."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

from tests.fakes.node import OpenNode


async def answered(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> httpx.Response:
    """The answer to the node's own key; an underscore stands for the hyphen of a header's name."""
    named = {"x-api-key": node.key, **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = None if body is None else orjson.dumps(body)
    return await node.client.request(method, node.url + target, headers=named, content=content)


async def ask(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """The status, and the envelope where there is one."""
    answer = await answered(node, method, target, body, **headers)
    return answer.status_code, answer.json() if answer.content else None
