"""Requests of any method to a node, with a JSON body and any headers."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

from tests.fakes.node import OpenNode


async def answered(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> httpx.Response:
    """Return the response to a request with the node's own key. Underscores in header names become hyphens."""
    named = {"x-api-key": node.key, **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = None if body is None else orjson.dumps(body)
    return await node.client.request(method, node.url + target, headers=named, content=content)


async def ask(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """Return the status and the envelope, or None if the body is empty."""
    answer = await answered(node, method, target, body, **headers)
    return answer.status_code, answer.json() if answer.content else None
