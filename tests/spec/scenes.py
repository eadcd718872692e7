"""Every error code over a socket: scenes with everything that the response adds to the envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.http.errors import CORRECT
from tests.spec import asks
from tests.spec.asks import PROFILE, SLOW, Ask, get


class _Any:
    """Equal to any value, for values that another test checks."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return other is not None


ANY = _Any()
BACKOFF = {"UPSTREAM_ERROR", "INTERNAL_ERROR"}
"""Codes that are retryable although the response has no Retry-After."""
NO_RETRIES = {"upstreams": {"defaults": {"retries": 0}}}
ONE_FAILURE = {**NO_RETRIES, "breaker": {"failures": 1, "open_s": 20}}
REFUNDED = ("refund", "deduction")
"""The entries of a refunded charge, newest first."""
KEYLESS: Mapping[str, bool] = {"windowed": False, "knows_balance": False}
INVALID_KEY = "send one that is active"
OWN_KEY = "use a new key for each request"


@dataclass(frozen=True, slots=True)
class Scene:
    """How a code occurs, and what its response adds to the envelope. `retry_after` is inclusive."""

    code: str
    ask: Ask
    says: str
    """Part of the message: the invalid field, or the next step."""
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    credits: int = 1000
    retry_after: tuple[int, int] | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    windowed: bool = True
    """Whether the response has X-RateLimit-*: it is authenticated, and not a concurrency error."""
    knows_balance: bool = True
    entries: tuple[str, ...] = ()
    """The ledger's entries of the request, newest first."""
    later: str = ""
    """The code of the repeated request, if it differs."""

    @property
    def is_temporary(self) -> bool:
        """True if the same request may succeed later (7.2). A 503 without Retry-After is permanent."""
        return self.code in BACKOFF or self.retry_after is not None


def invalid(target: str, says: str, **details: object) -> Scene:
    """Return a scene of a 400 for the content of a request."""
    return Scene("INVALID_REQUEST", get(target), says, details={"next_step": CORRECT, **details})


def param(target: str, name: str, says: str) -> Scene:
    """Return a scene of a 400 for one parameter."""
    return invalid(target, f"{name} {says}", reason="invalid_param", param=name)


def method(target: str, sent: str) -> Scene:
    """Return a scene of a 405 for a read-only path."""
    path = target.partition("?")[0]
    return Scene(
        "METHOD_NOT_ALLOWED",
        get(target, sent),
        f"{path} supports GET, HEAD, not {sent}",
        headers={"allow": "GET, HEAD"},
    )


def poor(ask: Ask, credits: int, reason: str, required: int, says: str) -> Scene:  # noqa: A002 - the specification's name
    """Return a scene of a 402 for an account."""
    details = {"reason": reason, "credits_required": required}
    return Scene("INSUFFICIENT_CREDITS", ask, says, credits=credits, details=details)


