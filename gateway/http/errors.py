"""Refusals, and which exception becomes which (spec 7.2).

To give a code to an exception of another package, add a row to `_REFUSALS`; the codes are in `gateway/http/codes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import ceil
from typing import Any

from billing.errors import AccountDeleted, AccountSuspended, InsufficientCredits, KeyBudgetReached, KeyUnusable
from gateway.http.codes import CODES, sentence
from gateway.server.http1.fields import NO_FIELDS, Fields
from limits.errors import (
    CircuitOpen,
    ClaimConflict,
    ClaimInProgress,
    ClaimMismatch,
    ClaimRefused,
    ConcurrencyReached,
    LongReadsReached,
    RateLimited,
    ReplayUnavailable,
    Throttled,
)
from scheduler.errors import (
    CohortQueryUnknown,
    CohortRefused,
    CohortUnknown,
    DiscoverRunUnknown,
    JobUnknown,
    MonitorInvalid,
    MonitorLimitReached,
    MonitorPaused,
    MonitorUnknown,
    RunTooSoon,
    RunUnknown,
    ScheduleUnknown,
    SessionUnknown,
    WorkRefused,
)
from scheduler.webhooks.errors import AccountWebhookUnknown, DeliveryUnknown, RedeliveryRefused, WebhookUnknown
from storage.errors import StateUnavailable, StorageError
from upstreams.model.errors import (
    InvalidArgument,
    InvalidCursor,
    NotFound,
    PartUnavailable,
    SourceUnusable,
    StaleCursor,
    UpstreamFailed,
    UpstreamThrottled,
    WorkersBusy,
)

THROTTLED_RETRY_AFTER_S = 30
STORE_RETRY_AFTER_S = 1
CONCURRENCY_RETRY_AFTER_S = 1
CLAIM_RETRY_AFTER_S = 1


class Refused(Exception):
    """A request is answered with an error: the code, what to tell, and the headers that belong to it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
        headers: Fields = NO_FIELDS,
        knows_balance: bool = True,
    ) -> None:
        super().__init__(message)
        self.code = CODES[code]
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        self.headers = headers
        self.knows_balance = knows_balance


class KeyMissing(Exception):
    """A request that needs a key has none; raised for every stranger, so it is as bare as can be."""


CORRECT = "Correct the parameter and ask again."


class InvalidParam(Refused):
    """400 for one parameter, field or header, as values: which it is, what is wrong with it, and what to do.

    `problem` goes on from the parameter's name, and `suggestion` is a whole sentence. `meant` is the name or value that
    was probably meant; it takes the place of the `reason` (spec 7.1). `more` stands in `details` beside.
    """

    def __init__(
        self,
        param: str,
        problem: str,
        *,
        suggestion: str = CORRECT,
        meant: str | None = None,
        reason: str = "invalid_param",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        end = "" if problem.endswith((".", "?")) else "."
        why = {"reason": reason} if meant is None else {"did_you_mean": meant}
        details = {**why, "param": param, "next_step": suggestion, **(more or {})}
        super().__init__("INVALID_REQUEST", f"{param} {problem}{end}", details=details)
        self.param = param
        self.problem = problem.removesuffix(".")
        self.meant = meant
        self.reason = reason


def refusal_of(exc: BaseException) -> Refused:
    """The refusal that an exception of any package becomes; INTERNAL_ERROR for one that nobody foresaw."""
    if isinstance(exc, Refused):
        return exc
    for kind in type(exc).__mro__:
        if (translate := _REFUSALS.get(kind)) is not None:
            return translate(exc)
    return Refused(
        "INTERNAL_ERROR", "Something unexpected went wrong here and was logged under this request_id; ask again later."
    )


def _credits_held(required: int) -> Refused:
    """The refusal of a call whose credits other calls hold, so that it may succeed in a moment (decisions 28)."""
    return Refused(
        "CONCURRENCY_LIMIT",
        f"This request costs {required} credits, which calls in flight hold; retry when they have ended.",
        details={"reason": "credits_held", "credits_required": required},
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
    )


def _insufficient(exc: InsufficientCredits) -> Refused:
    if exc.is_held:
        return _credits_held(exc.required)
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"The account holds {exc.balance} credits; this request costs {exc.required}.",
        details={"reason": "balance_too_low", "credits_required": exc.required},
    )


def _key_budget(exc: KeyBudgetReached) -> Refused:
    if exc.is_held:
        return _credits_held(exc.required)
    return Refused(
        "KEY_BUDGET_EXCEEDED",
        f"This key has used {exc.used} of its limit of {exc.limit} credits; this request costs {exc.required}.",
        details={"reason": "key_budget_reached", "credits_required": exc.required},
    )


