"""Reads what came back from a source: an `Answer`, or the refusal that it stands for."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import orjson

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
from upstreams.model.maps import UNDECODED
from upstreams.model.refusals import Judge, retry_after_s
from upstreams.model.steps import Accepts, Answer, Form
from upstreams.transport.careful_head import MalformedAnswer
from upstreams.transport.http import HttpAnswer, ResponseTooLarge

FAIR_S = 5.0
"""A time-out after fewer seconds says nothing about the source: a caller may choose how long a request takes."""
_PASSING = frozenset((500, 502, 503, 504))
_NOTHING = frozenset((b"", b"null"))
"""Bodies that say, with a good status, that there is nothing (spec 7.5)."""
_NOTHING_BYTES_MAX = 16
"""Longer bodies are not looked at for blanks around it."""
VALUES_MAX = 150_000
"""Values of one answer's JSON: a true page has some ten thousand, and a comma in a text counts as one too."""
_MANY_VALUES_BYTES = 2 * VALUES_MAX
"""A body must be longer to hold more: a value takes two bytes."""
_NEARLY_JSON_BYTES_MAX = 256 * 1024
"""Longer bodies are JSON or they are not: a second look at them would hold up everybody else."""
_INTEGER_DIGITS_MAX = 20
_NO_TEXT = frozenset(("application/json", "text/html"))
"""Types of what is no file's text: JSON that was cut short, a proxy's page."""
_LASTING = (ResponseTooLarge, MalformedAnswer, httpx.DecodingError)
"""Failures that another try would only repeat."""
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")


def read_answer(
    raw: HttpAnswer, source: str, took_s: float, *, accepts: Accepts, judge: Judge, hidden: bytes = b""
) -> Answer:
    """The answer that came from the source of this name, its body parsed.

    An answer with a good status that has `hidden` in its body is an error all the same.

    Raises:
        NotFound, InvalidArgument, UpstreamThrottled, UpstreamFailed: what it says instead.
    """
    status = raw.status
    if accepts.__class__ is Form and not accepts.follows and status < 400:
        return _as_it_came(raw, source, took_s, accepts)
    if status == 202:  # it is still making what was asked for: GitHub's statistics
        raise UpstreamFailed(source, "the answer is not ready yet", passing=True)
    if 300 <= status < 400:
        raise UpstreamFailed(source, f"status {status}")
    is_error = status >= 400 or (hidden != b"" and hidden in raw.body and _has_member(raw.body, hidden))
    if not is_error and len(raw.body) <= _NOTHING_BYTES_MAX and raw.body.strip() in _NOTHING:
        raise judge(Answer(status, raw.headers, None, source)) or NotFound("The upstream answered without data.")
    body = _body(raw, source, "json" if is_error else accepts)
    # As `Answer(...)`, which costs twice this.
    answer = tuple.__new__(Answer, (status, raw.headers, body, source, took_s, len(raw.body), raw.body))
    if is_error:
        raise refusal_of(answer, judge)
    return answer


def _as_it_came(raw: HttpAnswer, source: str, took_s: float, form: Form) -> Answer:
    """The answer that a read judges by itself: also a redirect, and one that is still being made."""
    return Answer(raw.status, raw.headers, _read(raw, source, form), source, took_s, len(raw.body), raw.body)


def refusal_of(answer: Answer, judge: Judge) -> UpstreamError:
    """Return the refusal in an error answer: as its platform judges, else by its status."""
    if (refusal := judge(answer)) is not None:
        if isinstance(refusal, NotFound):
            refusal.spoke_json = isinstance(answer.body, dict | list)
        return refusal
    if answer.status == 429 or (answer.status == 503 and answer.headers.get("retry-after")):
        return UpstreamThrottled(answer.source, retry_after_s(answer.headers))
    return UpstreamFailed(answer.source, f"status {answer.status}", passing=answer.status in _PASSING)


def failure_of(source: str, exc: httpx.RequestError, took_s: float, *, blame: Blame = "request") -> UpstreamFailed:
    """Return the failure of a call without an answer: a TransportError, or a body whose coding cannot be undone.

    A malformed response is not worth another try; one that was cut off is.
    """
    if isinstance(exc, httpx.TimeoutException):
        return UpstreamFailed(source, f"no answer within {took_s:.1f} s", passing=True, blame=blame)
    problem = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return UpstreamFailed(source, problem, passing=not isinstance(exc, _LASTING), blame=blame)


def blame_of(exc: httpx.RequestError, *, had_s: float, is_first: bool) -> Blame:
    """Return the part that a call without an answer blames, after an attempt that was given `had_s` seconds.

    `is_first` is false once the source has answered with a redirect: then another host may be the one that failed.
    """
    is_own_wait = isinstance(exc, httpx.PoolTimeout) or getattr(exc, "is_late", False)
    if is_own_wait or (isinstance(exc, httpx.TimeoutException) and had_s < FAIR_S):
        return "node"
    return "source" if is_first and isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout) else "request"


def _body(raw: HttpAnswer, source: str, accepts: Accepts) -> Any:
    if accepts.__class__ is Form and raw.status < 400:
        return _read(raw, source, accepts)
    if len(raw.body) > _MANY_VALUES_BYTES and _values_at_most(raw.body) > VALUES_MAX:
        raise UpstreamFailed(source, f"its answer has more than {VALUES_MAX} values, which no page of it has")
    if raw.status < 400 and accepts.__class__ is not str:
        try:
            return accepts.decode(raw.body)  # type: ignore[union-attr]
        except UNDECODED:
            pass  # something in it is of another kind than usual
    try:
        return orjson.loads(raw.body)
    except orjson.JSONDecodeError as exc:
        words = decoded(raw.body)
        if (found := _nearly_json(words)) is not None:
            return found
        kind = raw.headers.get("content-type", "no content type").partition(";")[0]
        if raw.status < 400 and (accepts != "json or text" or kind in _NO_TEXT):
            raise NoJson(source, f"JSON was due, {kind} came", passing=True) from exc
        return words


def _read(raw: HttpAnswer, source: str, form: Form) -> Any:
    """Return what a form other than JSON makes of a good answer."""
    try:
        return form.read(raw.body, raw.headers.get("content-type", ""))
    except UNREADABLE as exc:
        raise unreadable(source, exc) from exc


def _has_member(body: bytes, written: bytes) -> bool:
    """Whether a body is an object with a member of this name, and not one with such a text somewhere in it."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and written.decode().strip('"') in found


def _values_at_most(body: bytes) -> int:
    """No fewer values than the JSON has, told without parsing it: each follows a comma or an opening bracket."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _nearly_json(words: str) -> Any:
    """Return the values of a text that strict JSON refuses though each is plain; None where it is no JSON.

    Such are a byte order mark, numbers beyond all bounds, NaN, and half of a surrogate pair where a text was cut.
    """
    if not words.startswith(("{", "[")) or len(words) > _NEARLY_JSON_BYTES_MAX:
        return None
    try:
        written = json.dumps(json.loads(words, parse_int=_bounded), ensure_ascii=False)
        return json.loads(_HALF_OF_A_PAIR.sub("\ufffd", written))
    except (ValueError, RecursionError):
        return None


def _bounded(digits: str) -> float:
    return int(digits) if len(digits) <= _INTEGER_DIGITS_MAX else float(digits)
