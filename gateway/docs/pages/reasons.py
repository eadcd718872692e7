"""The page of each reason that an error may name: its meaning, the next step, and the calls that give it (spec 7.3)."""

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
        "MISSING_API_KEY/key_in_query": "Revoke the key, make a new one, and send that in the header `x-api-key`.",
        "INVALID_API_KEY/account_suspended": "Ask the operator why. The key works again once the account is resumed.",
        "INVALID_REQUEST/key_in_query": "Revoke the key that stands in the address, and send the other one alone.",
        "INVALID_REQUEST/invalid_param": "Correct what `param` names, as `next_step` or the endpoint's page says.",
        "INVALID_REQUEST/capability_missing": "Leave the value out, or ask a node whose operator has the means.",
        "INVALID_REQUEST/unsupported": "Send an address at a platform of the catalog, or read it as a page.",
        "INVALID_REQUEST/unsupported_content": "Send HTML, a PDF, a feed or text, and its type in `mime_type`.",
        "INVALID_REQUEST/empty": "There is nothing to read: of a page that scripts fill, send what a browser has.",
        "INVALID_REQUEST/unreadable_file": "Send the file whole, with its own type in `mime_type`.",
        "INVALID_REQUEST/invalid_utf8": "Encode text as UTF-8 first, and percent-encode its bytes then.",
        "INVALID_REQUEST/double_encoded": "Percent-encode each value once. Most HTTP libraries do it by themselves.",
        "INVALID_REQUEST/conflicting_params": "Leave out one of the two that the message names.",
        "INVALID_REQUEST/monitor_limit_reached": "Pause or delete a Monitor, or choose a larger plan.",
        "INVALID_REQUEST/monitor_paused": 'Send `PATCH {"status": "active"}` to the Monitor first.',
        "INVALID_REQUEST/webhook_limit_reached": "Delete a webhook that is not used any more.",
        "INVALID_REQUEST/deliveries_limit_reached": "Wait for the deliveries to end, and see their log.",
        "INVALID_REQUEST/job_limit_reached": "Wait for a job to end, or cancel one.",
        "INVALID_REQUEST/session_limit_reached": "Close a session, or wait until the time of one is up.",
        "INVALID_REQUEST/session_over": "Open another session.",
        "INVALID_REQUEST/job_over": "Read its results, or begin another.",
        "INVALID_REQUEST/above_max_credits": "Send a higher `max_credits`, or fewer pages, platforms or members.",
        "INVALID_REQUEST/no_numbers": "Choose a recipe whose results hold numbers, or name their paths in `track`.",
        "INVALID_REQUEST/webhook_paused": "Mend the receiver, then resume the webhook.",
        "INVALID_REQUEST/attempts_limit_reached": "Read the run's result instead: it is kept.",
        "INVALID_REQUEST/consumer_limit_reached": "Delete a consumer that nobody reads any more.",
        "INSUFFICIENT_CREDITS/balance_too_low": "Add credits. `dry_run=1` tells beforehand what a call costs.",
        "INSUFFICIENT_CREDITS/above_max_credits": "Send a higher `max_credits`, or a smaller `limit`.",
        "KEY_BUDGET_EXCEEDED/key_budget_reached": "Raise the key's limit, reset its usage, or call with another key.",
        "CONCURRENCY_LIMIT/credits_held": "Retry after `Retry-After` seconds, or make fewer calls at a time.",
        "RESOURCE_NOT_FOUND/account_private": "Only its owner can open it: another try gets the same.",
        "RESOURCE_NOT_FOUND/account_gone": "Ask by the account's id, which tells a new name from a removal.",
        "RESOURCE_NOT_FOUND/captions_disabled": "There is nothing to read: another try gets the same.",
        "RESOURCE_NOT_FOUND/no_captions": "Ask for another language, or take the video's description.",
        "RESOURCE_NOT_FOUND/login_required": "There is nothing to read without an account of the platform's.",
        "RESOURCE_NOT_FOUND/video_gone": "Forget the video: another try gets the same.",
        "RESOURCE_NOT_FOUND/challenge": "Take the page from elsewhere: its host wants no robots.",
        "RESOURCE_NOT_FOUND/robots_disallowed": "Leave the page out: its host wants it so.",
        "RESOURCE_NOT_FOUND/javascript_required": "Send `wait_for=1000` to a node that has a browser.",
        "RESOURCE_NOT_FOUND/pdf": "Send `pdf_parse=true`; the price is 5 credits then.",
        "RESOURCE_NOT_FOUND/unsupported_content": "There is nothing to read: another try gets the same.",
        "RESOURCE_NOT_FOUND/redirect_loop": "Open the address in a browser: it may want cookies of an earlier visit.",
        "RESOURCE_NOT_FOUND/empty": "There is nothing to read, perhaps for now.",
        "RESOURCE_NOT_FOUND/selector_absent": "Look at the page by `formats=screenshot`, or wait for something else.",
        "RESOURCE_NOT_FOUND/screenshot_too_large": "Leave `screenshot_full_page` out.",
        "RESOURCE_NOT_FOUND/page_too_costly": "Fetch the page yourself, and send a part of it to `web/parse`.",
        "RESOURCE_NOT_FOUND/unknown_session": "Take an id from the list of the account's sessions.",
        "RESOURCE_NOT_FOUND/unknown_monitor": "Take an id from the list of the account's Monitors.",
        "RESOURCE_NOT_FOUND/unknown_run": "Take an id from the list of the Monitor's runs. Old ones are removed.",
        "RESOURCE_NOT_FOUND/unknown_delivery": "Take an id from the list of the webhook's deliveries.",
        "RESOURCE_NOT_FOUND/unknown_webhook": "Take an id from `/v1/webhooks`, or give the Monitor a `webhook_url`.",
        "RESOURCE_NOT_FOUND/unknown_schedule": "Take an id from the list of schedules.",
        "RESOURCE_NOT_FOUND/unknown_job": "Take an id from the list of jobs. They are removed 30 days after their end.",
        "RESOURCE_NOT_FOUND/unknown_cohort": "Make it anew: nothing of it is kept.",
        "RESOURCE_NOT_FOUND/unknown_cohort_query": "Begin another: queries go with their cohort.",
        "COHORT_LIMIT_EXCEEDED/cohort_limit_reached": "Delete an unused cohort.",
        "COHORT_MEMBER_LIMIT_EXCEEDED/member_limit_reached": "Send fewer members, or make another cohort.",
        "COHORT_IDENTITY_PLATFORM_UNSUPPORTED/platform_unsupported": "Send a platform that `next_step` names.",
        "COHORT_IDENTITY_CONFLICT/identity_conflict": "Send the account with the external id that it has.",
        "COHORT_QUERY_NOT_CANCELLABLE/query_over": "Read its results, or start another query.",
        "COHORT_QUERY_NOT_READY/query_not_ready": "Wait until its `status` is `succeeded`, or begin another.",
        "COHORT_RESULT_TOO_LARGE/result_too_large": "Go on behind it with the `next_cursor` of `details`.",
        "RESOURCE_NOT_FOUND/unknown_consumer": "Read the feed once with this `consumer`.",
        "UNSUPPORTED_MEDIA_TYPE/encoded_body": "Leave out `Content-Encoding`, and send the body as it is.",
        "UNSUPPORTED_MEDIA_TYPE/not_a_form": "Send the file as a form, as `curl -F file=@page.html` does.",
        "UPGRADE_REQUIRED/websocket_only": "Open the path as a WebSocket of version 13, or stream `/v1/events`.",
        "CURSOR_EXPIRED/retention_passed": "Go on with `cursor=oldest`. `missed_from` and `missed_until` tell the gap.",
        "RATE_LIMITED/run_too_soon": "Wait for as long as `Retry-After` says.",
        "SERVICE_UNAVAILABLE/store_unavailable": "Wait for as long as `Retry-After` says. Nothing is lost meanwhile.",
    }
)
"""The next step of whoever is told a reason, by its key."""
_LISTED: Final = 12


