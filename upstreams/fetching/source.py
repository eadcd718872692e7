"""One host of a platform, and everything that guards a call to it: breaker, governor, retries, time and size."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

import httpx
import trio

from limits.breaker import Breaker
from limits.governor import Governor, Turn
from limits.retries import RetryBudget, full_jitter
from upstreams.fetching.answers import failure_of, read_answer
from upstreams.fetching.aside import Aside, long_bytes
from upstreams.fetching.redirects import FOLLOWED, follow
from upstreams.model.errors import THROTTLED_S, UpstreamError, UpstreamFailed, UpstreamThrottled, WorkersBusy
from upstreams.model.refusals import Backoff, Bucket, Judge, Pace, Remaining
from upstreams.model.steps import Accepts, Answer, Form
from upstreams.transport.http import Exchange, HttpCall, origin_of

_WHOLE = ""
"""The governor's name for the source itself; its other names are methods."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of calls to a source: the time for one attempt and the retries of a passing failure."""

    timeout_s: float = 20.0
    retries: int = 2


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """A moment's record of one source: `*_total` since the start, the others as they are now."""

    calls_total: int
    """A call's retries are not counted as calls."""
    retries_total: int
    retries_refused_total: int
    held_total: int
    queued_total: int
    queued: int
    throttled_total: int
    """Calls that the governor refused."""
    in_flight: int
    """Attempts under way."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How many more calls an upstream takes of a source, as far as that is known; None where it is not."""

    held_s: float
    """Seconds for which it asked to be left alone; 0 where it did not."""
    quota_left: int | None
    """Calls that its latest good answer has left, until it counts anew."""
    quota_reset_s: float | None
    pace_left: int | None
    """Calls that may go at once by the pace that the platform is known to take; every node keeps its own."""
    pace_calls: float | None
    pace_per_s: float | None