@lru_cache(maxsize=256)  # a flood of them differs in little, and a remembered one costs a tenth
def _rate_limited(limit: int, reset_s: int) -> Refused:
    message = f"{limit} requests were admitted in the last 60 s; the next is free in {reset_s} s."
    return Refused("RATE_LIMITED", message, retry_after_s=reset_s or 1)


def _concurrency(exc: ConcurrencyReached) -> Refused:
    return Refused(
        "CONCURRENCY_LIMIT",
        f"{exc.limit} requests of this key are running; wait for one of them to end.",
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
        headers=((b"x-concurrency-limit", b"x-concurrency-remaining"), (b"%d" % exc.limit, b"0")),
    )


def _not_found(exc: NotFound) -> Refused:
    return Refused("RESOURCE_NOT_FOUND", str(exc), details={"reason": exc.reason} if exc.reason else None)


def _argument(exc: InvalidArgument) -> Refused:
    return InvalidParam(exc.param, exc.problem, reason=exc.reason)


def _monitor_invalid(exc: MonitorInvalid) -> Refused:
    """`details` has either a reason or the nearest right value (spec 7.1)."""
    near = exc.did_you_mean
    told = {"reason": exc.reason} if near is None else {"did_you_mean": near}
    message = str(exc) if str(exc).endswith("?") else f"{exc}."
    return Refused("INVALID_REQUEST", message, details={**told, "param": exc.param, "next_step": exc.next_step})


def _monitor_limit(exc: MonitorLimitReached) -> Refused:
    details = {
        "reason": "monitor_limit_reached",
        "param": "status",  # a paused one would pass
        "limit": exc.limit,
        "next_step": "Pause or delete a monitor, or choose a larger plan.",
    }
    return Refused("INVALID_REQUEST", sentence(exc), details=details)


def _monitor_paused(_exc: MonitorPaused) -> Refused:
    details = {"reason": "monitor_paused", "param": "monitor_id", "next_step": 'Send PATCH {"status": "active"} first.'}
    return Refused("INVALID_REQUEST", "A paused monitor is not run.", details=details)


def _cohort(exc: CohortRefused) -> Refused:
    told = {"reason": exc.reason} if exc.did_you_mean is None else {"did_you_mean": exc.did_you_mean}
    details = {**told, "param": exc.param, "next_step": exc.next_step, **exc.more}
    return Refused(_OF_COHORTS[exc.reason], f"{exc}.", details=details)


def _too_soon(exc: RunTooSoon) -> Refused:
    return Refused("RATE_LIMITED", sentence(exc), details={"reason": "run_too_soon"}, retry_after_s=exc.retry_after_s)


def _no_redelivery(exc: RedeliveryRefused) -> Refused:
    details = {"reason": exc.reason, "param": "delivery_id", "next_step": exc.next_step}
    return Refused("INVALID_REQUEST", f"This delivery cannot be sent again: {exc}.", details=details)


def _unknown(reason: str, way_out: str) -> Callable[[Exception], Refused]:
    return lambda exc: Refused("RESOURCE_NOT_FOUND", sentence(str(exc)[:300], way_out), details={"reason": reason})


def _claim_refused(code: str, way_out: str, retry_after_s: int | None = None) -> Callable[[ClaimRefused], Refused]:
    return lambda exc: Refused(code, sentence(exc, way_out), retry_after_s=retry_after_s)


def _waiting(message: str, retry_after_s: int) -> Refused:
    return Refused("SERVICE_UNAVAILABLE", message, retry_after_s=retry_after_s)


def _throttled_by_upstream(exc: UpstreamThrottled) -> Refused:
    wait_s = THROTTLED_RETRY_AFTER_S if exc.retry_after_s is None else max(1, round(exc.retry_after_s))
    return _waiting("The upstream asks all its callers to slow down.", wait_s)


def _away(message: str) -> Refused:
    return Refused("SERVICE_UNAVAILABLE", message, retry_after_s=STORE_RETRY_AFTER_S, knows_balance=False)