def reason_markdown(name: str, operations: Sequence[ApiOperation]) -> str:
    """The page of a reason, with parts for each code that has it."""
    found = [reason for reason in REASONS.values() if reason.name == name]
    parts = [part for reason in found for part in _parts(reason, operations, is_one_of_many=len(found) > 1)]
    return "\n".join((f"# {name}\n", *parts))


def _parts(reason: Reason, operations: Sequence[ApiOperation], *, is_one_of_many: bool) -> Iterator[str]:
    code = CODES[reason.code]
    of = f" with a {code.status}" if is_one_of_many else ""
    yield f"{reason.meaning}\n"
    yield f"- **Code:** [`{code.name}`](/docs/errors#{code.name}), status {code.status}"
    yield f"- **The same again:** {'may succeed' if code.retryable else 'is refused again'}"
    yield f"- **Charge:** {'none' if code.charge == 'none' else 'none, or given back'}\n"
    yield f"## What to do{of}\n\n{REMEDIES.get(reason.key, 'Read the message, which says more.')}\n"
    error = {"type": code.name, "status": code.status, "details": {"reason": reason.name}}
    text = orjson.dumps({"success": False, "error": error}, option=orjson.OPT_INDENT_2).decode()
    yield f"## How to tell it{of}\n\nThe answer has these members, among others:\n\n```json\n{text}\n```\n"
    givers = [one for one in operations if reason.name in errors_of(one).get(reason.code, ())]
    yield f"## Where it comes from{of}\n\n{_listed(givers, len(operations))}"


def _listed(givers: Sequence[ApiOperation], all_there_are: int) -> str:
    if len(givers) > _LISTED:
        return f"{len(givers)} of this node's {all_there_are} calls; the page of each says so.\n"
    return "".join(f"- [`{one.method} {one.path}`]({one.page}): {one.summary}\n" for one in givers) or "None here.\n"
