"""The original bodies of a read's calls, for callers that request them (spec 2.7).

Other reads do not use this module.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import orjson

from upstreams.model.fields import decoded
from upstreams.model.steps import Answer, Missing

Body = tuple[str, bytes]
"""The path of a call and the body of its answer."""


class KeptBodies:
    """Collects the bodies of one read in the order of its calls. Failed calls have no body."""

    __slots__ = ("_bodies",)

    def __init__(self) -> None:
        self._bodies: list[Body | None] = []

    async def keep(
        self, path: str, answering: Awaitable[Answer | Missing], *, without: tuple[str, ...] = ()
    ) -> Answer | Missing:
        """Return the answer to the call of this path, and record its body.

        The members `without` of an object are not recorded.
        """
        place = len(self._bodies)
        self._bodies.append(None)
        answer = await answering
        if isinstance(answer, Answer):
            self._bodies[place] = (path, _without(answer.raw, without) if without else answer.raw)
        return answer

    def all(self) -> tuple[Body, ...]:
        """Return all bodies that were received so far."""
        return tuple(body for body in self._bodies if body is not None)


def _without(body: bytes, members: tuple[str, ...]) -> bytes:
    found = _value(body)
    if not isinstance(found, dict):
        return body
    return orjson.dumps({name: value for name, value in found.items() if name not in members})


def joined_bodies(bodies: tuple[Body, ...]) -> Any:
    """Return the original response of a read: its body, or `{calls: [{path, body}]}` if the read made several calls.

    A body that is not JSON is returned as text.
    """
    if len(bodies) == 1:
        return _value(bodies[0][1])
    return {"calls": [{"path": path, "body": _value(body)} for path, body in bodies]}


def _value(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return decoded(body)
