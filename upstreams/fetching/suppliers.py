"""Suppliers, and the source that a platform has at them (decisions 25).

A supplier is one `Source` for all platforms that it serves, with one key, pool, breaker, pace and balance. Each of
these platforms has a `PartnerSource`, which calls the supplier and, if it fails, the supplier's own fallback. Customers
can read the errors of a `PartnerSource`, so these errors contain neither the supplier's name nor its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from limits.breaker import BreakerRules, BreakerStatistics, State
from limits.errors import CircuitOpen, LimitError
from upstreams.fetching.source import Rules, Source, SourceStatistics, Standing
from upstreams.fetching.supplier_costs import SupplierCosts, UnitCost
from upstreams.model.errors import (
    NotFound,
    PartnerReason,
    PartnerUnavailable,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
    WorkersBusy,
    failure_to_report,
)
from upstreams.model.steps import Answer, Call
from upstreams.model.supplier_interface import Interface
from upstreams.transport.http import HttpCall

_ISOLATED_S = 30
_BEST_FIRST: tuple[State, ...] = ("closed", "half_open", "open")


class SupplierWatch(Protocol):
    """Receives what the operator must know about a supplier."""

    def failed(self, supplier: str, platform: str, failure: UpstreamError) -> None:
        """Record a failed call. `failure` is unchanged, and its notes contain the supplier's words."""
        ...

    def alert(self, supplier: str, kind: str) -> None:
        """Tell the operator about a problem that only the operator can solve."""
        ...


class Supplier:
    """One supplier on this node, shared by all platforms that it serves.

    `balance` is the number of the operator's remaining units according to the latest answer, or None if unknown.
    """

    def __init__(
        self, name: str, interface: Interface, source: Source, *, key: str, costs: SupplierCosts, watch: SupplierWatch
    ) -> None:
        self.name = name
        self.interface = interface
        self.source = source
        self.key = key
        self.costs = costs
        self.balance: int | None = None
        self._refused: PartnerReason | None = None
        self._headers = interface.headers(key)
        self._watch = watch

    async def ask(
        self, request: HttpCall, deadline_at: float, call: Call, *, platform: str, waits: bool, account_id: str
    ) -> Answer:
        """See `Source.ask`. The request is sent to this supplier, with its key.

        Raises:
            PartnerUnavailable: The supplier cannot be used until the operator acts, or until tomorrow.
        """
        expected, cost = self.interface.usual_cost(call.path), UnitCost()
        try:
            self.costs.reserve(expected)
        except PartnerUnavailable as refusal:
            self._note(refusal, platform)
            raise
        try:
            answer = await self.source.ask(
                self._addressed(request, call),
                deadline_at,
                accepts=call.accepts,
                waits=waits,
                again=call.only_reads,
                account_id=account_id,
            )
            cost = UnitCost(1, 0, self.interface.cost(call.path, answer))
        except UpstreamError as refusal:
            cost = UnitCost(1, int(not isinstance(refusal, NotFound)), refusal.charged_units)
            self._note(refusal, platform)
            raise
        finally:
            self.costs.count(platform, call.resource, cost, reserved=expected)
        self._refused = None
        if self.interface.left and (left := answer.number(self.interface.left)) is not None:
            self.balance = left
        return answer

    @property
    def unusable(self) -> PartnerReason | None:
        """Why the supplier currently refuses all calls. None if it does not."""
        return "budget_used" if self.costs.left_today == 0 else self._refused

    @property
    def state(self) -> State:
        """The state of the circuit, which also counts as open while the supplier refuses all calls."""
        return "open" if self.unusable else self.source.breaker.state

    def reset(self) -> None:
        """Allow calls again immediately, because the operator has added credits."""
        self._refused = None
        self.source.release()
        self.source.breaker.reset()

    def _addressed(self, request: HttpCall, call: Call) -> HttpCall:
        """Return the request with this supplier's address and key."""
        source = self.source
        headers = (*request.headers, *self._headers)
        return request._replace(origin=source.origin, target=call.target(source.base_path), headers=headers)

    def _note(self, refusal: UpstreamError, platform: str) -> None:
        """Pass a refusal on to the operator."""
        if isinstance(refusal, PartnerUnavailable):
            if refusal.reason != "budget_used":
                self._refused = refusal.reason
            if refusal.reason == "unpaid":
                self.balance = 0
            self._watch.alert(self.name, refusal.reason)
        if not isinstance(refusal, NotFound):
            self._watch.failed(self.name, platform, refusal)


