"""The reasons of errors, and the errors that an operation can return (spec 7.2, 7.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gateway.docs.operations import ApiOperation
from gateway.http.codes import CODES
from upstreams.catalog import Listing
from upstreams.model.refusals import Refusals


@dataclass(frozen=True, slots=True)
class Reason:
    """One value of `details.reason`."""

    code: str
    name: str
    meaning: str

    @property
    def key(self) -> str:
        """Return the code and the name in the form that declarations use: `CODE/name`."""
        return f"{self.code}/{self.name}"


_ALL: Final = (
    Reason("MISSING_API_KEY", "key_in_query", "The key was sent in the URL, where it may be logged. Revoke it."),
    Reason("INVALID_API_KEY", "account_suspended", "The operator has suspended the key's account."),
    Reason("INVALID_REQUEST", "key_in_query", "A second key was sent in the URL, where it may be logged. Revoke it."),
    Reason("INVALID_REQUEST", "invalid_param", "A parameter, field or header is invalid; `param` names it."),
    Reason("INVALID_REQUEST", "capability_missing", "This node lacks a capability that the value needs."),
    Reason("INVALID_REQUEST", "unsupported", "The URL belongs to a platform that is not supported."),
    Reason("INVALID_REQUEST", "unsupported_content", "Text cannot be extracted from files of this type."),
    Reason("INVALID_REQUEST", "empty", "The file has no text."),
    Reason("INVALID_REQUEST", "unreadable_file", "The file does not match its type, or is corrupt."),
    Reason("INVALID_REQUEST", "invalid_utf8", "A value is not valid UTF-8."),
    Reason("INVALID_REQUEST", "double_encoded", "A value was percent-encoded twice."),
    Reason("INVALID_REQUEST", "conflicting_params", "Two values in the request exclude each other."),
    Reason("INVALID_REQUEST", "monitor_limit_reached", "The plan's limit of active monitors is reached."),
    Reason("INVALID_REQUEST", "monitor_paused", "The monitor is paused."),
    Reason("INVALID_REQUEST", "job_limit_reached", "The account has reached its limit of active jobs."),
    Reason("INVALID_REQUEST", "session_limit_reached", "The account has reached its limit of open sessions."),
    Reason("INVALID_REQUEST", "session_over", "The session is not open."),
    Reason("INVALID_REQUEST", "job_over", "The job has ended."),
    Reason("INVALID_REQUEST", "above_max_credits", "The query could cost more than its `max_credits`."),
    Reason("INVALID_REQUEST", "no_numbers", "The monitor's results contain no numbers."),
    Reason("INVALID_REQUEST", "webhook_paused", "The webhook is paused: resume it first."),
    Reason("INVALID_REQUEST", "webhook_limit_reached", "The account has reached its limit of webhooks."),
    Reason("INVALID_REQUEST", "deliveries_limit_reached", "The webhook has reached its limit of queued deliveries."),
    Reason("INVALID_REQUEST", "attempts_limit_reached", "The delivery has reached its limit of attempts."),
    Reason("INVALID_REQUEST", "consumer_limit_reached", "The key has reached its limit of consumers."),
    Reason("INSUFFICIENT_CREDITS", "balance_too_low", "The account's balance does not cover the call."),
    Reason("INSUFFICIENT_CREDITS", "above_max_credits", "The call would cost more than `max_credits`."),
    Reason("KEY_BUDGET_EXCEEDED", "key_budget_reached", "The key's own limit does not cover the call."),
    Reason("RESOURCE_NOT_FOUND", "account_private", "The profile exists, but is private or needs a login."),
    Reason("RESOURCE_NOT_FOUND", "account_gone", "The handle is no longer in use; a numeric id may still work."),
    Reason("RESOURCE_NOT_FOUND", "captions_disabled", "The video's owner has turned off captions."),
    Reason("RESOURCE_NOT_FOUND", "no_captions", "The video has no captions with words."),
    Reason("RESOURCE_NOT_FOUND", "login_required", "Only signed-in users can see the content."),
    Reason("RESOURCE_NOT_FOUND", "video_gone", "The video was removed."),
    Reason("RESOURCE_NOT_FOUND", "challenge", "The page's host requires a bot check."),
    Reason("RESOURCE_NOT_FOUND", "robots_disallowed", "The host's robots.txt does not allow reading the page."),
    Reason("RESOURCE_NOT_FOUND", "javascript_required", "The page has no text until its scripts run."),
    Reason("RESOURCE_NOT_FOUND", "pdf", "The URL is a PDF: send `pdf_parse=true`."),
    Reason("RESOURCE_NOT_FOUND", "unsupported_content", "The URL has a type of content without text."),
    Reason("RESOURCE_NOT_FOUND", "redirect_loop", "The page redirects too often."),
    Reason("RESOURCE_NOT_FOUND", "empty", "The page has no text."),
    Reason("RESOURCE_NOT_FOUND", "selector_absent", "`wait_for` timed out: no element matched."),
    Reason("RESOURCE_NOT_FOUND", "screenshot_too_large", "The screenshot is larger than a response may be."),
    Reason("RESOURCE_NOT_FOUND", "page_too_costly", "The page exceeds the time or memory limit. It is charged."),
    Reason("RESOURCE_NOT_FOUND", "unknown_monitor", "The account has no such monitor."),
    Reason(
        "RESOURCE_NOT_FOUND", "unknown_run", "The monitor has no such run, or the account has no such discover run."
    ),
    Reason("RESOURCE_NOT_FOUND", "unknown_delivery", "The webhook has no such delivery."),
    Reason("RESOURCE_NOT_FOUND", "unknown_webhook", "The account has no such webhook, or the monitor has none."),
    Reason("RESOURCE_NOT_FOUND", "unknown_schedule", "The account has no such schedule."),
    Reason("RESOURCE_NOT_FOUND", "unknown_job", "The account has no such job."),
    Reason("RESOURCE_NOT_FOUND", "unknown_cohort", "The account has no such cohort, or it has expired."),
    Reason("RESOURCE_NOT_FOUND", "unknown_cohort_query", "The account has no such query, or its cohort was deleted."),
    Reason("COHORT_LIMIT_EXCEEDED", "cohort_limit_reached", "The account has reached its limit of cohorts."),
    Reason("COHORT_MEMBER_LIMIT_EXCEEDED", "member_limit_reached", "The cohort would have too many members."),
    Reason(
        "COHORT_IDENTITY_PLATFORM_UNSUPPORTED",
        "platform_unsupported",
        "The platform does not list the posts of an account.",
    ),
    Reason(
        "COHORT_IDENTITY_CONFLICT", "identity_conflict", "The account is already a member with another external id."
    ),
    Reason("COHORT_QUERY_NOT_CANCELLABLE", "query_over", "The query has ended."),
    Reason("COHORT_QUERY_NOT_READY", "query_not_ready", "The query is still running, was cancelled, or has expired."),
    Reason("COHORT_RESULT_TOO_LARGE", "result_too_large", "The result is larger than a page may be."),
    Reason("RESOURCE_NOT_FOUND", "unknown_session", "The account has no such session."),
    Reason("RESOURCE_NOT_FOUND", "unknown_consumer", "The key has no such consumer. Its first read creates it."),
    Reason("UNSUPPORTED_MEDIA_TYPE", "encoded_body", "The body is compressed. Send it uncompressed."),
    Reason("UNSUPPORTED_MEDIA_TYPE", "not_a_form", "The body must be multipart/form-data."),
    Reason("UPGRADE_REQUIRED", "websocket_only", "The path only accepts WebSocket connections."),
    Reason("CURSOR_EXPIRED", "retention_passed", "Events after the cursor were removed."),
    Reason("CONCURRENCY_LIMIT", "credits_held", "Calls in progress have reserved the credits."),
    Reason("RATE_LIMITED", "run_too_soon", "A run was started manually less than 60 s ago."),
    Reason("SERVICE_UNAVAILABLE", "store_unavailable", "The event store is unavailable. Retry later."),
)
REASONS: Final[Mapping[str, Reason]] = MappingProxyType({reason.key: reason for reason in _ALL})
_BAD: Final = (
    "INVALID_REQUEST/invalid_param",
    "INVALID_REQUEST/invalid_utf8",
    "INVALID_REQUEST/double_encoded",
)
_ALWAYS: Final = ("INTERNAL_ERROR", "METHOD_NOT_ALLOWED", *_BAD)
_WITH_KEY: Final = (
    "MISSING_API_KEY/key_in_query",
    "INVALID_REQUEST/key_in_query",
    "INVALID_API_KEY/account_suspended",
    "RATE_LIMITED",
    "CONCURRENCY_LIMIT",
    "SERVICE_UNAVAILABLE",
)
_ONCE: Final = (
    "IDEMPOTENCY_KEY_CONFLICT",
    "IDEMPOTENCY_IN_PROGRESS",
    "IDEMPOTENCY_REPLAY_UNAVAILABLE",
    "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH",
)
_BILLED: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "CONCURRENCY_LIMIT/credits_held",
    "INVALID_REQUEST/conflicting_params",
    "RESOURCE_NOT_FOUND",
    "UPSTREAM_ERROR",
    *_ONCE,
)
_WITH_BODY: Final = ("PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE/encoded_body")


def errors_of(operation: ApiOperation) -> dict[str, list[str]]:
    """Return the error codes of an operation with their reasons, in the order of the table."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for key in _keys(operation):
        code, _, reason = key.partition("/")
        found[code] |= {reason} if reason else set()
    return {
        code: [one.name for one in _ALL if one.code == code and one.name in found[code]]
        for code in CODES
        if code in found
    }


