"""The page of each error reason: its meaning, the next step, and the calls that return it (spec 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import orjson

from gateway.docs.errors import REASONS, Reason, errors_of
from gateway.docs.operations import ApiOperation
from gateway.http.codes import CODES

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MISSING_API_KEY/key_in_query": "Revoke the key, create a new one, and send it in the `x-api-key` header.",
        "INVALID_API_KEY/account_suspended": "Ask the operator why. The key works again when the account is resumed.",
        "INVALID_REQUEST/key_in_query": "Revoke the key in the URL, and send only the other key.",
        "INVALID_REQUEST/invalid_param": "Fix the value named by `param`. See `next_step` or the endpoint's page.",
        "INVALID_REQUEST/capability_missing": "Leave the value out, or use a node that has the capability.",
        "INVALID_REQUEST/unsupported": "Send a URL of a platform in the catalog, or read it as a web page.",
        "INVALID_REQUEST/unsupported_content": "Send HTML, a PDF, a feed or text, with its type in `mime_type`.",
        "INVALID_REQUEST/empty": "The file has no text. If scripts fill the page, send the rendered HTML.",
        "INVALID_REQUEST/unreadable_file": "Send the complete file, with its correct type in `mime_type`.",
        "INVALID_REQUEST/invalid_utf8": "Encode text as UTF-8, then percent-encode the bytes.",
        "INVALID_REQUEST/double_encoded": "Percent-encode each value once. Most HTTP libraries do this automatically.",
        "INVALID_REQUEST/conflicting_params": "Remove one of the two values named in the message.",
        "INVALID_REQUEST/monitor_limit_reached": "Pause or delete a Monitor, or choose a larger plan.",
        "INVALID_REQUEST/monitor_paused": 'Send `PATCH {"status": "active"}` to the Monitor first.',
        "INVALID_REQUEST/webhook_limit_reached": "Delete a webhook that you no longer use.",
        "INVALID_REQUEST/deliveries_limit_reached": "Wait for queued deliveries to finish, and check their log.",
        "INVALID_REQUEST/job_limit_reached": "Wait for a job to end, or cancel one.",
        "INVALID_REQUEST/session_limit_reached": "Close a session, or wait until one expires.",
        "INVALID_REQUEST/session_over": "Open a new session.",
        "INVALID_REQUEST/job_over": "Read its results, or start a new one.",
        "INVALID_REQUEST/above_max_credits": "Send a higher `max_credits`, or fewer pages, platforms or members.",
        "INVALID_REQUEST/no_numbers": "Choose a recipe whose results contain numbers, or list their paths in `track`.",
        "INVALID_REQUEST/webhook_paused": "Fix the receiver, then resume the webhook.",
        "INVALID_REQUEST/attempts_limit_reached": "Read the run's stored result instead.",
        "INVALID_REQUEST/consumer_limit_reached": "Delete a consumer that you no longer use.",
        "INSUFFICIENT_CREDITS/balance_too_low": "Add credits. `dry_run=1` returns the price of a call in advance.",
        "INSUFFICIENT_CREDITS/above_max_credits": "Send a higher `max_credits`, or a smaller `limit`.",
        "KEY_BUDGET_EXCEEDED/key_budget_reached": "Raise the key's limit, reset its usage, or use another key.",
        "CONCURRENCY_LIMIT/credits_held": "Retry after `Retry-After` seconds, or make fewer concurrent calls.",
        "RESOURCE_NOT_FOUND/account_private": "Do not retry: only the owner can make the profile public.",
        "RESOURCE_NOT_FOUND/account_gone": "Look up the account by id, which still works if it was only renamed.",
        "RESOURCE_NOT_FOUND/captions_disabled": "Do not retry: the video has no captions to read.",
        "RESOURCE_NOT_FOUND/no_captions": "Try another language, or use the video's description.",
        "RESOURCE_NOT_FOUND/login_required": "Do not retry: the content needs an account on the platform.",
        "RESOURCE_NOT_FOUND/video_gone": "Do not retry: the video no longer exists.",
        "RESOURCE_NOT_FOUND/challenge": "Use another source: the host blocks automated requests.",
        "RESOURCE_NOT_FOUND/robots_disallowed": "Skip the page: its host does not allow automated reading.",
        "RESOURCE_NOT_FOUND/javascript_required": "Send `wait_for=1000` to a node that has a browser.",
        "RESOURCE_NOT_FOUND/pdf": "Send `pdf_parse=true`. The call then costs 5 credits.",
        "RESOURCE_NOT_FOUND/unsupported_content": "Do not retry: the content has no text to read.",
        "RESOURCE_NOT_FOUND/redirect_loop": "Open the URL in a browser: it may need cookies from an earlier visit.",
        "RESOURCE_NOT_FOUND/empty": "The page has no text. Try again later if you expect some.",
        "RESOURCE_NOT_FOUND/selector_absent": "Check the page with `formats=screenshot`, or wait for another element.",
        "RESOURCE_NOT_FOUND/screenshot_too_large": "Send the request without `screenshot_full_page`.",
        "RESOURCE_NOT_FOUND/page_too_costly": "Fetch the page yourself, and send part of it to `web/parse`.",
        "RESOURCE_NOT_FOUND/unknown_session": "Use an id from the list of sessions.",
        "RESOURCE_NOT_FOUND/unknown_monitor": "Use an id from the list of Monitors.",
        "RESOURCE_NOT_FOUND/unknown_run": "Use an id from the list of the Monitor's runs. Old runs are deleted.",
        "RESOURCE_NOT_FOUND/unknown_delivery": "Use an id from the list of the webhook's deliveries.",
        "RESOURCE_NOT_FOUND/unknown_webhook": "Use an id from `/v1/webhooks`, or give the Monitor a `webhook_url`.",
        "RESOURCE_NOT_FOUND/unknown_schedule": "Use an id from the list of schedules.",
        "RESOURCE_NOT_FOUND/unknown_job": "Use an id from the list of jobs. Jobs are deleted 30 days after they end.",
        "RESOURCE_NOT_FOUND/unknown_cohort": "Create a new cohort: a deleted cohort cannot be restored.",
        "RESOURCE_NOT_FOUND/unknown_cohort_query": "Start a new query: queries are deleted with their cohort.",
        "COHORT_LIMIT_EXCEEDED/cohort_limit_reached": "Delete a cohort that you no longer use.",
        "COHORT_MEMBER_LIMIT_EXCEEDED/member_limit_reached": "Send fewer members, or create another cohort.",
        "COHORT_IDENTITY_PLATFORM_UNSUPPORTED/platform_unsupported": "Send one of the platforms in `next_step`.",
        "COHORT_IDENTITY_CONFLICT/identity_conflict": "Send the account with its existing external id.",
        "COHORT_QUERY_NOT_CANCELLABLE/query_over": "Read its results, or start a new query.",
        "COHORT_QUERY_NOT_READY/query_not_ready": "Wait until its `status` is `succeeded`, or start a new query.",
        "COHORT_RESULT_TOO_LARGE/result_too_large": "Skip the result: continue with `next_cursor` from `details`.",
        "RESOURCE_NOT_FOUND/unknown_consumer": "Read the feed once with this `consumer`.",
        "UNSUPPORTED_MEDIA_TYPE/encoded_body": "Send the body uncompressed, without `Content-Encoding`.",
        "UNSUPPORTED_MEDIA_TYPE/not_a_form": "Send the file as a form, for example with `curl -F file=@page.html`.",
        "UPGRADE_REQUIRED/websocket_only": "Connect with WebSocket version 13, or stream `/v1/events`.",
        "CURSOR_EXPIRED/retention_passed": "Use `cursor=oldest`. `missed_from` and `missed_until` show the gap.",
        "RATE_LIMITED/run_too_soon": "Retry after `Retry-After` seconds.",
        "SERVICE_UNAVAILABLE/store_unavailable": "Retry after `Retry-After` seconds. No events are lost.",
    }
)
"""Advice to the caller, for each reason."""
_LISTED: Final = 12


def reason_markdown(name: str, operations: Sequence[ApiOperation]) -> str:
    """Return the page of a reason, with a section for each error code that uses the reason."""
    found = [reason for reason in REASONS.values() if reason.name == name]
    parts = [part for reason in found for part in _parts(reason, operations, has_several=len(found) > 1)]
    return "\n".join((f"# {name}\n", *parts))


def _parts(reason: Reason, operations: Sequence[ApiOperation], *, has_several: bool) -> Iterator[str]:
    code = CODES[reason.code]
    of = f" with a {code.status}" if has_several else ""
    yield f"{reason.meaning}\n"
    yield f"- **Code:** [`{code.name}`](/docs/errors#{code.name}), status {code.status}"
    yield f"- **Retry:** {'may succeed' if code.retryable else 'fails again'}"
    yield f"- **Charge:** {'none' if code.charge == 'none' else 'none, or refunded'}\n"
    yield f"## What to do{of}\n\n{REMEDIES.get(reason.key, 'Read the message for details.')}\n"
    error = {"type": code.name, "status": code.status, "details": {"reason": reason.name}}
    text = orjson.dumps({"success": False, "error": error}, option=orjson.OPT_INDENT_2).decode()
    yield f"## How to recognize it{of}\n\nThe response contains, among other fields:\n\n```json\n{text}\n```\n"
    returning = [one for one in operations if reason.name in errors_of(one).get(reason.code, ())]
    yield f"## Calls that return it{of}\n\n{_listed(returning, len(operations))}"


def _listed(returning: Sequence[ApiOperation], total: int) -> str:
    if len(returning) > _LISTED:
        return f"{len(returning)} of this node's {total} calls. The page of each call lists it.\n"
    return (
        "".join(f"- [`{one.method} {one.path}`]({one.page}): {one.summary}\n" for one in returning)
        or "None on this node.\n"
    )
