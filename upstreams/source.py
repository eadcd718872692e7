"""One host of a platform, and everything that guards a call to it: breaker, governor, retries, time and size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple
from urllib.parse import urljoin

import httpx
import orjson
import trio

from limits.breaker import Breaker
from limits.errors import Throttled
from limits.governor import Governor
from limits.retries import RetryBudget, full_jitter
from upstreams.endpoint import Answer, Judge
from upstreams.errors import NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall, origin_of

THROTTLED_S = 30.0
"""How long a source is left alone that throttles without saying for how long (spec 7.2)."""
_REDIRECTS_MAX = 3
_PASSING = frozenset((500, 502, 503, 504))
_NOTHING = frozenset((b"", b"null"))
"""Bodies that say, with a good status, that there is nothing (spec 7.5)."""
_NOTHING_BYTES_MAX = 16
"""Longer bodies are not looked at for blanks around it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a source is called: the time for one attempt and how often a passing failure is tried again."""

    timeout_s: float = 20.0
    retries: int = 2


class Asking(NamedTuple):
    """One request to a source, as its platform's declaration describes it."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    accepts: Literal["json", "json or text"]


class Source:
    """Calls one host of a platform; what it raises is of `upstreams.errors` or `limits.errors`."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        exchange: Exchange,
        breaker: Breaker,
        judge: Judge,
        backoff_s: Callable[[Answer], float],
        rules: Rules,
        rng: Random,
    ) -> None:
        self.name = name
        self.breaker = breaker
        self.rules = rules
        self.calls_total = 0
        self.retries_total = 0
        self._origin, path = origin_of(base_url)
        self.base_path = path.rstrip("/")
        self._exchange = exchange
        self._judge = judge
        self._backoff_s = backoff_s
        self._rng = rng
        self._budget = RetryBudget()
        self._governor = Governor()

    async def ask(self, asking: Asking, deadline_at: float) -> Answer:
        """The answer to one request, tried again while that may help, within the retry budget (decisions 9).

        `deadline_at` is the whole call's, on Trio's clock; an attempt ends with it, or after the rules' own time.

        Raises:
            CircuitOpen, Throttled: nothing was sent, or nothing any more after a first failure.
            NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: what the upstream answered.
        """
        asked_at = now = trio.current_time()
        self._refuse_while_held(asking, now)
        if now >= deadline_at:  # sent, it would fail and be held against the source
            raise UpstreamFailed(self.name, "no time is left to ask it")
        self._budget.count_call(now)
        self.calls_total += 1
        attempt = 0
        while True:
            try:
                answer = await self._attempt(asking, now, deadline_at)
            except UpstreamFailed as failure:
                pause_s = self._pause_s(asking, failure, attempt, deadline_at)
                if pause_s is None:
                    raise
            else:
                return answer._replace(took_s=trio.current_time() - asked_at) if attempt else answer
            await trio.sleep(pause_s)
            now = trio.current_time()
            self._refuse_while_held(asking, now)
            self.retries_total += 1
            attempt += 1

    def _pause_s(self, asking: Asking, failure: UpstreamFailed, attempt: int, deadline_at: float) -> float | None:
        """How long to wait before another attempt; None when another would not help, or is not to be had."""
        if not (failure.passing and asking.method == "GET" and attempt < self.rules.retries):
            return None
        pause_s = full_jitter(attempt, self._rng)
        now = trio.current_time()
        return pause_s if now + pause_s < deadline_at and self._budget.take_nowait(now) else None

    def _refuse_while_held(self, asking: Asking, now: float) -> None:
        """Obey what the upstream asked of the whole source, or of this method of it."""
        if not len(self._governor):
            return
        method = asking.target.partition("?")[0]
        wait_s = max(self._governor.wait_s("", now), self._governor.wait_s(method, now))
        if wait_s > 0:
            raise Throttled(math.ceil(wait_s))

    async def _attempt(self, asking: Asking, now: float, deadline_at: float) -> Answer:
        permit = self.breaker.take_nowait()
        try:
            answer = await self._exchange_in_time(asking, now, deadline_at)
        except UpstreamFailed:
            permit.fail()
            raise
        except UpstreamThrottled as throttled:
            permit.abandon()
            self._hold("", throttled.retry_after_s or THROTTLED_S)
            raise
        except UpstreamError:
            permit.succeed()
            raise
        except BaseException:  # cancelled, or a bug: it tells nothing about the source
            permit.abandon()
            raise
        permit.succeed()
        if (backoff_s := self._backoff_s(answer)) > 0:
            self._hold(asking.target.partition("?")[0], backoff_s)
        return answer

    def _hold(self, scope: str, for_s: float) -> None:
        self._governor.hold(scope, trio.current_time() + for_s)

    async def _exchange_in_time(self, asking: Asking, started: float, deadline_at: float) -> Answer:
        try:
            raw = await self._follow(asking, min(started + self.rules.timeout_s, deadline_at))
        except httpx.TimeoutException as exc:
            took_s = trio.current_time() - started
            raise UpstreamFailed(self.name, f"no answer within {took_s:.1f} s", passing=True) from exc
        except httpx.RequestError as exc:  # a TransportError, or a body whose coding cannot be undone
            raise UpstreamFailed(self.name, _problem(exc), passing=True) from exc
        if 300 <= raw.status < 400:
            raise UpstreamFailed(self.name, f"status {raw.status}")
        took_s = trio.current_time() - started
        answer = Answer(raw.status, raw.headers, self._body(raw, asking), self.name, took_s)
        if answer.status >= 400:
            raise self._refusal(answer)
        return answer

    async def _follow(self, asking: Asking, deadline_at: float) -> HttpAnswer:
        """One exchange, and the redirects it leads through, as long as they stay on this host."""
        target = asking.target
        for _ in range(_REDIRECTS_MAX + 1):
            call = HttpCall(asking.method, self._origin, target, asking.headers, asking.body)
            answer = await self._exchange(call, deadline_at)
            location = answer.headers.get("location")
            if answer.status not in (301, 302, 307, 308) or location is None or asking.method != "GET":
                return answer
            target = self._target_of(location, target)
        raise UpstreamFailed(self.name, "redirects in a circle")

    def _target_of(self, location: str, asked: str) -> str:
        """Where a redirect leads, which may be told from where it was met (RFC 9110, 10.2.2)."""
        try:
            origin, target = origin_of(urljoin(f"{self._origin.scheme}://{self._origin.authority}{asked}", location))
        except (httpx.TransportError, httpx.InvalidURL, ValueError) as exc:
            raise UpstreamFailed(self.name, "redirects to an address that cannot be called") from exc
        if origin != self._origin:
            raise UpstreamFailed(self.name, f"redirects to another host, {origin.authority}")
        return target

    def _body(self, raw: HttpAnswer, asking: Asking) -> Any:
        if raw.status < 400 and len(raw.body) <= _NOTHING_BYTES_MAX and raw.body.strip() in _NOTHING:
            raise NotFound("The upstream answered without data.")
        try:
            return orjson.loads(raw.body)
        except orjson.JSONDecodeError as exc:
            if raw.status < 400 and asking.accepts == "json":
                kind = raw.headers.get("content-type", "no content type").partition(";")[0]
                raise UpstreamFailed(self.name, f"JSON was due, {kind} came", passing=True) from exc
            return raw.body.decode("utf-8", errors="replace")

    def _refusal(self, answer: Answer) -> UpstreamError:
        if (refusal := self._judge(answer)) is not None:
            return refusal
        wait = answer.headers.get("retry-after", "")
        if answer.status == 429 or (answer.status == 503 and wait):
            return UpstreamThrottled(self.name, float(wait) if wait.isdecimal() else None)
        return UpstreamFailed(self.name, f"status {answer.status}", passing=answer.status in _PASSING)


def _problem(exc: httpx.RequestError) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