class Source:
    """Calls one host of a platform; what it raises is of `upstreams.model.errors` or `limits.errors`.

    `now` is Trio's clock; the run's own, taken from `current_clock`, costs a third of `trio.current_time`.
    """

    def __init__(  # noqa: PLR0913 - one argument each for what its platform declares
        self,
        name: str,
        base_url: str,
        *,
        exchange: Exchange,
        breaker: Breaker,
        judge: Judge,
        backoff: Callable[[Answer], Backoff | None],
        method_of: Callable[[str], str],
        rules: Rules,
        rng: Random,
        now: Callable[[], float] = trio.current_time,
        aside: Aside | None = None,
        pace: Pace | None = None,
        hidden: bytes = b"",
        goes_anywhere: bool = False,
    ) -> None:
        self._goes_anywhere = goes_anywhere
        self._now = now
        self._bucket = None if pace is None else Bucket(pace, now())
        self._hidden = hidden
        self._aside = aside or Aside()
        self.name = name
        self.breaker = breaker
        self._rules = rules
        self.origin, path = origin_of(base_url)
        self.base_path = path.rstrip("/")
        self._exchange = exchange
        self._judge = judge
        self._backoff = backoff
        self._method_of = method_of
        self._rng = rng
        self._budget = RetryBudget()
        self._governor = Governor()
        self._calls_total = self._retries_total = self._in_flight = 0
        self._latest: tuple[Mapping[str, str], float] = ({}, 0.0)

    def change(self, rules: Rules) -> None:
        """Take other rules, for the attempts that begin from now on."""
        self._rules = rules

    def statistics(self) -> SourceStatistics:
        """The record of this moment."""
        governor = self._governor.statistics()
        return SourceStatistics(
            calls_total=self._calls_total,
            retries_total=self._retries_total,
            retries_refused_total=self._budget.refused_total,
            held_total=governor.held_total,
            queued_total=governor.queued_total,
            queued=governor.waiting,
            throttled_total=governor.refused_total,
            in_flight=self._in_flight,
        )

    def standing(self) -> Standing:
        """Its standing at this moment."""
        now, hold, bucket = self._now(), self._governor.held.get(_WHOLE), self._bucket
        left, reset_s = self._quota(now)
        held_s = 0.0 if hold is None else max(0.0, hold.until - now)
        if bucket is None:
            return Standing(held_s, left, reset_s, None, None, None)
        return Standing(held_s, left, reset_s, int(bucket.left(now)), bucket.pace.calls, bucket.pace.per_s)

    def _quota(self, now: float) -> tuple[int | None, float | None]:
        """The calls that the latest answer has left, and the seconds until they are counted anew."""
        (headers, at), rest = self._latest, self._backoff
        left = rest.left_of(headers) if isinstance(rest, Remaining) else None
        if left is None or not isinstance(rest, Remaining):
            return None, None
        wait_s = rest.wait_s(headers)
        reset_s = None if wait_s is None else at + wait_s - now
        return (None, None) if reset_s is not None and reset_s <= 0 else (left, reset_s)

    async def ask(
        self,
        call: HttpCall,
        deadline_at: float,
        *,
        accepts: Accepts = "json",
        waits: bool = True,
        again: bool = False,
        spacing_s: float = 0.0,
        account_id: str = "",
    ) -> Answer:
        """The answer to one request, tried again while that may help, within the retry budget (decisions 9).

        A GET may be tried again; with `again`, which says that nothing is changed by it, so may any other.

        While the upstream asks to be left alone it waits, no longer than one attempt may take; or not at all, where
        another source can be asked instead. `deadline_at` is the whole call's, on Trio's clock; an attempt ends with
        it, or after the rules' own time. Others are held back for `spacing_s` from its beginning on. A long answer is
        read in a turn of the account.

        Raises:
            CircuitOpen, Throttled: nothing was sent, or nothing any more after a first failure.
            NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: what the upstream answered.
        """
        asked_at = now = self._now()
        attempt = 0
        while True:
            turn = None
            if self._governor.held or self._bucket is not None:
                give_up_at = min(now + self._rules.timeout_s, deadline_at)
                turn = await self._turn(call, give_up_at if waits else math.nextafter(now, give_up_at))
                now = self._now()
            try:
                if spacing_s:
                    self._governor.hold(_WHOLE, spacing_s)
                self._count(attempt, now, deadline_at)
                answer = await self._attempt(call, accepts, turn, now, deadline_at, account_id=account_id)
            except UpstreamFailed as failure:
                pause_s = self._pause_s(call, failure, attempt, deadline_at, again=again)
                if pause_s is None:
                    raise
            else:
                waited = attempt or turn is not None
                return answer._replace(took_s=self._now() - asked_at) if waited else answer
            finally:
                if turn is not None:
                    turn.end()
            await trio.sleep(pause_s)
            now = self._now()
            attempt += 1

    async def _turn(self, call: HttpCall, give_up_at: float) -> Turn | None:
        """Wait for what the upstream asked of us, and for the pace that it is known to take."""
        while True:
            turn = await self._wait_turn(call, give_up_at) if self._governor.held else None
            wait_s = 0.0 if self._bucket is None else self._bucket.wait_s(self._path(call), self._now())
            if not wait_s:
                return turn
            if turn is not None:
                turn.end()
            self._governor.hold(_WHOLE, wait_s)

    def _wait_turn(self, call: HttpCall, give_up_at: float) -> Awaitable[Turn]:
        """Obey what the upstream asked of the whole source, or of this method of it."""
        method = self._method(call)
        names = (_WHOLE, method) if method else (_WHOLE,)
        return self._governor.wait_turn(names, give_up_at)

    def _method(self, call: HttpCall) -> str:
        return self._method_of(self._path(call))

    def _path(self, call: HttpCall) -> str:
        return call.target.partition("?")[0].removeprefix(self.base_path)

    def _count(self, attempt: int, now: float, deadline_at: float) -> None:
        if now >= deadline_at:  # sent, it would fail and be held against the source
            raise UpstreamFailed(self.name, "no time is left to ask it")
        if attempt:
            self._retries_total += 1
        else:
            self._budget.count_call(now)
            self._calls_total += 1

    def _pause_s(
        self, call: HttpCall, failure: UpstreamFailed, attempt: int, deadline_at: float, *, again: bool
    ) -> float | None:
        """Return the pause before another attempt; None when another would not help, or the budget has none left."""
        if not (failure.passing and (again or call.method == "GET") and attempt < self._rules.retries):
            return None
        pause_s = full_jitter(attempt, self._rng)
        now = self._now()
        return pause_s if now + pause_s < deadline_at and self._budget.take_nowait(now) else None

    async def _attempt(
        self,
        call: HttpCall,
        accepts: Accepts,
        turn: Turn | None,
        started: float,
        deadline_at: float,
        *,
        account_id: str,
    ) -> Answer:
        permit = self.breaker.take_nowait()
        self._in_flight += 1
        ends_at = min(started + self._rules.timeout_s, deadline_at)
        try:
            raw = await self._exchange(call, ends_at)
            if raw.status in FOLLOWED and not (accepts.__class__ is Form and not accepts.follows):
                raw = await follow(
                    raw, self._exchange, call, ends_at, source=self.name, goes_anywhere=self._goes_anywhere
                )
            took_s = self._now() - started
            if len(raw.body) <= long_bytes(accepts):
                answer = read_answer(raw, self.name, took_s, accepts=accepts, judge=self._judge, hidden=self._hidden)
            else:
                read = partial(
                    read_answer, raw, self.name, took_s, accepts=accepts, judge=self._judge, hidden=self._hidden
                )
                answer = await self._aside.run(read, ends_at, source=self.name, account_id=account_id)
        except httpx.RequestError as exc:
            permit.fail()
            raise failure_of(self.name, exc, self._now() - started) from exc
        except UpstreamFailed:
            permit.fail()
            raise
        except WorkersBusy:  # this node is busy, not the source: other accounts may go on
            permit.abandon()
            raise
        except UpstreamThrottled as throttled:
            permit.abandon()
            self._governor.hold(_WHOLE, throttled.retry_after_s or THROTTLED_S)
            raise
        except UpstreamError:
            permit.succeed()
            if turn is not None:
                turn.answered()
            raise
        except BaseException:  # cancelled, or a bug: it tells nothing about the source
            permit.abandon()
            raise
        finally:
            self._in_flight -= 1
        permit.succeed()
        self._latest = (answer.headers, started + answer.took_s)
        self._observe(answer, call, turn)
        return answer

    def _observe(self, answer: Answer, call: HttpCall, turn: Turn | None) -> None:
        """Do what a good answer asks for, and let those go who wait for one."""
        if (backoff := self._backoff(answer)) is not None:
            self._governor.hold(_WHOLE if backoff.scope == "source" else self._method(call), backoff.for_s)
        if turn is not None:
            turn.answered()
