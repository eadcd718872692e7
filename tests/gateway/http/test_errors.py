"""The mapping from exceptions to rows of the error table, and the contents of the responses (spec 7.2, 7.3, 7.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import InsufficientCredits, KeyBudgetReached, KeyUnusable
from gateway.http.codes import CODES
from gateway.http.errors import CORRECT, InvalidParam, KeyMissing, Refused, refusal_of
from gateway.server.http1.fields import NO_FIELDS, Fields
from limits.errors import (
    CircuitOpen,
    ClaimConflict,
    ClaimInProgress,
    ClaimMismatch,
    ConcurrencyReached,
    RateLimited,
    ReplayUnavailable,
    Throttled,
    WindowState,
)
from scheduler.errors import (
    CadenceInvalid,
    MonitorInvalid,
    MonitorLimitReached,
    MonitorPaused,
    MonitorUnknown,
    RulesInvalid,
    RunTooSoon,
    TrackInvalid,
)
from scheduler.recipes import RecipeInvalid
from scheduler.webhooks.errors import DeliveryUnknown, RedeliveryRefused, WebhookUnknown
from storage.errors import StateUnavailable, StoreBusy, StoreUnavailable
from upstreams.model.errors import (
    InvalidArgument,
    InvalidCursor,
    NotFound,
    StaleCursor,
    UpstreamFailed,
    UpstreamThrottled,
    WorkersBusy,
)

LEASES: Fields = ((b"x-concurrency-limit", b"x-concurrency-remaining"), (b"50", b"0"))


@dataclass(frozen=True, slots=True)
class Row:
    """An exception and the expected error."""

    exc: Exception
    code: str
    says: str
    details: dict[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None
    headers: Fields = NO_FIELDS
    knows_balance: bool = True


def wrong(param: str, **more: Any) -> dict[str, Any]:
    return {"reason": "invalid_param", "param": param, "next_step": CORRECT, **more}


def monitor(exc: MonitorInvalid, **more: Any) -> Row:
    details = {"reason": "invalid_param", "param": "track.metrics", "next_step": "Send another.", **more}
    return Row(exc, "INVALID_REQUEST", "track.metrics is wrong.", details)


SENT = ("track.metrics", "is wrong", "Send another.")
ROWS = {
    "no key": Row(KeyMissing(), "MISSING_API_KEY", "x-api-key header"),
    "a revoked key": Row(KeyUnusable("revoked"), "INVALID_API_KEY", "one that is active", knows_balance=False),
    "too few credits": Row(
        InsufficientCredits(required=5, balance=4),
        "INSUFFICIENT_CREDITS",
        "costs more credits (5) than the account has (4)",
        {"reason": "balance_too_low", "credits_required": 5},
    ),
    "a spent key": Row(
        KeyBudgetReached(required=5, limit=9, used=7),
        "KEY_BUDGET_EXCEEDED",
        "has used 7 of its limit of 9 credits; this request costs 5",
        {"reason": "key_budget_reached", "credits_required": 5},
    ),
    "a full window": Row(
        RateLimited(WindowState(600, 0, 7)), "RATE_LIMITED", "limit of 600 requests in 60 s", retry_after_s=7
    ),
    "a window that resets now": Row(
        RateLimited(WindowState(600, 0, 0)), "RATE_LIMITED", "retry in 0 s", retry_after_s=1
    ),
    "all leases held": Row(
        ConcurrencyReached(50), "CONCURRENCY_LIMIT", "50 requests with this key", retry_after_s=1, headers=LEASES
    ),
    "an unsuitable value": Row(InvalidArgument("url", "leads elsewhere"), "INVALID_REQUEST", "url leads", wrong("url")),
    "a cursor of another list": Row(
        InvalidCursor("was changed"), "INVALID_REQUEST", "cursor cannot be used: it was changed", wrong("cursor")
    ),
    "no such thing": Row(NotFound("There is none."), "RESOURCE_NOT_FOUND", "There is none."),
    "no such account": Row(
        NotFound("Gone.", reason="account_gone"), "RESOURCE_NOT_FOUND", "Gone.", {"reason": "account_gone"}
    ),
    "a failing upstream": Row(
        UpstreamFailed("api", "status 500"), "UPSTREAM_ERROR", "usable response: api: status 500"
    ),
    "a stale cursor": Row(StaleCursor("it is too old"), "UPSTREAM_ERROR", "no longer accepts this cursor"),
    "a throttle without a time": Row(UpstreamThrottled("api"), "SERVICE_UNAVAILABLE", "slow down", retry_after_s=30),
    "a throttle with a time": Row(UpstreamThrottled("api", 12.4), "SERVICE_UNAVAILABLE", "slow down", retry_after_s=12),
    "a throttle with a tiny time": Row(
        UpstreamThrottled("api", 0.1), "SERVICE_UNAVAILABLE", "slow down", retry_after_s=1
    ),
    "more to read than time allows": Row(
        WorkersBusy(22.3), "SERVICE_UNAVAILABLE", "nothing was charged", retry_after_s=23
    ),
    "a held source": Row(Throttled(9), "SERVICE_UNAVAILABLE", "throttling this node", retry_after_s=9),
    "a source whose hold is over": Row(Throttled(0), "SERVICE_UNAVAILABLE", "throttling this node", retry_after_s=1),
    "an open circuit": Row(CircuitOpen(30), "SERVICE_UNAVAILABLE", "circuit is open", retry_after_s=30),
    "a circuit about to close": Row(CircuitOpen(0), "SERVICE_UNAVAILABLE", "circuit is open", retry_after_s=1),
    "another request of the key": Row(ClaimConflict(), "IDEMPOTENCY_KEY_CONFLICT", "a new key"),
    "the same request still running": Row(
        ClaimInProgress(), "IDEMPOTENCY_IN_PROGRESS", "retry in a moment", retry_after_s=1
    ),
    "other parameters": Row(ClaimMismatch(), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", "a new key"),
    "an outcome too long to store": Row(
        ReplayUnavailable(), "IDEMPOTENCY_REPLAY_UNAVAILABLE", "use another key for a new, billed response"
    ),
    "a wrong field": monitor(MonitorInvalid(*SENT)),
    "a wrong recipe": monitor(RecipeInvalid(*SENT, reason="double_encoded"), reason="double_encoded"),
    "a wrong cadence": monitor(CadenceInvalid(*SENT)),
    "a wrong track": monitor(TrackInvalid(*SENT)),
    "a wrong rule": monitor(RulesInvalid(*SENT)),
    "a misspelled field": Row(
        MonitorInvalid(*SENT, did_you_mean="total"),
        "INVALID_REQUEST",
        "is wrong.",
        {"did_you_mean": "total", "param": "track.metrics", "next_step": "Send another."},
    ),
    "a field with a question": Row(
        MonitorInvalid("name", "is odd; did you mean x?", "Send x."),
        "INVALID_REQUEST",
        "did you mean x?",
        wrong("name", next_step="Send x."),
    ),
    "an unknown monitor": Row(
        MonitorUnknown("mon_9A"),
        "RESOURCE_NOT_FOUND",
        "Unknown monitor mon_9A; to list all",
        {"reason": "unknown_monitor"},
    ),
    "the plan's maximum of monitors": Row(
        MonitorLimitReached("free", 3, "active monitors"),
        "INVALID_REQUEST",
        "The plan free allows 3 active monitors.",
        {
            "reason": "monitor_limit_reached",
            "param": "status",
            "limit": 3,
            "next_step": "Pause or delete a monitor, or choose a larger plan.",
        },
    ),
    "a paused monitor": Row(
        MonitorPaused(),
        "INVALID_REQUEST",
        "The monitor is paused.",
        {"reason": "monitor_paused", "param": "monitor_id", "next_step": 'Send PATCH {"status": "active"} first.'},
    ),
    "a run too soon": Row(
        RunTooSoon(41), "RATE_LIMITED", "again in 41 s.", {"reason": "run_too_soon"}, retry_after_s=41
    ),
    "no webhook": Row(
        WebhookUnknown("mon_9"), "RESOURCE_NOT_FOUND", "mon_9 has no webhook; to add one", {"reason": "unknown_webhook"}
    ),
    "no delivery": Row(
        DeliveryUnknown("whd_9"),
        "RESOURCE_NOT_FOUND",
        "Unknown delivery whd_9; the list",
        {"reason": "unknown_delivery"},
    ),
    "a repeated redelivery": Row(
        RedeliveryRefused("delivery_pending", "it is under way", "Wait for it."),
        "INVALID_REQUEST",
        "cannot be sent again: it is under way.",
        {"reason": "delivery_pending", "param": "delivery_id", "next_step": "Wait for it."},
    ),
    "an unavailable store": Row(
        StoreUnavailable("disk full"),
        "SERVICE_UNAVAILABLE",
        "store is unavailable",
        retry_after_s=1,
        knows_balance=False,
    ),
    "a busy store": Row(
        StoreBusy(), "SERVICE_UNAVAILABLE", "nothing was charged", retry_after_s=1, knows_balance=False
    ),
    "an unavailable state": Row(
        StateUnavailable("no Redis"),
        "SERVICE_UNAVAILABLE",
        "shared state is unavailable",
        retry_after_s=1,
        knows_balance=False,
    ),
    "a bug": Row(ZeroDivisionError("secret"), "INTERNAL_ERROR", "logged under this request_id"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_exception_maps_to_the_expected_error_with_consistent_details(row: Row) -> None:
    refused = refusal_of(row.exc)
    assert (refused.code.name, refused.details or {}) == (row.code, row.details)
    assert row.says in refused.message
    assert refused.retry_after_s == row.retry_after_s
    assert refused.headers == row.headers
    assert refused.knows_balance == row.knows_balance
    assert refused.code.retryable or refused.retry_after_s is None
    assert not {"reason", "did_you_mean"} <= row.details.keys()
    assert row.code != "INVALID_REQUEST" or {"param", "next_step"} <= row.details.keys()


@given(st.floats(0.001, 1e9), st.integers(0, 10**6))
def test_retry_after_is_at_least_one_whole_second(said_s: float, known_s: int) -> None:
    for exc in (
        UpstreamThrottled("api", said_s),
        Throttled(known_s),
        CircuitOpen(known_s),
        RateLimited(WindowState(600, 0, known_s)),
    ):
        wait_s = refusal_of(exc).retry_after_s
        assert isinstance(wait_s, int)
        assert 1 <= wait_s <= max(86_400, known_s)


def test_unexpected_error_reveals_no_details() -> None:
    assert "secret" not in refusal_of(ZeroDivisionError("secret")).message


def test_refused_exception_is_returned_unchanged() -> None:
    refused = Refused("PAYLOAD_TOO_LARGE", "Too much.")
    assert refusal_of(refused) is refused


def test_invalid_parameter_is_named() -> None:
    refused = InvalidParam("limit", "must be at least 1")
    assert (refused.code.name, refused.message) == ("INVALID_REQUEST", "limit must be at least 1.")
    assert refused.details == wrong("limit")


def test_long_ids_are_truncated() -> None:
    for exc in (MonitorUnknown("x" * 9_999), DeliveryUnknown("x" * 9_999)):
        assert len(refusal_of(exc).message) < 400


def test_client_errors_are_free_and_server_failures_are_refunded() -> None:
    """Section 7.5: client errors are free. Of the 4xx, only a missing resource was charged first."""
    for code in CODES.values():
        is_refunded = (code.status >= 500 and code.status not in (501, 505)) or code.name == "RESOURCE_NOT_FOUND"
        assert (code.charge == "refunded") == is_refunded, code.name
