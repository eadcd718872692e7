"""One host of a platform, and the protection of its calls: breaker, governor, retries, time and size limits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, NamedTuple

import httpx
import trio

from limits.breaker import Breaker, Permit
from limits.errors import CircuitOpen
from limits.governor import Governor, Turn
from limits.retries import RetryBudget, full_jitter
from upstreams.fetching.answers import FAIR_S, blame_of, failure_of, read_answer
from upstreams.fetching.aside import Aside, long_bytes
from upstreams.fetching.redirects import FOLLOWED, follow
from upstreams.fetching.spending import Spending
from upstreams.model.errors import THROTTLED_S, Blame, UpstreamError, UpstreamFailed, UpstreamThrottled, WorkersBusy
from upstreams.model.hidden_errors import IsError
from upstreams.model.refusals import WHOLE_SOURCE, Backoff, Bucket, Judge, Pace, Remaining
from upstreams.model.steps import Accepts, Answer, Form
from upstreams.transport.http import Exchange, HttpCall, origin_of

WHOLE_HOST_S: Final = 60.0
"""The longest time that a caller-named host is paused for all accounts. After that, one call tries the host again."""
_PAUSE_REQUESTS_KEPT: Final = 20


@dataclass(frozen=True, slots=True)
class _Page:
    """The governor's key for one page of a host, which contains the hash of its target."""

    target: int


@dataclass(frozen=True, slots=True)
class _Account:
    """The governor's key for the calls of one account."""

    id: str


class _PauseRequest(NamedTuple):
    """A pause that one page of a caller-named host requested from an account."""

    until: float
    page: int
    account_id: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for calls to a source: the time limit of an attempt, and the retries after a transient failure."""

    timeout_s: float = 20.0
    retries: int = 2


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """The statistics of one source. Fields named `*_total` count since startup; the others are current."""

    calls_total: int
    """Calls, without retries."""
    retries_total: int
    retries_refused_total: int
    held_total: int
    queued_total: int
    queued: int
    throttled_total: int
    """Calls that the governor rejected."""
    in_flight: int
    """Attempts in flight."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How many more calls the upstream accepts from a source. None means unknown."""

    held_s: float
    """Remaining seconds of the pause that the upstream requested; 0 without a pause."""
    quota_left: int | None
    """Calls left in the quota according to the latest successful answer, until the quota resets."""
    quota_reset_s: float | None
    pace_left: int | None
    """Calls that can be made now under the platform's known rate limit. Each node counts separately."""
    pace_calls: float | None
    pace_per_s: float | None