def _keys(operation: ApiOperation) -> Iterable[str]:
    yield from _ALWAYS
    doc = operation.route.doc
    if doc is None or not doc.is_public:
        yield from _WITH_KEY
    if doc is None:
        yield from _BILLED
    elif doc.once:
        yield from _ONCE
    yield from _WITH_BODY if operation.route.body is not None else ()
    own = reasons_of(operation)
    yield from own
    if "KEY_BUDGET_EXCEEDED/key_budget_reached" in own:
        yield "CONCURRENCY_LIMIT/credits_held"


def reasons_of(operation: ApiOperation) -> list[str]:
    """Return the errors that an operation returns in addition to those of its kind, as `CODE` or `CODE/reason`."""
    if operation.route.doc is not None:
        return list(operation.route.doc.reasons)
    assert operation.listing is not None, "only data endpoints have no description"
    return [f"RESOURCE_NOT_FOUND/{reason}" for reason in _gone(operation.listing)]


def _gone(listing: Listing) -> Iterable[str]:
    """Yield the not-found reasons of an endpoint, as its platform declares them (spec 7.3)."""
    refusals = listing.site.platform.refusals
    if isinstance(refusals, Refusals):
        yield from ("account_private",) if refusals.private else ()
        yield from ("account_gone",) if refusals.gone else ()
    yield from listing.endpoint.archetype.absent_because
    if listing.site.platform.open_web:
        yield from ("login_required", "challenge", "robots_disallowed", "javascript_required", "pdf")
        yield from ("unsupported_content", "redirect_loop", "empty", "selector_absent", "screenshot_too_large")
        yield "page_too_costly"


def error_records(operation: ApiOperation) -> list[dict[str, Any]]:
    """Return the errors of an operation in the form that its guide uses."""
    return [
        {
            "type": name,
            "status": CODES[name].status,
            "retryable": CODES[name].retryable,
            "charge": CODES[name].charge,
            "condition": CODES[name].condition,
            "reasons": [{"reason": one, "meaning": REASONS[f"{name}/{one}"].meaning} for one in reasons],
        }
        for name, reasons in errors_of(operation).items()
    ]
