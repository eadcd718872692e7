"""API errors, and the mapping from exceptions to errors (spec 7.2).

To give a code to an exception of another package, add a row to `_REFUSALS`; the codes are in `gateway/http/codes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    PartnerUnavailable,
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
    """A route rejects the request with this error: code, message, details and headers."""

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
    """The request needs a key but has none. Raised for every anonymous request, so it must be cheap to create."""


CORRECT = "Fix the parameter and retry."


class InvalidParam(Refused):
    """400 for one parameter, field or header, with its name, the problem, and the fix.

    `problem` continues the sentence that starts with the parameter's name; with `is_sentence`, it is the whole message.
    `suggestion` is a whole sentence. `meant` is the name or value that the caller probably meant, and replaces `reason`
    in `details` (spec 7.1). The items of `more` are added to `details`.
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
        is_sentence: bool = False,
    ) -> None:
        end = "" if problem.endswith((".", "?")) else "."
        why = {"reason": reason} if meant is None else {"did_you_mean": meant}
        details = {**why, "param": param, "next_step": suggestion, **(more or {})}
        message = problem if is_sentence else f"{param} {problem}"
        super().__init__("INVALID_REQUEST", f"{message}{end}", details=details)
        self.param = param
        self.problem = problem.removesuffix(".")
        self.meant = meant
        self.reason = reason


def unknown_name(
    what: str, name: str, known: Iterable[str], meant: str | None, *, others: Sequence[str] = ()
) -> InvalidParam:
    """Return the error for an unknown name; `what` is "parameter" or "field".

    `known` has the valid names, and `others` has the request's other unknown names.
    """
    hint = f"Did you mean `{meant}`?" if meant is not None else f"Valid {what}s: {', '.join(known) or 'none'}"
    more = {"remove_params": [name, *others]}
    return InvalidParam(name, f"Unknown {what} `{name}`. {hint}", meant=meant, more=more, is_sentence=True)


def refusal_of(exc: BaseException) -> Refused:
    """Return the error for an exception of any package; INTERNAL_ERROR for an unexpected one."""
    if isinstance(exc, Refused):
        return exc
    for kind in type(exc).__mro__:
        if (translate := _REFUSALS.get(kind)) is not None:
            return translate(exc)
    return Refused("INTERNAL_ERROR", "An unexpected error occurred and was logged under this request_id. Retry later.")


def _credits_held(required: int) -> Refused:
    """Return the error for a call whose credits are reserved by other calls. A retry may succeed (decisions 28)."""
    return Refused(
        "CONCURRENCY_LIMIT",
        f"Other calls have reserved the credits for this request ({required}); retry when they have finished.",
        details={"reason": "credits_held", "credits_required": required},
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
    )


def _insufficient(exc: InsufficientCredits) -> Refused:
    if exc.is_held:
        return _credits_held(exc.required)
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"This request costs more credits ({exc.required}) than the account has ({exc.balance}).",
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


@lru_cache(maxsize=256)  # During a flood most errors are identical; a cached one takes a tenth of the time.
def _rate_limited(limit: int, reset_s: int) -> Refused:
    message = f"The limit of {limit} requests in 60 s is reached; retry in {reset_s} s."
    return Refused("RATE_LIMITED", message, retry_after_s=reset_s or 1)


def _concurrency(exc: ConcurrencyReached) -> Refused:
    return Refused(
        "CONCURRENCY_LIMIT",
        f"{exc.limit} requests with this key are already running; wait for one to finish.",
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
        headers=((b"x-concurrency-limit", b"x-concurrency-remaining"), (b"%d" % exc.limit, b"0")),
    )


def _not_found(exc: NotFound) -> Refused:
    return Refused("RESOURCE_NOT_FOUND", str(exc), details={"reason": exc.reason} if exc.reason else None)


def _argument(exc: InvalidArgument) -> Refused:
    return InvalidParam(exc.param, exc.problem, reason=exc.reason)


def _monitor_invalid(exc: MonitorInvalid) -> Refused:
    """Return the error. Its `details` contain either a reason or the nearest valid value (spec 7.1)."""
    near = exc.did_you_mean
    detail = {"reason": exc.reason} if near is None else {"did_you_mean": near}
    message = str(exc) if str(exc).endswith("?") else f"{exc}."
    return Refused("INVALID_REQUEST", message, details={**detail, "param": exc.param, "next_step": exc.next_step})