class Source:
    """Calls one host of a platform. Its errors come from `upstreams.model.errors` or `limits.errors`.

    With `by_page`, for hosts that callers name, a failure or requested pause of one page does not affect the other
    pages. `address_of` returns the part of a source that a path belongs to, for sources whose parts fail separately.
    `now` is Trio's clock. Reading it through `current_clock` takes a third of the time of `trio.current_time`.
    """

    def __init__(  # noqa: PLR0913 - one argument per feature that the platform declares
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
        paces: Sequence[Pace] = (),
        budgets: Sequence[Spending] = (),
        hidden: IsError | None = None,
        allows_any_host: bool = False,
        by_page: bool = False,
        address_of: Callable[[str], Hashable] | None = None,
    ) -> None:
        self._allows_any_host = allows_any_host
        self._by_page = by_page
        self._address_of = address_of
        self._now = now
        self._budgets = tuple(budgets)
        self._limits: tuple[Bucket | Spending, ...] = (*(Bucket(pace, now()) for pace in paces), *budgets)
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
        self._pause_requests: deque[_PauseRequest] = deque(maxlen=_PAUSE_REQUESTS_KEPT)

    def adopt(self, *, backoff: Callable[[Answer], Backoff | None], method_of: Callable[[str], str]) -> None:
        """Replace the platform's functions, which are known only when its package is loaded."""
        self._backoff = backoff
        self._method_of = method_of

    def change(self, rules: Rules) -> None:
        """Apply new rules to all attempts that start after this call."""
        self._rules = rules

    def statistics(self) -> SourceStatistics:
        """Return the current statistics."""
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
        """Return how many more calls the upstream currently accepts."""
        now, hold = self._now(), self._governor.held.get(WHOLE_SOURCE)
        left, reset_s = self._quota(now)
        held_s = 0.0 if hold is None else max(0.0, hold.until - now)
        pace = self._limits[0].standing(now) if self._limits else (None, None, None)
        return Standing(held_s, left, reset_s, *pace)

    def _quota(self, now: float) -> tuple[int | None, float | None]:
        """Return the calls left according to the latest answer, and the seconds until the quota resets."""
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
        renewable: bool = False,
    ) -> Answer:
        """Send a request and return its answer. Retry while that may help and the retry budget allows it (decisions 9).

        - The circuit counts the request once, by the outcome of its last attempt, for this account. A probe is not
          retried.
        - A GET may be retried. With `again`, any other method may be retried too, because the caller states that the
          call changes nothing.
        - If the upstream requested a pause, the call waits, at most for the time limit of an attempt. Without `waits`,
          the call does not wait, because another source is available.
        - `deadline_at` limits the whole call, on Trio's clock. An attempt ends at that time, or after its own time
          limit.
        - Other calls must wait for `spacing_s` from the start of this one.
        - With `renewable`, the caller renews an expired session. The circuit does not count such a refusal.
        - Long answers are parsed in a thread, when it is the account's turn.

        Raises:
            CircuitOpen, Throttled: The call was not sent, or not sent again after a first failure.
            NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: The refusal of the upstream.
        """
        asked_at = now = self._now()
        attempt = 0
        blame: Blame = "node"
        while True:
            turn = permit = None
            if self._governor.held or self._limits:
                give_up_at = min(now + self._rules.timeout_s, deadline_at)
                give_up_at = give_up_at if waits else math.nextafter(now, give_up_at)
                turn = await self._turn(call, give_up_at, account_id)
                now = self._now()
            try:
                if spacing_s:
                    self._governor.hold(WHOLE_SOURCE, spacing_s)
                permit = self._admit(call, attempt, now, deadline_at, account_id)
                answer = await self._attempt(call, accepts, permit, turn, started=now, deadline_at=deadline_at)
            except UpstreamFailed as failure:
                if not (failure.blame == "node" or (renewable and failure.session_expired)):
                    blame = failure.blame
                is_probe = permit is not None and permit.is_probe
                pause_s = None if is_probe else self._pause_s(call, failure, attempt, deadline_at, again=again)
                if permit is not None:
                    self._report(permit, call, "node" if pause_s is not None else blame)
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

    def _report(self, permit: Permit, call: HttpCall, blame: Blame) -> None:
        """Report a failure to the circuit."""
        if blame == "node":
            permit.abandon()
        else:
            permit.fail(self._address(call), certain=blame == "source")

    def _address(self, call: HttpCall) -> Hashable:
        """Return the part of the source that a failed call belongs to. None if the source has no parts."""
        if self._by_page:
            return hash(call.target)
        return None if self._address_of is None else self._address_of(self._path(call))

    def release(self) -> None:
        """End the pause of the source, because the operator has removed its cause."""
        self._governor.release(WHOLE_SOURCE)

    async def _turn(self, call: HttpCall, give_up_at: float, account_id: str) -> Turn | None:
        """Wait for pauses that the upstream requested, and for the platform's known rates and budgets, and pay."""
        while True:
            turn = await self._wait_turn(call, give_up_at, account_id) if self._governor.held else None
            try:
                if self._budgets:
                    await self._claim(call)
                lacking = self._pay(call)
            except BaseException:
                if turn is not None:
                    turn.end()
                raise
            if lacking is None:
                return turn
            if turn is not None:
                turn.end()
            self._governor.hold(*lacking)

    async def _claim(self, call: HttpCall) -> None:
        """Make sure that each budget has this node's share for the call, if there is any left."""
        path = self._path(call)
        while budget := next((one for one in self._budgets if one.must_claim(path)), None):
            await budget.claim(path)

    def _pay(self, call: HttpCall) -> tuple[Hashable, float] | None:
        """Pay for a call from all limits. If that is not possible yet, return the name and the length of a hold."""
        path, now = self._path(call), self._now()
        for limit in self._limits:
            if wait_s := limit.wait_s(path, now):
                return limit.hold_name(path), wait_s
        for limit in self._limits:
            limit.take(path)
        return None

    def _wait_turn(self, call: HttpCall, give_up_at: float, account_id: str) -> Awaitable[Turn]:
        """Wait for pauses that the upstream requested for the source, for this method, or for this page or account."""
        method = self._method(call)
        names: tuple[Hashable, ...] = (WHOLE_SOURCE, method) if method else (WHOLE_SOURCE,)
        if self._budgets:
            names = (*names, *(budget.hold_name(self._path(call)) for budget in self._budgets))
        if self._by_page:
            names = (*names, _Page(hash(call.target)), _Account(account_id))
        return self._governor.wait_turn(names, give_up_at)

    def _method(self, call: HttpCall) -> str:
        return self._method_of(self._path(call))

    def _path(self, call: HttpCall) -> str:
        return call.target.partition("?")[0].removeprefix(self.base_path)

    def _admit(self, call: HttpCall, attempt: int, now: float, deadline_at: float, account_id: str) -> Permit:
        """Count an attempt and return its permit. If it must not be sent, refund what was paid for it."""
        if now >= deadline_at:  # the attempt would fail and count against the source
            self._give_back(call)
            raise UpstreamFailed(self.name, "no time left to call the source")
        if attempt:
            self._retries_total += 1
        else:
            self._budget.count_call(now)
            self._calls_total += 1
        try:
            return self.breaker.take_nowait(account_id)
        except CircuitOpen:
            self._give_back(call)
            raise

    def _give_back(self, call: HttpCall) -> None:
        for limit in self._limits:
            limit.give_back(self._path(call))

    def _pause_s(
        self, call: HttpCall, failure: UpstreamFailed, attempt: int, deadline_at: float, *, again: bool
    ) -> float | None:
        """Return the pause before another attempt; None if a retry would not help or the budget is used up."""
        if not (failure.passing and (again or call.method == "GET") and attempt < self._rules.retries):
            return None
        pause_s = full_jitter(attempt, self._rng)
        now = self._now()
        return pause_s if now + pause_s < deadline_at and self._budget.take_nowait(now) else None

    async def _attempt(
        self, call: HttpCall, accepts: Accepts, permit: Permit, turn: Turn | None, *, started: float, deadline_at: float
    ) -> Answer:
        """Send the request once. After an `UpstreamFailed`, the caller must report the failure to the permit."""
        self._in_flight += 1
        ends_at = min(started + self._rules.timeout_s, deadline_at)
        is_first = True
        try:
            raw = await self._exchange(call, ends_at)
            is_first = False
            if raw.status in FOLLOWED and not (isinstance(accepts, Form) and not accepts.follows):
                raw = await follow(
                    raw, self._exchange, call, ends_at, source=self.name, allows_any_host=self._allows_any_host
                )
            took_s = self._now() - started
            if len(raw.body) <= long_bytes(accepts):
                answer = read_answer(raw, self.name, took_s, accepts=accepts, judge=self._judge, hidden=self._hidden)
            else:
                read = partial(
                    read_answer, raw, self.name, took_s, accepts=accepts, judge=self._judge, hidden=self._hidden
                )
                answer = await self._aside.run(read, ends_at, source=self.name, account_id=permit.account)
        except httpx.RequestError as exc:
            had_s = FAIR_S if ends_at < deadline_at else ends_at - started
            blame = blame_of(exc, had_s=had_s, is_first=is_first)
            raise failure_of(self.name, exc, self._now() - started, blame=blame) from exc
        except UpstreamError as refusal:
            self._refused(refusal, call, permit, turn)
            raise
        except BaseException:  # a cancellation or a bug, which says nothing about the health of the source
            permit.abandon()
            raise
        finally:
            self._in_flight -= 1
        permit.succeed()
        self._latest = (answer.headers, started + answer.took_s)
        if (backoff := self._backoff(answer)) is not None:
            self._hold(
                call, permit.account, backoff.for_s, self._method(call) if backoff.scope == "method" else WHOLE_SOURCE
            )
        if turn is not None:
            turn.answered()
        return answer

    def _refused(self, refusal: UpstreamError, call: HttpCall, permit: Permit, turn: Turn | None) -> None:
        """Apply the effects of a refusal to the circuit and the governor. `ask` reports failures."""
        if isinstance(refusal, WorkersBusy):  # the node is busy, but the source is not
            permit.abandon()
        elif isinstance(refusal, UpstreamThrottled):
            permit.abandon()
            self._hold(call, permit.account, refusal.retry_after_s or THROTTLED_S)
        elif not isinstance(refusal, UpstreamFailed):
            permit.succeed()
            if turn is not None:
                turn.answered()

    def _hold(self, call: HttpCall, account_id: str, for_s: float, name: Hashable = WHOLE_SOURCE) -> None:
        """Pause calls to a source, as requested by an answer to this account.

        On a caller-named host, the answer counts only for its page, because other pages may have other owners. A second
        page that requests a pause also pauses the account. If another account read that page, all accounts are paused
        for a limited time. After that, one call tries again.
        """
        if not (self._by_page and account_id):
            self._governor.hold(name, for_s)
            return
        now, page = self._now(), hash(call.target)
        others = [one for one in self._pause_requests if one.until > now and one.page != page]
        self._pause_requests.append(_PauseRequest(now + for_s, page, account_id))
        self._governor.hold(_Page(page), for_s)
        if any(one.account_id == account_id for one in others):
            self._governor.hold(_Account(account_id), for_s)
        if any(one.account_id != account_id for one in others):
            self._governor.hold(name, min(for_s, WHOLE_HOST_S))
