"""An upstream without a socket: an `Exchange` that returns scripted answers, and a source that uses it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
import orjson
import trio

from limits.breaker import Breaker, BreakerRules
from limits.errors import LimitError
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.spending import Spending
from upstreams.model.errors import UpstreamError
from upstreams.model.refusals import Backoff, Judge, Pace, by_status
from upstreams.model.steps import Answer
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.origin import Origin

BASE_URL = "https://api.test/v1"
ORIGIN = Origin("https", "api.test", 443)
LONG_S = 10_000.0
"""A deadline for tests in which deadlines do not matter."""


@dataclass(frozen=True, slots=True)
class Slow:
    """An answer that arrives after `after_s`; infinity means never."""

    after_s: float
    then: HttpAnswer | Exception


Scripted = HttpAnswer | Exception | Slow
Script = Callable[[HttpCall], Scripted]


def http_answer(body: Any = None, status: int = 200, **headers: str) -> HttpAnswer:
    """Return an answer.

    A body of bytes is sent unchanged, any other body as JSON. `retry_after="7"` sets `retry-after`.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, named, body if isinstance(body, bytes) else orjson.dumps(body))


OK = http_answer({"ok": True})
FAILING = http_answer({"message": "broken"}, 503)
SILENCE = Slow(math.inf, OK)


class ScriptedExchange:
    """Returns the given answers in order, repeating the last one, or returns the result of `script` for each call.

    Like any exchange, it fails at the deadline. `asked_at` holds the time of each of the `calls`.
    """

    def __init__(self, *answers: Scripted, script: Script | None = None) -> None:
        self.calls: list[HttpCall] = []
        self.asked_at: list[float] = []
        self.running = self.running_max = 0
        self._waiting = list(answers)
        self._script = script or self._next

    def script(self, *answers: Scripted) -> None:
        """Answer with these from now on, instead of the earlier answers."""
        self._waiting = list(answers)

    @property
    def targets(self) -> list[str]:
        """Return the target of each call."""
        return [call.target for call in self.calls]

    async def __call__(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """Handle a call, like an `Exchange`."""
        self.calls.append(call)
        self.asked_at.append(trio.current_time())
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            with trio.move_on_at(deadline_at):
                return await _play(self._script(call))
            raise httpx.ReadTimeout("the response did not arrive in time")
        finally:
            self.running -= 1

    def _next(self, _call: HttpCall) -> Scripted:
        return self._waiting.pop(0) if len(self._waiting) > 1 else self._waiting[0]


async def _play(what: Scripted) -> HttpAnswer:
    slow = what if isinstance(what, Slow) else Slow(0.0, what)
    await trio.sleep(slow.after_s)
    if isinstance(slow.then, Exception):
        raise slow.then
    return slow.then


def source_over(
    exchange: Callable[[HttpCall, float], Awaitable[HttpAnswer]],
    *,
    name: str = "main",
    base_url: str = BASE_URL,
    judge: Judge = by_status,
    backoff: Callable[[Answer], Backoff | None] = lambda _answer: None,
    method_of: Callable[[str], str] = lambda path: path,
    rules: Rules = Rules(),  # noqa: B008 - it is frozen
    breaker: BreakerRules = BreakerRules(),  # noqa: B008 - it is frozen
    rng: Random | None = None,
    pace: Pace | None = None,
    budgets: Sequence[Spending] = (),
    by_page: bool = False,
) -> Source:
    """Return a source that uses `exchange`, on Trio's clock."""
    return Source(
        name,
        base_url,
        exchange=exchange,
        breaker=Breaker(breaker, trio.current_time, needs_several=by_page),
        judge=judge,
        backoff=backoff,
        method_of=method_of,
        rules=rules,
        rng=rng or Random(1),
        paces=() if pace is None else (pace,),
        budgets=budgets,
        allows_any_host=by_page,
        by_page=by_page,
    )


def asking(
    target: str = "/v1/x",
    *,
    method: str = "GET",
    origin: Origin = ORIGIN,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> HttpCall:
    """Return one request to a source."""
    return HttpCall(method, origin, target, tuple((headers or {}).items()), body)


class LongestPauses(Random):
    """A random generator that always returns the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        """Return the upper bound."""
        return b


async def outcomes(*calls: Callable[[], Awaitable[object]]) -> list[object]:
    """Run the calls concurrently. Return the result or exception of each, in order of completion."""
    ended: list[object] = []

    async def run(call: Callable[[], Awaitable[object]]) -> None:
        try:
            ended.append(await call())
        except (UpstreamError, LimitError) as failure:
            ended.append(failure)

    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(run, call)
    return ended
