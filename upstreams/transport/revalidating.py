"""Conditional requests (RFC 9110, 13): an answer with an entity tag is revalidated, and reused if it is unchanged."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from upstreams.transport.http import Exchange, HttpAnswer, HttpCall
from upstreams.transport.origin import Origin

BYTES_MAX: Final = 16 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 512 * 1024
ANSWER_COSTS_BYTES: Final = 2_048
"""The memory that an answer takes in addition to its body and the texts of its headers and call."""
_HEADER_BYTES: Final = 250
"""The memory that a header takes in addition to its text."""


class _Asked(NamedTuple):
    """The parts of a call that identify it."""

    origin: Origin
    target: str
    headers: tuple[tuple[str, str], ...]


class Revalidating:
    """An exchange that caches answers with an entity tag.

    The most recently used answers are kept, up to `bytes_max`.
    """

    def __init__(self, exchange: Exchange, *, bytes_max: int = BYTES_MAX) -> None:
        self._exchange = exchange
        self._bytes_max = bytes_max
        self._kept: OrderedDict[_Asked, HttpAnswer] = OrderedDict()
        self._bytes = 0

    async def __call__(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """See `Exchange`. If the answer is unchanged, return the cached answer with updated headers."""
        if call.method != "GET":
            return await self._exchange(call, deadline_at)
        key = _Asked(call.origin, call.target, call.headers)
        kept = self._kept.get(key)
        if kept is not None:
            call = call._replace(headers=(*call.headers, ("if-none-match", kept.headers["etag"])))
        answer = await self._exchange(call, deadline_at)
        if kept is not None and answer.status == 304:
            if key in self._kept:
                self._kept.move_to_end(key)
            return HttpAnswer(kept.status, {**kept.headers, **_of_now(answer.headers)}, kept.body)
        self._keep(key, answer)
        return answer

    def _keep(self, key: _Asked, answer: HttpAnswer) -> None:
        before = self._kept.pop(key, None)
        if before is not None:
            self._bytes -= _bytes_of(key, before)
        if answer.status == 200 and answer.headers.get("etag") and len(answer.body) <= ANSWER_BYTES_MAX:
            self._kept[key] = answer
            self._bytes += _bytes_of(key, answer)
        while self._bytes > self._bytes_max:
            self._bytes -= _bytes_of(*self._kept.popitem(last=False))


def _bytes_of(key: _Asked, answer: HttpAnswer) -> int:
    """Return the memory that a cached answer takes, including its headers, whose number the upstream decides."""
    headers = sum(_HEADER_BYTES + len(name) + len(value) for name, value in answer.headers.items())
    return ANSWER_COSTS_BYTES + len(key.target) + headers + len(answer.body)


def _of_now(headers: dict[str, str]) -> dict[str, str]:
    """Return the current headers of a 304, without headers that describe a body."""
    return {name: value for name, value in headers.items() if not name.startswith("content-")}