def _monitor_limit(exc: MonitorLimitReached) -> Refused:
    details = {
        "reason": "monitor_limit_reached",
        "param": "status",  # A paused monitor may exceed the limit.
        "limit": exc.limit,
        "next_step": "Pause or delete a monitor, or choose a larger plan.",
    }
    return Refused("INVALID_REQUEST", sentence(exc), details=details)


def _monitor_paused(_exc: MonitorPaused) -> Refused:
    details = {"reason": "monitor_paused", "param": "monitor_id", "next_step": 'Send PATCH {"status": "active"} first.'}
    return Refused("INVALID_REQUEST", "The monitor is paused.", details=details)


def _cohort(exc: CohortRefused) -> Refused:
    detail = {"reason": exc.reason} if exc.did_you_mean is None else {"did_you_mean": exc.did_you_mean}
    details = {**detail, "param": exc.param, "next_step": exc.next_step, **exc.more}
    return Refused(_OF_COHORTS[exc.reason], f"{exc}.", details=details)


def _too_soon(exc: RunTooSoon) -> Refused:
    return Refused("RATE_LIMITED", sentence(exc), details={"reason": "run_too_soon"}, retry_after_s=exc.retry_after_s)


def _no_redelivery(exc: RedeliveryRefused) -> Refused:
    details = {"reason": exc.reason, "param": "delivery_id", "next_step": exc.next_step}
    return Refused("INVALID_REQUEST", f"This delivery cannot be sent again: {exc}.", details=details)


def _unknown(reason: str, remedy: str) -> Callable[[Exception], Refused]:
    return lambda exc: Refused("RESOURCE_NOT_FOUND", sentence(str(exc)[:300], remedy), details={"reason": reason})


def _claim_refused(code: str, remedy: str, retry_after_s: int | None = None) -> Callable[[ClaimRefused], Refused]:
    return lambda exc: Refused(code, sentence(exc, remedy), retry_after_s=retry_after_s)


def _waiting(message: str, retry_after_s: int) -> Refused:
    return Refused("SERVICE_UNAVAILABLE", message, retry_after_s=retry_after_s)


def _throttled_by_upstream(exc: UpstreamThrottled) -> Refused:
    wait_s = THROTTLED_RETRY_AFTER_S if exc.retry_after_s is None else max(1, round(exc.retry_after_s))
    return _waiting("The upstream asks callers to slow down.", wait_s)


def _away(message: str) -> Refused:
    return Refused("SERVICE_UNAVAILABLE", message, retry_after_s=STORE_RETRY_AFTER_S, knows_balance=False)


