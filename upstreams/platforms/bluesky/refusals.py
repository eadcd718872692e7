"""Judges Bluesky's error answers: nearly all of them are a 400 with the name of an error and a sentence."""

from __future__ import annotations

from upstreams.fetching.retry_after import until_reset_s
from upstreams.model.endpoint import Backoff, by_status
from upstreams.model.errors import InvalidArgument, NotFound, StaleCursor, UpstreamError, UpstreamThrottled
from upstreams.model.fields import Json, text
from upstreams.model.steps import Answer

_REASONS = {
    "NotFound": None,
    "HandleNotFound": None,
    "AccountTakedown": "account_gone",
    "AccountDeactivated": "account_gone",
    "BlockedActor": "account_private",
    "BlockedByActor": "account_private",
}
_ABSENT = ("not found", "actor", "handle")
"""Words of an InvalidRequest that is about who was asked for: `Profile not found`, `Unable to resolve handle`,
`actor must be a valid did or a handle`."""
_PARAMS = {"limit": "limit", "uri": "url", "filter": "filter", "query": "query"}
"""The word by which an InvalidRequest names a parameter -> our name of it."""
_WINDOW_S = 300.0
"""The window that Bluesky counts requests in: no header makes us wait longer before the next try."""


def judge(answer: Answer) -> UpstreamError | None:
    """The refusal that an error answer stands for, or None for what the fetch decides by its status."""
    if answer.status == 429 and "retry-after" not in answer.headers:
        return UpstreamThrottled(answer.source, _wait_s(answer))
    if answer.status == 400 and isinstance(answer.body, dict):
        return _refused(answer.body)
    return by_status(answer)


def backoff(answer: Answer) -> Backoff | None:
    """The answer that used up the quota is a good one still."""
    wait_s = _wait_s(answer) if answer.headers.get("ratelimit-remaining") == "0" else None
    return None if wait_s is None else Backoff(wait_s, "source")


def _wait_s(answer: Answer) -> float | None:
    """Seconds until requests are counted anew; None when it is not said."""
    wait_s = until_reset_s(answer.headers, "ratelimit-reset")
    return None if wait_s is None else min(wait_s, _WINDOW_S)


def _refused(body: Json) -> UpstreamError | None:
    error, message = text(body, "error") or "", text(body, "message") or ""
    if error in _REASONS:
        return NotFound(message or "Bluesky has no such record.", reason=_REASONS[error])
    if error == "BadQueryString":
        return InvalidArgument("query", f"Bluesky cannot search for it: {message}")
    return _invalid_request(message) if error == "InvalidRequest" else None


def _invalid_request(message: str) -> UpstreamError | None:
    words = message.lower()
    if any(word in words for word in _ABSENT):
        return NotFound(message)
    if "cursor" in words:
        return StaleCursor(message)
    param = next((ours for theirs, ours in _PARAMS.items() if theirs in words), None)
    return InvalidArgument(param, f"Bluesky refuses it: {message}") if param else None
