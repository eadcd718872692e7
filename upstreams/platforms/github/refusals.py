"""Judges GitHub's error answers, and the pause that its quota demands."""

from __future__ import annotations

from upstreams.fetching.retry_after import retry_after_s, until_reset_s
from upstreams.model.endpoint import Backoff, by_status
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.fields import Json, parts, text
from upstreams.model.steps import Answer


def judge(answer: Answer) -> UpstreamError | None:
    """GitHub says with 403 also that it throttles or that a repository is blocked, with 422 what it cannot search."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status in (403, 429) and _throttles(answer, body):
        return UpstreamThrottled(answer.source, _wait_s(answer))
    if answer.status == 403 and "block" in body:
        return NotFound("GitHub has blocked access to this repository.")
    if answer.status == 409 and "empty" in (text(body, "message") or ""):
        return NotFound("The repository is empty.")
    if answer.status == 422:
        return _unsearchable(body)
    return by_status(answer)


def backoff(answer: Answer) -> Backoff | None:
    """The answer that used up the quota is a good one still; the quotas of searches and of the rest are apart."""
    if answer.headers.get("x-ratelimit-remaining") != "0":
        return None
    wait_s = until_reset_s(answer.headers, "x-ratelimit-reset")
    return None if wait_s is None else Backoff(wait_s, "source")


def _wait_s(answer: Answer) -> float | None:
    """Return the seconds until a refusal ends; the quota's reset means nothing while there is a quota left."""
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    reset_s = until_reset_s(answer.headers, "x-ratelimit-reset") if spent else None
    return retry_after_s(answer.headers) or reset_s


def _throttles(answer: Answer, body: Json) -> bool:
    message = (text(body, "message") or "").lower()
    told = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    return told or "rate limit" in message or "abuse detection" in message


def _unsearchable(body: Json) -> UpstreamError | None:
    """A search is refused for its wording, or because the repository or account that it names does not exist."""
    problem = next((error for error in parts(body, "errors") if error.get("resource") == "Search"), None)
    if problem is None:
        return None
    message = text(problem, "message") or "the query is not valid"
    if "do not exist" in message:
        return NotFound(message)
    return InvalidArgument("query", f"GitHub cannot search for it: {message}")