class PartnerSource:
    """A platform's source at a chain of suppliers with the same interface, used like a single `Source`; see `ask`."""

    def __init__(self, name: str, platform: str, chain: Sequence[Supplier]) -> None:
        """`name` is the source's name in the platform's declaration. The chain is called in order."""
        self.name = name
        self.chain = tuple(chain)
        self.breaker = PartnerSwitch(self.chain)
        self._platform = platform
        self._calls_total = self._in_flight = 0

    @property
    def own_members(self) -> tuple[str, ...]:
        """The body members that customers must not see."""
        return self.chain[0].interface.own_members

    def source_at(self, _host: str) -> Source:
        """Return the source whose address requests are built for."""
        return self.chain[0].source

    async def ask(
        self, request: HttpCall, deadline_at: float, call: Call, *, waits: bool, account_id: str = ""
    ) -> Answer:
        """See `Source.ask`. If a supplier fails or cannot be called now, its fallback is called.

        Each supplier gets an equal share of the remaining time, and the call waits only for the last one. The errors
        contain nothing about the supplier. The supplier's `watch` receives the original errors.

        Raises:
            CircuitOpen: The operator has isolated the platform.
        """
        if self.breaker.is_isolated:
            raise CircuitOpen(_ISOLATED_S)
        failures: list[UpstreamError | LimitError] = []
        self._calls_total += 1
        self._in_flight += 1
        try:
            for place, supplier in enumerate(self.chain):
                now, left = trio.current_time(), len(self.chain) - place - 1
                ends_at = now + (deadline_at - now) / (left + 1)
                try:
                    answer = await supplier.ask(
                        request,
                        ends_at,
                        call,
                        platform=self._platform,
                        waits=waits and not left,
                        account_id=account_id,
                    )
                except (UpstreamError, LimitError) as failure:
                    failures.append(failure)
                    if _is_final(failure):
                        break
                else:
                    return answer._replace(source=self.name)
            last = failures[-1]
            refusal = _without_words(self.name, last if _is_final(last) else failure_to_report(failures))
        finally:
            self._in_flight -= 1
            failures.clear()  # as in `fetch`
        raise refusal  # outside of the except block, so that the original error is not attached to it

    def change(self, rules: Rules) -> None:
        """Ignore the platform's rules, because a supplier has its own."""

    def standing(self) -> Standing:
        """Return how many more calls the first supplier currently accepts."""
        return self.chain[0].source.standing()

    def statistics(self) -> SourceStatistics:
        """Return the statistics of this platform's calls. Retries and pauses are counted for the supplier."""
        return SourceStatistics(
            calls_total=self._calls_total,
            retries_total=0,
            retries_refused_total=0,
            held_total=0,
            queued_total=0,
            queued=0,
            throttled_total=0,
            in_flight=self._in_flight,
        )


class PartnerSwitch:
    """The circuits of a chain of suppliers as one circuit, which can be isolated for one platform."""

    def __init__(self, chain: Sequence[Supplier]) -> None:
        self._chain = chain
        self.is_isolated = False

    @property
    def state(self) -> State:
        """The state of the best circuit in the chain. See `Breaker.state`."""
        states = {supplier.state for supplier in self._chain}
        return "open" if self.is_isolated else next(state for state in _BEST_FIRST if state in states)

    def isolate(self) -> None:
        """Block this platform's calls until `reset`."""
        self.is_isolated = True

    def reset(self) -> None:
        """Allow this platform's calls again. The suppliers' circuits do not change."""
        self.is_isolated = False

    def change(self, rules: BreakerRules) -> None:
        """Ignore the rules, because they are applied to the suppliers' own circuits."""

    def statistics(self) -> BreakerStatistics:
        """Return the state. The suppliers' own circuits count failures."""
        return BreakerStatistics(
            state=self.state,
            isolated=self.is_isolated,
            failures=0,
            retry_after_s=0,
            generation=0,
            opened_total=0,
            refused_total=0,
        )


def _is_final(failure: UpstreamError | LimitError) -> bool:
    """Return whether a failure is a definite answer, so that no further supplier is called."""
    return not isinstance(failure, UpstreamFailed | UpstreamThrottled | LimitError)


def _without_words(source: str, failure: UpstreamError | LimitError) -> UpstreamError | LimitError:
    """Return an equivalent error that contains nothing about the supplier.

    The messages of limits and of busy workers are the node's own, so these errors stay.
    """
    if isinstance(failure, LimitError | WorkersBusy):
        return failure
    if isinstance(failure, PartnerUnavailable):
        return PartnerUnavailable(source, failure.reason, failure.retry_after_s or 0.0)
    if isinstance(failure, UpstreamThrottled):
        return UpstreamThrottled(source, failure.retry_after_s)
    if isinstance(failure, NotFound):
        return NotFound(reason=failure.reason, by_status=failure.by_status)
    passing = isinstance(failure, UpstreamFailed) and failure.passing
    return UpstreamFailed(source, "the source did not return a usable response", passing=passing)
