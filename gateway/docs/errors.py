"""The reasons of errors, and the errors that one operation can give (spec 7.2, 7.3)."""

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
        """Its code and its name, as declarations name it."""
        return f"{self.code}/{self.name}"


_ALL: Final = (
    Reason("MISSING_API_KEY", "key_in_query", "The key stands in the address, where logs keep it: revoke it."),
    Reason("INVALID_API_KEY", "account_suspended", "The operator has suspended the key's account."),
    Reason("INVALID_REQUEST", "key_in_query", "A second key stands in the address, where logs keep it: revoke it."),
    Reason("INVALID_REQUEST", "invalid_param", "A parameter, field or header is wrong; `param` names it."),
    Reason("INVALID_REQUEST", "capability_missing", "This node lacks the means that the value needs."),
    Reason("INVALID_REQUEST", "unsupported", "The address is at a platform that is not supported."),
    Reason("INVALID_REQUEST", "unsupported_content", "The file is of a type that has no text here."),
    Reason("INVALID_REQUEST", "empty", "The file has no text."),
    Reason("INVALID_REQUEST", "unreadable_file", "The file is not what its type says, or is broken."),
    Reason("INVALID_REQUEST", "invalid_utf8", "A value is not valid UTF-8."),
    Reason("INVALID_REQUEST", "double_encoded", "A value was percent-encoded twice."),
    Reason("INVALID_REQUEST", "conflicting_params", "Two things that were sent exclude each other."),
    Reason("INVALID_REQUEST", "monitor_limit_reached", "The plan's number of active monitors is reached."),
    Reason("INVALID_REQUEST", "monitor_paused", "The monitor is paused."),
    Reason("INVALID_REQUEST", "job_limit_reached", "The account has as many jobs that have not ended as it may."),
    Reason("INVALID_REQUEST", "session_limit_reached", "The account has as many open sessions as it may."),
    Reason("INVALID_REQUEST", "session_over", "The session is not open."),
    Reason("INVALID_REQUEST", "job_over", "The job has ended."),
    Reason("INVALID_REQUEST", "above_max_credits", "The query may cost more than its `max_credits`."),
    Reason("INVALID_REQUEST", "no_numbers", "The monitor's results hold no number."),
    Reason("INVALID_REQUEST", "webhook_paused", "The webhook is paused: resume it first."),
    Reason("INVALID_REQUEST", "webhook_limit_reached", "The account has as many webhooks as it may."),
    Reason("INVALID_REQUEST", "deliveries_limit_reached", "As many deliveries of the webhook wait as may."),
    Reason("INVALID_REQUEST", "attempts_limit_reached", "The delivery was attempted as often as it may be."),
    Reason("INVALID_REQUEST", "consumer_limit_reached", "The key has as many consumers as it may have."),
    Reason("INSUFFICIENT_CREDITS", "balance_too_low", "The account's balance does not cover the call."),
    Reason("INSUFFICIENT_CREDITS", "above_max_credits", "The call would cost more than `max_credits`."),
    Reason("KEY_BUDGET_EXCEEDED", "key_budget_reached", "The key's own limit does not cover the call."),
    Reason("RESOURCE_NOT_FOUND", "account_private", "The profile is private, or behind a wall; it is still there."),
    Reason("RESOURCE_NOT_FOUND", "account_gone", "The handle is in use no more; a numeric id may still find it."),
    Reason("RESOURCE_NOT_FOUND", "captions_disabled", "The video's owner has switched captions off."),
    Reason("RESOURCE_NOT_FOUND", "no_captions", "The video has no captions with words."),
    Reason("RESOURCE_NOT_FOUND", "login_required", "Only who is signed in sees it."),
    Reason("RESOURCE_NOT_FOUND", "video_gone", "The video was removed."),
    Reason("RESOURCE_NOT_FOUND", "challenge", "The page's host tests whether its reader is a robot."),
    Reason("RESOURCE_NOT_FOUND", "robots_disallowed", "The host's robots file forbids to read the page."),
    Reason("RESOURCE_NOT_FOUND", "javascript_required", "The page has no text until its scripts run."),
    Reason("RESOURCE_NOT_FOUND", "pdf", "The address leads to a PDF: send `pdf_parse=true`."),
    Reason("RESOURCE_NOT_FOUND", "unsupported_content", "The address leads to something that has no text."),
    Reason("RESOURCE_NOT_FOUND", "redirect_loop", "The page redirects too often."),
    Reason("RESOURCE_NOT_FOUND", "empty", "The page has no text."),
    Reason("RESOURCE_NOT_FOUND", "selector_absent", "Nothing that `wait_for` finds came up in time."),
    Reason("RESOURCE_NOT_FOUND", "screenshot_too_large", "The picture of the page is longer than an answer may be."),
    Reason("RESOURCE_NOT_FOUND", "page_too_costly", "The page takes more time or memory than a page may; charged."),
    Reason("RESOURCE_NOT_FOUND", "unknown_monitor", "The account has no such monitor."),
    Reason("RESOURCE_NOT_FOUND", "unknown_run", "The monitor has no such run, or the account no such discover run."),
    Reason("RESOURCE_NOT_FOUND", "unknown_delivery", "The webhook has no such delivery."),
    Reason("RESOURCE_NOT_FOUND", "unknown_webhook", "The account has no such webhook, or the monitor none."),
    Reason("RESOURCE_NOT_FOUND", "unknown_schedule", "The account has no such schedule."),
    Reason("RESOURCE_NOT_FOUND", "unknown_job", "The account has no such job."),
    Reason("RESOURCE_NOT_FOUND", "unknown_cohort", "The account has no such cohort, or its retention has passed."),
    Reason("RESOURCE_NOT_FOUND", "unknown_cohort_query", "The account has no such query, or its cohort was deleted."),
    Reason("COHORT_LIMIT_EXCEEDED", "cohort_limit_reached", "The account has as many cohorts as it may."),
    Reason("COHORT_MEMBER_LIMIT_EXCEEDED", "member_limit_reached", "The cohort would have too many members."),
    Reason("COHORT_IDENTITY_PLATFORM_UNSUPPORTED", "platform_unsupported", "No posts of an account are listed there."),
    Reason("COHORT_IDENTITY_CONFLICT", "identity_conflict", "The account is a member under another external id."),
    Reason("COHORT_QUERY_NOT_CANCELLABLE", "query_over", "The query has ended."),
    Reason("COHORT_QUERY_NOT_READY", "query_not_ready", "The query runs still, was cancelled, or has expired."),
    Reason("COHORT_RESULT_TOO_LARGE", "result_too_large", "The result is longer than a page may be."),
    Reason("RESOURCE_NOT_FOUND", "unknown_session", "The account has no such session."),
    Reason("RESOURCE_NOT_FOUND", "unknown_consumer", "The key has no such consumer: its first read makes it."),
    Reason("UNSUPPORTED_MEDIA_TYPE", "encoded_body", "The body is compressed: send it as it is."),
    Reason("UNSUPPORTED_MEDIA_TYPE", "not_a_form", "The body must be multipart/form-data."),
    Reason("UPGRADE_REQUIRED", "websocket_only", "The path is served as a WebSocket only."),
    Reason("CURSOR_EXPIRED", "retention_passed", "Events behind the cursor were removed."),
    Reason("CONCURRENCY_LIMIT", "credits_held", "Calls in flight hold the credits that the call needs."),
    Reason("RATE_LIMITED", "run_too_soon", "A run was begun by hand less than 60 s ago."),
    Reason("SERVICE_UNAVAILABLE", "store_unavailable", "The events' store is away: ask again after `Retry-After`."),
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
    """The codes of the errors that an operation can give, each with its reasons, in the order of the table."""
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
    """The errors beyond those of every operation of its kind, as `CODE` or `CODE/reason`."""
    if operation.route.doc is not None:
        return list(operation.route.doc.reasons)
    assert operation.listing is not None, "a route is a data endpoint or is described"
    return [f"RESOURCE_NOT_FOUND/{reason}" for reason in _gone(operation.listing)]


def _gone(listing: Listing) -> Iterable[str]:
    """The reasons that an endpoint may have for finding nothing, as its platform declares them (spec 7.3)."""
    refusals = listing.site.platform.refusals
    if isinstance(refusals, Refusals):
        yield from ("account_private",) if refusals.private else ()
        yield from ("account_gone",) if refusals.gone else ()
    if "transcript" in listing.endpoint.archetype.name.lower():
        yield from ("captions_disabled", "no_captions", "login_required", "video_gone")
    if listing.site.platform.open_web:
        yield from ("login_required", "challenge", "robots_disallowed", "javascript_required", "pdf")
        yield from ("unsupported_content", "redirect_loop", "empty", "selector_absent", "screenshot_too_large")
        yield "page_too_costly"


def error_records(operation: ApiOperation) -> list[dict[str, Any]]:
    """The errors of an operation as its guide tells them."""
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