VELOCITY = "/v1/github/user/profile-velocity?handle=octocat"
ANOTHER_KEY = "Revoke this key and send another in the x-api-key header."
LISTS_ALL = "/v1/utility/endpoints lists all"
# One parameter error of each kind. `tests/gateway/http/test_params.py` has the others.
SCENES = {
    "no key": Scene("MISSING_API_KEY", asks.without_key, "x-api-key header", **KEYLESS),
    "an empty key": Scene("MISSING_API_KEY", asks.with_empty_key, "x-api-key header", **KEYLESS),
    "a malformed key": Scene("INVALID_API_KEY", asks.with_key("nonsense"), INVALID_KEY, **KEYLESS),
    "an unknown key": Scene("INVALID_API_KEY", asks.with_key("sl_" + 43 * "a"), INVALID_KEY, **KEYLESS),
    "a revoked key": Scene("INVALID_API_KEY", asks.with_revoked_key, INVALID_KEY, **KEYLESS),
    "an expired key": Scene("INVALID_API_KEY", asks.with_expired_key, INVALID_KEY, **KEYLESS),
    "no credits": poor(get(PROFILE), 0, "balance_too_low", 1, "costs more credits (1) than the account has (0)"),
    "fewer credits than the cost": poor(
        get(VELOCITY), 4, "balance_too_low", 5, "costs more credits (5) than the account has (4)"
    ),
    "more than max_credits": poor(
        get(f"{VELOCITY}&max_credits=4"), 1000, "above_max_credits", 5, "would reserve 5 credits, above max_credits"
    ),
    "a spent key": Scene(
        "KEY_BUDGET_EXCEEDED",
        asks.with_spent_key,
        "has used 1 of its limit of 1 credits; this request costs 1",
        details={"reason": "key_budget_reached", "credits_required": 1},
    ),
    "a missing parameter": param("/v1/github/profile", "handle", "is required"),
    "conflicting parameters": param(
        "/v1/bluesky/profile?handle=a.test&user_id=plc:a", "handle", "or user_id is required"
    ),
    "an undeclared parameter": invalid(
        f"{PROFILE}&handel=octocat",
        "Did you mean `handle`?",
        did_you_mean="handle",
        param="handel",
        remove_params=["handel"],
    ),
    "a value that the endpoint rejects": param("/v1/github/repo?url=https://example.com/a/b", "url", ""),
    "an invalid cursor": param("/v1/github/search?query=a&cursor=cur_AAAA", "cursor", "cannot be used"),
    "a key in the URL": Scene(
        "INVALID_REQUEST",
        get(f"{PROFILE}&api_key=x"),
        "Revoke this key",
        details={"reason": "key_in_query", "param": "api_key", "next_step": ANOTHER_KEY},
        **KEYLESS,
    ),
    "a key only in the URL": Scene(
        "MISSING_API_KEY",
        asks.with_key_in_url,
        "Revoke this key",
        details={"reason": "key_in_query", "param": "api_key", "next_step": ANOTHER_KEY},
        **KEYLESS,
    ),
    "a malformed idempotency key": Scene(
        "INVALID_REQUEST",
        get(PROFILE, idempotency_key="a b"),
        "Idempotency-Key must be 1 to 255 visible characters",
        details={"reason": "invalid_param", "param": "Idempotency-Key", "next_step": CORRECT},
    ),
    "a stream with an idempotency key": Scene(
        "INVALID_REQUEST",
        get(PROFILE, idempotency_key="one", accept="text/event-stream"),
        "Idempotency-Key cannot be combined with Accept: text/event-stream",
        details={
            "reason": "conflicting_params",
            "param": "Idempotency-Key",
            "next_step": "Send only one of the two headers.",
        },
    ),
    "a wrong method": method(PROFILE, "POST"),
    "a wrong method on the status": method("/v1/status", "PUT"),
    "an unknown platform": Scene("ENDPOINT_NOT_FOUND", get("/v1/nowhere/at-all"), LISTS_ALL),
    "a misspelled resource": Scene(
        "ENDPOINT_NOT_FOUND", get("/v1/github/profil"), LISTS_ALL, details={"did_you_mean": "/v1/github/profile"}
    ),
    "a path outside the API": Scene(
        "ENDPOINT_NOT_FOUND", get("/v2/github/profile"), "/v1/utility/endpoints lists them", **KEYLESS
    ),
    "an upstream's 404": Scene(
        "RESOURCE_NOT_FOUND", get("/v1/github/profile?handle=missing"), "has no such", entries=REFUNDED
    ),
    "a body over 1 MB": Scene("PAYLOAD_TOO_LARGE", asks.with_big_body, "over 1000000 bytes; it was not read"),
    "the same request under its idempotency key": Scene(
        "IDEMPOTENCY_IN_PROGRESS",
        lambda node: asks.while_another_runs(node, SLOW, "one"),
        "retry in a moment",
        retry_after=(1, 1),
    ),
    "another endpoint under a running idempotency key": Scene(
        "IDEMPOTENCY_KEY_CONFLICT",
        lambda node: asks.while_another_runs(node, "/v1/github/search?query=a", "one"),
        OWN_KEY,
        later="IDEMPOTENCY_KEY_PAYLOAD_MISMATCH",
    ),
    "another query under a running idempotency key": Scene(
        "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", lambda node: asks.while_another_runs(node, PROFILE, "one"), OWN_KEY
    ),
    "another query under a finished idempotency key": Scene(
        "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", asks.with_key_of_finished_request, OWN_KEY
    ),
    "a response too long to replay": Scene(
        "IDEMPOTENCY_REPLAY_UNAVAILABLE",
        asks.with_key_of_too_long_response,
        "use another key for a new, billed response",
    ),
    "a full window": Scene(
        "RATE_LIMITED",
        asks.twice,
        "The limit of 1 requests in 60 s is reached; retry in",
        {"limits": {"requests_per_minute": 1}},
        retry_after=(59, 60),
        headers={"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0"},
    ),
    "all leases held": Scene(
        "CONCURRENCY_LIMIT",
        asks.while_another_runs,
        "wait for one to finish",
        {"limits": {"concurrent_requests": 1}},
        retry_after=(1, 5),
        headers={"x-concurrency-limit": "1", "x-concurrency-remaining": "0"},
        windowed=False,
    ),
    "a failing upstream": Scene(
        "UPSTREAM_ERROR",
        get("/v1/github/profile?handle=broken"),
        "did not return a usable response",
        NO_RETRIES,
        entries=REFUNDED,
    ),
    "an open circuit": Scene(
        "SERVICE_UNAVAILABLE",
        asks.with_open_circuit,
        "circuit is open",
        ONE_FAILURE,
        retry_after=(19, 20),
        entries=REFUNDED,
    ),
    "a throttling upstream": Scene(
        "SERVICE_UNAVAILABLE",
        get("/v1/github/profile?handle=throttled"),
        "slow down",
        retry_after=(1, 60),
        entries=REFUNDED,
    ),
    "a held source": Scene(
        "SERVICE_UNAVAILABLE", asks.with_held_source, "throttling this node", retry_after=(1, 60), entries=REFUNDED
    ),
    "an unavailable store": Scene(
        "SERVICE_UNAVAILABLE", asks.without_store, "nothing was charged", retry_after=(1, 1), knows_balance=False
    ),
    "an unavailable claim store": Scene(
        "SERVICE_UNAVAILABLE", asks.without_claims, "nothing was charged", retry_after=(1, 1), knows_balance=False
    ),
    "an events cursor older than retention": Scene(
        "CURSOR_EXPIRED",
        asks.with_cursor_older_than_retention,
        "retention period has ended",
        details={
            "reason": "retention_passed",
            "param": "cursor",
            "next_step": "Read again with cursor=oldest.",
            **dict.fromkeys(("oldest_cursor", "missed_from", "missed_until"), ANY),
        },
    ),
    "a withdrawn endpoint": Scene(
        "SERVICE_UNAVAILABLE", get("/v1/bluesky/search?query=a"), "the operator has not configured"
    ),
    "a bug": Scene("INTERNAL_ERROR", asks.with_bug, "logged under this request_id", entries=REFUNDED),
}
