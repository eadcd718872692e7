"""Stack Exchange's errors: most come with status 400, some with a good one, and only `error_id` tells them apart."""

from __future__ import annotations

import re

from upstreams.model.errors import InvalidArgument, UpstreamError, UpstreamThrottled
from upstreams.model.fields import Json, number, text
from upstreams.model.refusals import Refusals
from upstreams.model.steps import Answer

_THROTTLED = frozenset((502, 503))
_WAIT = re.compile(r"in ([0-9]{1,6}) seconds")
_OURS = {"q": "query", "tagged": "tagged", "sort": "sort", "page": "cursor", "pagesize": "limit"}
"""The field that is named as wrong, which is the whole message -> our name of it."""


def _judge(answer: Answer) -> UpstreamError | None:
    """Judge by more than a table: by the wait that a message names, and by which value it says is wrong."""
    body: Json = answer.body if isinstance(answer.body, dict) else {}
    error, message = number(body, "error_id"), text(body, "error_message") or ""
    if error in _THROTTLED or answer.status == 503:
        wait = _WAIT.search(message)
        return UpstreamThrottled(answer.source, float(wait[1]) if wait else None)
    if (
        error != 400 or message.startswith("`key`") or message == "ids"
    ):  # what is wrong with the key or with us: a failure
        return None
    param = "site" if "site" in message else _OURS.get(message, "query")
    return InvalidArgument(param, f"is refused by Stack Exchange: {message or 'bad parameter'}")


REFUSALS = Refusals(
    other=_judge,
    code="error_id",
    message="error_message",
    hidden=True,
    absent={"404": "", "400": "ids", 404: "", 410: "", 451: ""},  # `ids`: a number above those that anything can have
    passing=("500",),
)