_MISSING_KEY = Refused("MISSING_API_KEY", "Send your API key in the x-api-key header, or as Authorization: Bearer.")
_UNUSABLE_KEY = Refused(
    "INVALID_API_KEY",
    "The API key is malformed, unknown, revoked or expired; send one that is active.",
    knows_balance=False,  # nobody hears of an account by a key that was revoked, though a stream began with it
)
_SUSPENDED = Refused(
    "INVALID_API_KEY",
    "The account of this API key is suspended; whoever runs this service can resume it.",
    details={"reason": "account_suspended"},
    knows_balance=False,
)
"""One for all, since nothing in them differs and floods must cost little; they are answered with, never raised."""
_OF_COHORTS = {
    "above_max_credits": "INVALID_REQUEST",
    "cohort_limit_reached": "COHORT_LIMIT_EXCEEDED",
    "member_limit_reached": "COHORT_MEMBER_LIMIT_EXCEEDED",
    "platform_unsupported": "COHORT_IDENTITY_PLATFORM_UNSUPPORTED",
    "identity_conflict": "COHORT_IDENTITY_CONFLICT",
    "query_over": "COHORT_QUERY_NOT_CANCELLABLE",
    "query_not_ready": "COHORT_QUERY_NOT_READY",
}
_BUSY = "The node has more pages to read than it can in time; nothing was charged."
_FRESH_KEY = "send a key of its own with each request"
_REFUSALS: Mapping[type, Callable[[Any], Refused]] = {
    KeyMissing: lambda _: _MISSING_KEY,
    KeyUnusable: lambda _: _UNUSABLE_KEY,
    AccountSuspended: lambda _: _SUSPENDED,
    AccountDeleted: lambda _: _UNUSABLE_KEY,  # all of its keys are revoked
    InsufficientCredits: _insufficient,
    KeyBudgetReached: _key_budget,
    RateLimited: lambda exc: _rate_limited(exc.state.limit, exc.state.reset_s),
    ConcurrencyReached: _concurrency,
    LongReadsReached: lambda exc: Refused(
        "CONCURRENCY_LIMIT",
        f"{sentence(exc)} Wait until one of them has been read.",
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
    ),
    InvalidArgument: _argument,
    InvalidCursor: lambda exc: InvalidParam("cursor", f"cannot be used: it {exc.problem}"),
    NotFound: _not_found,
    PartUnavailable: lambda exc: Refused("SERVICE_UNAVAILABLE", f"A part of it cannot be called here: {exc}."),
    SourceUnusable: lambda exc: Refused(
        "SERVICE_UNAVAILABLE", f"The operator must change this node's setup first: {exc}."
    ),
    UpstreamFailed: lambda exc: Refused("UPSTREAM_ERROR", f"The upstream did not answer usefully: {exc}."),
    StaleCursor: lambda exc: Refused("UPSTREAM_ERROR", f"The upstream no longer takes this cursor: {exc}."),
    UpstreamThrottled: _throttled_by_upstream,
    WorkersBusy: lambda exc: _waiting(_BUSY, ceil(exc.retry_after_s)),
    Throttled: lambda exc: _waiting("The upstream asked us to hold back for a while.", max(1, exc.retry_after_s)),
    ClaimConflict: _claim_refused("IDEMPOTENCY_KEY_CONFLICT", _FRESH_KEY),
    ClaimInProgress: _claim_refused("IDEMPOTENCY_IN_PROGRESS", "ask again in a moment", CLAIM_RETRY_AFTER_S),
    ClaimMismatch: _claim_refused("IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", _FRESH_KEY),
    ReplayUnavailable: _claim_refused("IDEMPOTENCY_REPLAY_UNAVAILABLE", "for another, billed one send another key"),
    MonitorInvalid: _monitor_invalid,
    MonitorUnknown: _unknown("unknown_monitor", "GET with status=all on the path before its id lists all"),
    RunUnknown: _unknown("unknown_run", "GET /v1/monitors/{id}/runs lists all"),
    ScheduleUnknown: _unknown("unknown_schedule", "GET /v1/prism/discover/schedules lists all"),
    DiscoverRunUnknown: _unknown("unknown_run", "GET /v1/prism/discover/runs lists all"),
    JobUnknown: _unknown("unknown_job", "GET on the path before its id lists all"),
    CohortUnknown: _unknown("unknown_cohort", "it was deleted, or its retention has passed"),
    CohortQueryUnknown: _unknown("unknown_cohort_query", "it goes with its cohort"),
    CohortRefused: _cohort,
    SessionUnknown: _unknown("unknown_session", "GET /v1/web/sessions lists all"),
    WorkRefused: lambda exc: Refused(
        "INVALID_REQUEST", f"{str(exc)[:300]}.", details={"reason": exc.reason, **exc.more}
    ),
    MonitorLimitReached: _monitor_limit,
    MonitorPaused: _monitor_paused,
    RunTooSoon: _too_soon,
    AccountWebhookUnknown: _unknown("unknown_webhook", "GET /v1/webhooks lists all"),
    WebhookUnknown: _unknown("unknown_webhook", "PATCH it with a webhook_url to give it one"),
    DeliveryUnknown: _unknown("unknown_delivery", "the list of deliveries has all"),
    RedeliveryRefused: _no_redelivery,
    CircuitOpen: lambda exc: _waiting("The upstream keeps failing; its circuit is open.", max(1, exc.retry_after_s)),
    StorageError: lambda _: _away("The store is away; nothing was charged."),
    StateUnavailable: lambda _: _away("The shared state is away; nothing was charged."),
}
