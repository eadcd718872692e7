"""The bodies of a read's calls as their sources sent them, for a caller that wants these (spec 2.7).

Nothing of it is on the way of a read whose bodies nobody keeps.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import orjson

from upstreams.model.fields import decoded
from upstreams.model.steps import Answer, Missing

Body = tuple[str, bytes]
"""The path of a call and the body that came."""


class KeptBodies:
    """Collects the bodies of one read, in the order in which it made its calls; those that failed have none."""

    __slots__ = ("_bodies",)

    def __init__(self) -> None:
        self._bodies: list[Body | None] = []

    async def keep(self, path: str, answering: Awaitable[Answer | Missing]) -> Answer | Missing:
        """The answer to a call of this path, whose body is kept."""
        place = len(self._bodies)
        self._bodies.append(None)
        answer = await answering
        if isinstance(answer, Answer):
            self._bodies[place] = (path, answer.raw)
        return answer

    def all(self) -> tuple[Body, ...]:
        """All that came so far."""
        return tuple(body for body in self._bodies if body is not None)


def joined_bodies(bodies: tuple[Body, ...]) -> Any:
    """The answer as the source sent it: its body, or `{calls: [{path, body}]}` where the read took several calls.

    A body that is no JSON is its text.
    """
    if len(bodies) == 1:
        return _value(bodies[0][1])
    return {"calls": [{"path": path, "body": _value(body)} for path, body in bodies]}


def _value(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return decoded(body)
