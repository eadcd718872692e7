"""Map GitHub's error answers to our errors."""

from __future__ import annotations

from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.fields import Json, parts, text
from upstreams.model.steps import Answer

_ACCESS_DENIED = ("saml enforcement", "ip allow list", "forbids access via", "oauth app access restrictions")
"""Words in the message of a 403 by which an organization denies access to the operator's token or IP address."""


def judge(answer: Answer) -> UpstreamError | None:
    """Return the error that an answer expresses, or None if the status alone decides.

    GitHub also uses 403 for throttling and for blocked repositories, and 422 for searches that it cannot run.
    """
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status in (403, 429) and _throttles(answer, body):
        return UpstreamThrottled(answer.source)
    if answer.status == 403 and "block" in body:
        return NotFound("GitHub has blocked access to this repository.")
    if answer.status == 403 and any(words in _message(body).lower() for words in _ACCESS_DENIED):
        return NotFound(_message(body), reason="account_private")
    if answer.status == 409 and "empty" in _message(body):
        return NotFound("The repository is empty.")
    if answer.status == 422:
        return _unsearchable(body)
    return None


def _message(body: Json) -> str:
    return text(body, "message") or ""


def _throttles(answer: Answer, body: Json) -> bool:
    message = _message(body).lower()
    has_limit_header = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    return has_limit_header or "rate limit" in message or "abuse detection" in message


def _unsearchable(body: Json) -> UpstreamError | None:
    """Return the error for a rejected search.

    Either the query is invalid, or it names a repository or account that does not exist.
    """
    problem = next((error for error in parts(body, "errors") if error.get("resource") == "Search"), None)
    if problem is None:
        return None
    message = text(problem, "message") or "the query is not valid"
    if "do not exist" in message:
        return NotFound(message)
    return InvalidArgument("query", f"GitHub rejected the search: {message}")
