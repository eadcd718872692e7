"""The error table: every code in the specification (7.2), and the codes that the HTTP edge uses.

To add a code, add a row to `CODES`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the specification's table 7.2."""

    name: str
    status: int
    charge: str
    condition: str
    retryable: bool = False


CODES = {
    code.name: code
    for code in (
        Code("MISSING_API_KEY", 401, "none", "No `x-api-key` header."),
        Code(
            "INVALID_API_KEY",
            401,
            "none",
            "The key is malformed, unknown, revoked or expired, or its account is suspended.",
        ),
        Code("INSUFFICIENT_CREDITS", 402, "none", "The account's balance is below the endpoint's cost."),
        Code("KEY_BUDGET_EXCEEDED", 402, "none", "The key's own credit limit would be exceeded."),
        Code("INVALID_REQUEST", 400, "none", "A parameter is missing, malformed, undeclared or in conflict."),
        Code("METHOD_NOT_ALLOWED", 405, "none", "Wrong method; `Allow` lists the supported methods."),
        Code("ENDPOINT_NOT_FOUND", 404, "none", "No such platform or resource."),
        Code("RESOURCE_NOT_FOUND", 404, "refunded", "The upstream has no such resource, or no usable data."),
        Code("PAYLOAD_TOO_LARGE", 413, "none", "The body is over 1 MB, or a file over 10 MB; it was not read."),
        Code("IDEMPOTENCY_KEY_CONFLICT", 409, "none", "Another request is running under the idempotency key."),
        Code(
            "IDEMPOTENCY_IN_PROGRESS",
            409,
            "none",
            "The same request is still running under this key.",
            retryable=True,
        ),
        Code("IDEMPOTENCY_REPLAY_UNAVAILABLE", 409, "none", "The stored response is unavailable: it was over 64 KB."),
        Code("IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422, "none", "The key was used for another query or body."),
        Code("COHORT_LIMIT_EXCEEDED", 400, "none", "The account already has 100 cohorts."),
        Code("COHORT_MEMBER_LIMIT_EXCEEDED", 400, "none", "The cohort would have more than 10,000 members."),
        Code("COHORT_IDENTITY_PLATFORM_UNSUPPORTED", 400, "none", "The platform has no list of an account's posts."),
        Code("COHORT_IDENTITY_CONFLICT", 409, "none", "The account is a member under another external id."),
        Code("COHORT_QUERY_NOT_CANCELLABLE", 409, "none", "The query has ended."),
        Code("COHORT_QUERY_NOT_READY", 409, "none", "The query has no results to read: it was not completed."),
        Code("COHORT_RESULT_TOO_LARGE", 413, "none", "One result alone exceeds a page of 1,000,000 bytes."),
        Code("CURSOR_EXPIRED", 410, "none", "Events after the cursor were removed by retention."),
        Code("RATE_LIMITED", 429, "none", "The key has reached its limit of requests per minute.", retryable=True),
        Code("CONCURRENCY_LIMIT", 429, "none", "The key has reached its limit of concurrent requests.", retryable=True),
        Code("UPSTREAM_ERROR", 502, "refunded", "The upstream failed, after internal retries.", retryable=True),
        Code(
            "SERVICE_UNAVAILABLE",
            503,
            "refunded",
            "Circuit open, upstream throttling, a store unavailable, or the node overloaded.",
            retryable=True,
        ),
        Code("INTERNAL_ERROR", 500, "refunded", "An unexpected error of this server.", retryable=True),
        Code("REQUEST_TIMEOUT", 408, "none", "The request did not arrive in time; the connection is closed."),
        Code("URI_TOO_LONG", 414, "none", "The request target is too long."),
        Code("UNSUPPORTED_MEDIA_TYPE", 415, "none", "The body is compressed, or has the wrong media type."),
        Code("EXPECTATION_FAILED", 417, "none", "`Expect` has a value other than `100-continue`."),
        Code("UPGRADE_REQUIRED", 426, "none", "The path only accepts WebSockets of version 13."),
        Code("HEADERS_TOO_LARGE", 431, "none", "The request's headers are too large or too many."),
        Code("NOT_IMPLEMENTED", 501, "none", "Not supported: proxying, and transfer codings other than `chunked`."),
        Code("HTTP_VERSION_NOT_SUPPORTED", 505, "none", "The request does not use HTTP/1.0, HTTP/1.1 or HTTP/2."),
    )
}
"""SERVICE_UNAVAILABLE without `Retry-After` means that the endpoint was withdrawn permanently."""
OF_THE_EDGE = {
    CODES[name].status: name
    for name in (
        "INVALID_REQUEST",
        "REQUEST_TIMEOUT",
        "PAYLOAD_TOO_LARGE",
        "URI_TOO_LONG",
        "EXPECTATION_FAILED",
        "UPGRADE_REQUIRED",
        "HEADERS_TOO_LARGE",
        "INTERNAL_ERROR",
        "NOT_IMPLEMENTED",
        "HTTP_VERSION_NOT_SUPPORTED",
    )
}
"""The codes that the HTTP edge returns before calling any app, by status."""


def sentence(words: object, remedy: str = "") -> str:
    """Format an error message, followed by the remedy if there is one, as a sentence."""
    text = str(words)
    return f"{text[:1].upper()}{text[1:]}{remedy and f'; {remedy}'}."
