"""Requests of any method to a node, with a JSON body and any headers, and concurrent requests."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import trio

from tests.fakes.calling import Answered
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


async def at_once(node: OpenNode, *targets: str, **headers: str) -> list[Answered]:
    """Send these requests concurrently, and return the responses in the order in which they arrived."""
    answers: list[Answered] = []
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send(target: str) -> None:
        answers.append(await node.get(target, headers=named))

    async with trio.open_nursery() as nursery:
        for target in targets:
            nursery.start_soon(send, target)
    return answers


async def all_settled(node: OpenNode) -> None:
    """Wait until no credits of the account are reserved."""
    with trio.fail_after(60):
        while (await node.money())[1]:  # noqa: ASYNC110 - a settlement sets no event
            await trio.sleep(0.01)
