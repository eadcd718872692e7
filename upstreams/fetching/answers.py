"""Turns the response of a source into an `Answer`, or raises the matching refusal."""

from __future__ import annotations

import json
from typing import Any

import httpx
import orjson

from limits.quick_tuples import quick
from upstreams.model.errors import (
    UNREADABLE,
    Blame,
    NoJson,
    NotFound,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
    unreadable,
)
from upstreams.model.fields import decoded
from upstreams.model.fields.maps import UNDECODED
from upstreams.model.hidden_errors import IsError
from upstreams.model.refusals import Judge, expires_session, retry_after_s
from upstreams.model.steps import Accepts, Answer, Form
from upstreams.transport.careful_head import MalformedAnswer
from upstreams.transport.http import HttpAnswer, ResponseTooLarge

_answer = quick(Answer)
FAIR_S = 5.0
"""Shorter timeouts do not count against the source, because callers choose how long a request may take."""
_PASSING = frozenset((500, 502, 503, 504))
_NOTHING = frozenset((b"", b"null"))
"""Bodies that mean "no data" with a success status (spec 7.5)."""
_NOTHING_BYTES_MAX = 16
"""Longer bodies are not compared with these. Shorter ones match even with whitespace around the value."""
VALUES_MAX = 150_000
"""Maximum number of values in the JSON of an answer. A real page has about ten thousand. Commas in texts are counted
too."""
_MANY_VALUES_BYTES = 2 * VALUES_MAX
"""Bodies up to this length cannot have more than `VALUES_MAX` values, because a value takes at least two bytes."""
_NEARLY_JSON_BYTES_MAX = 256 * 1024
"""Longer bodies must be strict JSON. A second attempt to parse them would block other requests."""
_INTEGER_DIGITS_MAX = 20
_NO_TEXT = frozenset(("application/json", "text/html"))
"""Content types that are never a text file: such a body is truncated JSON, or a proxy's page."""
_LASTING = (ResponseTooLarge, MalformedAnswer, httpx.DecodingError)
"""Failures that would recur on another attempt."""


def read_answer(
    raw: HttpAnswer, source: str, took_s: float, *, accepts: Accepts, judge: Judge, hidden: IsError | None = None
) -> Answer:
    """Return the answer of the named source, with its body parsed.

    An answer with a success status is an error if `hidden` returns True for its body.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: The refusal that matches the answer.
    """
    status = raw.status
    if isinstance(accepts, Form) and not accepts.follows and status < 400:
        return _unjudged_answer(raw, source, took_s, accepts)
    if status == 202:  # the result is still being computed, as GitHub does for statistics
        raise UpstreamFailed(source, "the response is not ready yet", passing=True)
    if 300 <= status < 400:
        raise UpstreamFailed(source, f"status {status}")
    is_error = status >= 400 or (hidden is not None and hidden(raw.body))
    if not is_error and len(raw.body) <= _NOTHING_BYTES_MAX and raw.body.strip() in _NOTHING:
        raise judge(Answer(status, raw.headers, None, source)) or NotFound("The upstream returned no data.")
    body = _body(raw, source, "json" if is_error else accepts)
    answer = _answer((status, raw.headers, body, source, took_s, len(raw.body), raw.body))
    if is_error:
        raise refusal_of(answer, judge)
    return answer


def _unjudged_answer(raw: HttpAnswer, source: str, took_s: float, form: Form) -> Answer:
    """Return an answer that the read itself classifies, including redirects and status 202."""
    return Answer(raw.status, raw.headers, _read(raw, source, form), source, took_s, len(raw.body), raw.body)


def refusal_of(answer: Answer, judge: Judge) -> UpstreamError:
    """Return the refusal for an error answer, from the platform's rules or otherwise from its status."""
    refusal = judge(answer) or _usual_refusal(answer)
    if isinstance(refusal, NotFound):
        refusal.spoke_json = isinstance(answer.body, dict | list)
    refusal.session_expired = refusal.session_expired or expires_session(answer)
    return refusal


def _usual_refusal(answer: Answer) -> UpstreamError:
    if answer.status == 429 or (answer.status == 503 and answer.headers.get("retry-after")):
        return UpstreamThrottled(answer.source, retry_after_s(answer.headers))
    return UpstreamFailed(answer.source, f"status {answer.status}", passing=answer.status in _PASSING)


def failure_of(source: str, exc: httpx.RequestError, took_s: float, *, blame: Blame = "request") -> UpstreamFailed:
    """Return the failure of a call without an answer: a TransportError, or a body that cannot be decoded.

    A truncated response may be retried, but a malformed one is not.
    """
    if isinstance(exc, httpx.TimeoutException):
        return UpstreamFailed(source, f"no response within {took_s:.1f} s", passing=True, blame=blame)
    problem = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return UpstreamFailed(source, problem, passing=not isinstance(exc, _LASTING), blame=blame)


def blame_of(exc: httpx.RequestError, *, had_s: float, is_first: bool) -> Blame:
    """Return who is to blame for a call without an answer, after an attempt with a time limit of `had_s` seconds.

    `is_first` is False after a redirect, because then another host may have failed.
    """
    is_own_failure = isinstance(exc, httpx.PoolTimeout | httpx.ProxyError) or getattr(exc, "is_late", False)
    if is_own_failure or (isinstance(exc, httpx.TimeoutException) and had_s < FAIR_S):
        return "node"
    return "source" if is_first and isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout) else "request"


def _body(raw: HttpAnswer, source: str, accepts: Accepts) -> Any:
    if isinstance(accepts, Form) and raw.status < 400:
        return _read(raw, source, accepts)
    if len(raw.body) > _MANY_VALUES_BYTES and _values_at_most(raw.body) > VALUES_MAX:
        raise UpstreamFailed(source, f"the response has more than {VALUES_MAX} values")
    if raw.status < 400 and not isinstance(accepts, str):
        try:
            return accepts.decode(raw.body)  # type: ignore[union-attr]
        except UNDECODED:
            pass  # a value has an unexpected type
    try:
        return orjson.loads(raw.body)
    except orjson.JSONDecodeError as exc:
        words = decoded(raw.body)
        if (found := _nearly_json(words)) is not None:
            return found
        kind = raw.headers.get("content-type", "no content type").partition(";")[0]
        if raw.status < 400 and (accepts != "json or text" or kind in _NO_TEXT):
            raise NoJson(source, f"expected JSON, got {kind}", passing=True) from exc
        return words


def _read(raw: HttpAnswer, source: str, form: Form) -> Any:
    """Return the parsed body of a successful answer in a form other than JSON."""
    try:
        return form.read(raw.body, raw.headers.get("content-type", ""))
    except UNREADABLE as exc:
        raise unreadable(source, exc) from exc


def _values_at_most(body: bytes) -> int:
    """Return an upper bound of the number of values without parsing: each one follows a comma or an opening bracket."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _nearly_json(words: str) -> Any:
    """Parse a text that is JSON except for harmless deviations. Return None if it is not JSON.

    The deviations are a byte order mark, numbers out of range, NaN, and half of a surrogate pair at the end of a
    truncated text.
    """
    if not words.startswith(("{", "[")) or len(words) > _NEARLY_JSON_BYTES_MAX:
        return None
    from upstreams.content.amounts import whole_json  # noqa: PLC0415 - with the readers of feeds, 25 ms; rarely needed

    try:
        return json.loads(whole_json(words), parse_int=_bounded)
    except (ValueError, RecursionError):
        return None


def _bounded(digits: str) -> float:
    return int(digits) if len(digits) <= _INTEGER_DIGITS_MAX else float(digits)
