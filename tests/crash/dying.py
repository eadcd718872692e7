"""Calls to a node that may die at any moment."""

from __future__ import annotations

from typing import Protocol

import httpx
import trio

from upstreams.transport.http import Exchange, HttpAnswer, HttpCall

PATIENCE_S = 60.0


class NodeDied(Exception):
    """The node was killed before it had answered."""


class Mortal(Protocol):
    """A running process of a node. Set `is_killed` before killing it."""

    exchange: Exchange
    is_killed: bool


async def ask(node: Mortal, call: HttpCall) -> HttpAnswer:
    """Return the answer to a call.

    Raises NodeDied. While the node lives, errors of the connection are raised unchanged.
    """
    try:
        return await node.exchange(call, trio.current_time() + PATIENCE_S)
    except httpx.TransportError as exc:
        if not node.is_killed:
            raise
        raise NodeDied from exc