_MISSING_KEY = Refused("MISSING_API_KEY", "Send your API key in the x-api-key header, or as Authorization: Bearer.")
_UNUSABLE_KEY = Refused(
    "INVALID_API_KEY",
    "The API key is malformed, unknown, revoked or expired; send one that is active.",
    # A response to a revoked key reveals nothing about its account, even in a stream that started earlier.
    knows_balance=False,
)
_SUSPENDED = Refused(
    "INVALID_API_KEY",
    "The account of this API key is suspended; the operator of this service can resume it.",
    details={"reason": "account_suspended"},
    knows_balance=False,
)
"""Shared instances, because they are always equal and must be cheap during a flood. They are returned, never raised."""
_OF_COHORTS = {
    "above_max_credits": "INVALID_REQUEST",
    "cohort_limit_reached": "COHORT_LIMIT_EXCEEDED",
    "member_limit_reached": "COHORT_MEMBER_LIMIT_EXCEEDED",
    "platform_unsupported": "COHORT_IDENTITY_PLATFORM_UNSUPPORTED",
    "identity_conflict": "COHORT_IDENTITY_CONFLICT",
    "query_over": "COHORT_QUERY_NOT_CANCELLABLE",
    "query_not_ready": "COHORT_QUERY_NOT_READY",
}
_BUSY = "The node is too busy to read this page in time; nothing was charged."
_FRESH_KEY = "use a new key for each request"
_REFUSALS: Mapping[type, Callable[[Any], Refused]] = {
    KeyMissing: lambda _: _MISSING_KEY,
    KeyUnusable: lambda _: _UNUSABLE_KEY,
    AccountSuspended: lambda _: _SUSPENDED,
    AccountDeleted: lambda _: _UNUSABLE_KEY,  # Like a revoked key: deleting an account revokes its keys.
    InsufficientCredits: _insufficient,
    KeyBudgetReached: _key_budget,
    RateLimited: lambda exc: _rate_limited(exc.state.limit, exc.state.reset_s),
    ConcurrencyReached: _concurrency,
    LongReadsReached: lambda exc: Refused(
        "CONCURRENCY_LIMIT",
        f"{sentence(exc)} Wait until one of them has finished.",
        retry_after_s=CONCURRENCY_RETRY_AFTER_S,
    ),
    InvalidArgument: _argument,
    InvalidCursor: lambda exc: InvalidParam("cursor", f"cannot be used: it {exc.problem}"),
    NotFound: _not_found,
    PartUnavailable: lambda exc: Refused(
        "SERVICE_UNAVAILABLE", f"A part of this call is unavailable on this node: {exc}."
    ),
    SourceUnusable: lambda exc: Refused(
        "SERVICE_UNAVAILABLE", f"The operator must change this node's configuration: {exc}."
    ),
    UpstreamFailed: lambda exc: Refused("UPSTREAM_ERROR", f"The upstream did not return a usable response: {exc}."),
    StaleCursor: lambda exc: Refused("UPSTREAM_ERROR", f"The upstream no longer accepts this cursor: {exc}."),
    UpstreamThrottled: _throttled_by_upstream,
    PartnerUnavailable: lambda exc: _waiting(
        "This data is temporarily unavailable; nothing was charged.", max(1, ceil(exc.retry_after_s or 0))
    ),
    WorkersBusy: lambda exc: _waiting(_BUSY, ceil(exc.retry_after_s)),
    Throttled: lambda exc: _waiting("The upstream is throttling this node.", max(1, exc.retry_after_s)),
    ClaimConflict: _claim_refused("IDEMPOTENCY_KEY_CONFLICT", _FRESH_KEY),
    ClaimInProgress: _claim_refused("IDEMPOTENCY_IN_PROGRESS", "retry in a moment", CLAIM_RETRY_AFTER_S),
    ClaimMismatch: _claim_refused("IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", _FRESH_KEY),
    ReplayUnavailable: _claim_refused("IDEMPOTENCY_REPLAY_UNAVAILABLE", "use another key for a new, billed response"),
    MonitorInvalid: _monitor_invalid,
    MonitorUnknown: _unknown("unknown_monitor", "to list all monitors, GET the path before the id with status=all"),
    RunUnknown: _unknown("unknown_run", "GET /v1/monitors/{id}/runs lists all runs"),
    ScheduleUnknown: _unknown("unknown_schedule", "GET /v1/prism/discover/schedules lists all schedules"),
    DiscoverRunUnknown: _unknown("unknown_run", "GET /v1/prism/discover/runs lists all runs"),
    JobUnknown: _unknown("unknown_job", "to list all jobs, GET the path before the id"),
    CohortUnknown: _unknown("unknown_cohort", "it was deleted, or its retention period has ended"),
    CohortQueryUnknown: _unknown("unknown_cohort_query", "queries are deleted with their cohort"),
    CohortRefused: _cohort,
    SessionUnknown: _unknown("unknown_session", "GET /v1/web/sessions lists all sessions"),
    WorkRefused: lambda exc: Refused(
        "INVALID_REQUEST", f"{str(exc)[:300]}.", details={"reason": exc.reason, **exc.more}
    ),
    MonitorLimitReached: _monitor_limit,
    MonitorPaused: _monitor_paused,
    RunTooSoon: _too_soon,
    AccountWebhookUnknown: _unknown("unknown_webhook", "GET /v1/webhooks lists all webhooks"),
    WebhookUnknown: _unknown("unknown_webhook", "to add one, PATCH the monitor with a webhook_url"),
    DeliveryUnknown: _unknown("unknown_delivery", "the list of deliveries shows all of them"),
    RedeliveryRefused: _no_redelivery,
    CircuitOpen: lambda exc: _waiting("The upstream keeps failing; its circuit is open.", max(1, exc.retry_after_s)),
    StorageError: lambda _: _away("The store is unavailable; nothing was charged."),
    StateUnavailable: lambda _: _away("The shared state is unavailable; nothing was charged."),
}
