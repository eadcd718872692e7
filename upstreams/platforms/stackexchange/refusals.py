"""Map Stack Exchange's errors to ours by their `error_id`. Most have status 400, and some have a success status."""

from __future__ import annotations

import re

from upstreams.model.errors import InvalidArgument, UpstreamError, UpstreamThrottled
from upstreams.model.fields import Json, number, text
from upstreams.model.refusals import Refusals
from upstreams.model.steps import Answer

_THROTTLED = frozenset((502, 503))
_WAIT = re.compile(r"in ([0-9]{1,6}) seconds")
_PARAM_OF_NAME = {"q": "query", "tagged": "tagged", "sort": "sort", "page": "cursor", "pagesize": "limit"}
"""Maps messages to our parameter names. Such a message is only the name of the invalid parameter."""


def _judge(answer: Answer) -> UpstreamError | None:
    """Return the error for messages that a table cannot express: those that state a wait or an invalid value."""
    body: Json = answer.body if isinstance(answer.body, dict) else {}
    error, message = number(body, "error_id"), text(body, "error_message") or ""
    if error in _THROTTLED or answer.status == 503:
        wait = _WAIT.search(message)
        return UpstreamThrottled(answer.source, float(wait[1]) if wait else None)
    if error != 400 or message.startswith("`key`") or message == "ids":  # the key or our request is wrong
        return None
    param = "site" if "site" in message else _PARAM_OF_NAME.get(message, "query")
    return InvalidArgument(param, f"is refused by Stack Exchange: {message or 'bad parameter'}")


REFUSALS = Refusals(
    other=_judge,
    code="error_id",
    message="error_message",
    hidden=True,
    absent={"404": "", "400": "ids", 404: "", 410: "", 451: ""},  # `ids`: the id exceeds all existing ids
    passing=("500",),
)
