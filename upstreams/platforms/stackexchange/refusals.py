"""Judges Stack Exchange's errors: most come with status 400, and only `error_id` tells them apart."""

from __future__ import annotations

import re

from upstreams.model.endpoint import Backoff, by_status
from upstreams.model.errors import (
    THROTTLED_S,
    InvalidArgument,
    NotFound,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.fields import Json, number, text
from upstreams.model.steps import Answer

_BAD_PARAMETER, _NO_METHOD, _INTERNAL = 400, 404, 500
_THROTTLED = frozenset((502, 503))
_WAIT = re.compile(r"in ([0-9]{1,6}) seconds")
_IDS = re.compile(r"/[0-9][0-9;]*(?=/|$)")
_QUOTA_S = 86_400.0
"""The quota is a day's. How much of the day is left is not said: the governor's own bound makes it a try each hour."""
_OURS = {"q": "query", "tagged": "tagged", "sort": "sort", "page": "cursor", "pagesize": "limit"}
"""The field that is named as wrong, which is the whole message -> our name of it."""


def judge(answer: Answer) -> UpstreamError | None:
    """An error by its id; what is wrong with the key or with us is left to be a failure."""
    body: Json = answer.body if isinstance(answer.body, dict) else {}
    error, message = number(body, "error_id"), text(body, "error_message") or ""
    if error in _THROTTLED or answer.status == 503:
        wait = _WAIT.search(message)
        return UpstreamThrottled(answer.source, float(wait[1]) if wait else None)
    if error == _INTERNAL:
        return UpstreamFailed(answer.source, f"error {error}: {message}", passing=True)
    if error == _NO_METHOD:
        return NotFound()
    if error == _BAD_PARAMETER:
        return _bad_parameter(message)
    return by_status(answer)


def _bad_parameter(message: str) -> UpstreamError | None:
    if message.startswith("`key`"):
        return None
    if message == "ids":  # a number above those that anything can have
        return NotFound()
    param = "site" if "site" in message else _OURS.get(message, "query")
    return InvalidArgument(param, f"is refused by Stack Exchange: {message or 'bad parameter'}")


def backoff(answer: Answer) -> Backoff | None:
    """Return the pause that a successful answer demands: of its method, or of the whole source.

    The source rests for the time that an error in the answer names, or once the quota is used up.
    """
    body: Json = answer.body if isinstance(answer.body, dict) else {}
    if "error_id" in body and isinstance(refusal := judge(answer), UpstreamThrottled):
        return Backoff(refusal.retry_after_s or THROTTLED_S, "source")
    if number(body, "quota_remaining") == 0:
        return Backoff(_QUOTA_S, "source")
    rest_s = number(body, "backoff") or 0
    return Backoff(float(rest_s), "method") if rest_s > 0 else None


def method_of(path: str) -> str:
    """The path without the ids in it: `/questions/1;2/answers` and `/questions/3/answers` are one method."""
    return _IDS.sub("/{ids}", path)
