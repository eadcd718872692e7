"""The behavior of an upstream: what its errors mean, how it reports its quota, and how many calls it accepts.

Refusals(gone=(410,), private={401: "authenticated user"}, bad={422: "query"})
Remaining("x-ratelimit-remaining", reset="x-ratelimit-reset")
Pace(300, per_s=300)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final, Literal, NamedTuple

from upstreams.model.errors import (
    HELD_MAX_S,
    InvalidArgument,
    NotFound,
    StaleCursor,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.steps import Answer

Headers = Mapping[str, str]
Judge = Callable[[Answer], UpstreamError | None]
Cases = Mapping[int | str, str | tuple[str, ...]] | tuple[int | str, ...]
"""The statuses, or codes in the body, that identify a case. A mapping also requires the message to contain one of the
words given for the status. An empty word matches every message."""
ABSENT: Final = (404, 410, 451)
WHOLE_SOURCE: Final = ""
"""The governor's key for a source as a whole. Its other keys are methods."""
_UNIX_FROM_S = 1e9
"""A smaller number in a reset header is in seconds from now. A larger one is in Unix seconds."""
_DAY_S = 86_400.0
_LISTED = re.compile(r";\s*(r|t)=(\d{1,12})")


class Backoff(NamedTuple):
    """A pause of `for_s` seconds that an upstream requests.

    It applies to the method that was called (`Platform.method_of`) or to the whole source.
    """

    for_s: float
    scope: Literal["method", "source"]


def by_status(answer: Answer) -> UpstreamError | None:
    """Return NotFound for the statuses 404, 410 and 451, which mean the same on most platforms.

    Return None for any other.
    """
    return NotFound(by_status=True) if answer.status in ABSENT else None


def expires_session(answer: Answer) -> bool:
    """Return whether an error may mean that a session has expired: status 401, or `invalid_token` (RFC 6750, 3.1)."""
    return answer.status == 401 or "invalid_token" in answer.headers.get("www-authenticate", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Classifies an error answer by its status, by the code in its body, and by words in its message.

    The code is checked before the status. If nothing matches, the fetch treats 429 as throttling and any other status
    as a failure.

    Words are matched only in JSON, because a proxy's page may contain them too. Plain text is quoted in the error, but
    a page is not.
    """

    absent: Cases = ABSENT
    """The item does not exist."""
    gone: Cases = ()
    """The account was deleted or suspended."""
    private: Cases = ()
    """Only some users can see the item."""
    throttled: Cases = ()
    """The upstream asks us to slow down."""
    stale: Cases = ()
    """The upstream no longer accepts the cursor. The client must start again at the first page."""
    passing: Cases = ()
    """A failure after which another attempt may succeed."""
    expired: Cases = ()
    """The session has expired, in addition to `expires_session`."""
    bad: Mapping[int | str, str | Mapping[str, str]] = field(default_factory=dict)
    """The upstream rejects the value of a parameter. Each entry is the name of our parameter, or maps words of the
    message to names."""
    code: str = ""
    """The body member that contains the error code."""
    message: str = ""
    """The body member that contains the error message. Several names are separated by bars, and the first one with a
    text is used."""
    hidden: bool = False
    """Whether errors also occur with a success status. The body then contains `code`."""
    other: Judge | None = None
    """A function for cases that the tables cannot express. It is called first, and also for a success status with an
    empty or null body."""

    def __call__(self, answer: Answer) -> UpstreamError | None:
        """Return the refusal that an error answer expresses, or None if no case matches."""
        if self.other is not None and (refusal := self.other(answer)) is not None:
            return refusal
        code, message = self._code_and_message(answer)
        for key in (code, answer.status):
            if key is not None and (refusal := self._of(key, message, answer)) is not None:
                return refusal
        return None

    def _code_and_message(self, answer: Answer) -> tuple[str | int | None, str]:
        body = answer.body
        if not isinstance(body, dict):
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            return None, body.strip() if isinstance(body, str) and kind == "text/plain" else ""
        code = _member(body, self.code)
        texts = (_member(body, name) for name in self.message.split("|"))
        message = next((one for one in texts if isinstance(one, str)), "")
        return code if isinstance(code, str) else None if code is None else f"{code}", message

    def _of(self, key: int | str, message: str, answer: Answer) -> UpstreamError | None:
        lowered = message.lower() if isinstance(answer.body, dict) else ""
        for cases, refusal in self._table(key, message, answer):
            words = cases.get(key, ()) if isinstance(cases, Mapping) else ("",) if key in cases else ()
            if any(word in lowered for word in ((words,) if isinstance(words, str) else words)):
                refusal.session_expired = cases is self.expired
                return refusal
        param = self.bad.get(key)
        if isinstance(param, Mapping):
            param = next((ours for word, ours in param.items() if word.lower() in lowered), None)
        return None if param is None else InvalidArgument(param, f"is refused: {message or 'it is not valid'}")

    def _table(self, key: int | str, message: str, answer: Answer) -> tuple[tuple[Cases, UpstreamError], ...]:
        failure = f"error {key}: {message}" if message else f"error {key}"
        message = message or "The upstream has no such record."
        return (
            (self.expired, UpstreamFailed(answer.source, failure)),
            (self.throttled, UpstreamThrottled(answer.source)),
            (self.gone, NotFound(message, reason="account_gone")),
            (self.private, NotFound(message, reason="account_private")),
            (self.passing, UpstreamFailed(answer.source, f"error {key}: {message}", passing=True)),
            (self.absent, NotFound(message, by_status=isinstance(key, int))),
            (self.stale, StaleCursor(message)),
        )


def _member(body: Mapping[str, Any], name: str) -> Any:
    """Return the member under a dotted name. If its value is a list, return the first entry."""
    found: Any = body if name else None
    for step in name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
        found = next(iter(found), None) if isinstance(found, list) else found
    return found


@dataclass(frozen=True, slots=True)
class Remaining:
    """Reads the remaining quota from headers or from body members.

    The reset is in seconds from now, in Unix seconds, or an ISO time. In the structured form, `"api";r=0;t=57`, the
    header `left` contains both the remaining calls and the reset.
    """

    left: str = ""
    """The header that contains the number of remaining calls."""
    reset: str = ""
    """The header that contains the time of the quota's reset."""
    window_s: float = HELD_MAX_S
    """The period of the quota in seconds. An upstream that reports a later reset is wrong, so the wait is limited to
    this period."""
    member: str = field(default="", kw_only=True)
    """The body member that contains the number of remaining calls."""
    daily: bool = field(default=False, kw_only=True)
    """Whether the quota resets at midnight UTC. It is for upstreams whose answers do not contain the reset."""
    pause: str = field(default="", kw_only=True)
    """The body member that contains the number of seconds for which this method must not be called."""

    def __call__(self, answer: Answer) -> Backoff | None:
        """Return the pause that a successful answer makes necessary, or None."""
        if self.left and self.left_of(answer.headers) == 0 and (wait_s := self.wait_s(answer.headers)) is not None:
            return Backoff(wait_s, "source")
        if self.member and answer.number(self.member) == 0:
            wait_s = _until_midnight_s(answer.headers) if self.daily else None
            return Backoff(wait_s or self.window_s, "source")
        if self.pause and (pause_s := answer.number(self.pause) or 0) > 0:
            return Backoff(float(pause_s), "method")
        return None

    def left_of(self, headers: Headers) -> int | None:
        """Return the number of remaining calls, or None if unknown."""
        text = headers.get(self.left, "")
        found = dict(_LISTED.findall(text)).get("r", text)
        return int(found) if found.isdecimal() else None

    def wait_s(self, headers: Headers) -> float | None:
        """Return the seconds until the quota resets, or None if unknown."""
        listed = dict(_LISTED.findall(headers.get(self.left, ""))) if self.left else {}
        wait_s = float(listed["t"]) if "t" in listed else until_reset_s(headers, self.reset)
        return None if wait_s is None else min(wait_s, self.window_s)


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of calls that a platform accepts in `per_s` seconds. Each node enforces this rate on its own.

    `costs` is for methods that count as more than one call. It maps path prefixes, without the source's base path, to
    costs. `sources` lists the sources to which the rate applies; empty means all of them.
    """

    calls: float
    per_s: float
    costs: Mapping[str, float] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    def of(self, source: str) -> bool:
        """Return whether the rate applies to a source."""
        return source in self.sources or not self.sources

    def cost(self, path: str) -> float:
        """Return the cost of calling a path."""
        return usual_cost(self.costs, path)


def usual_cost(costs: Mapping[str, float], path: str) -> float:
    """Return the cost of calling a path, which the longest matching prefix determines. It is 1 if none matches."""
    if not costs:
        return 1.0
    begins = [begin for begin in costs if path.startswith(begin)]
    return costs[max(begins, key=len)] if begins else 1.0


class Bucket:
    """A token bucket that contains the calls that a source still accepts.

    It starts full and refills evenly. Only its source modifies it.
    """

    __slots__ = ("_at", "_left", "pace")

    def __init__(self, pace: Pace, now: float) -> None:
        self.pace = pace
        self._left = pace.calls
        self._at = now

    def left(self, now: float) -> float:
        """Return the number of calls that can be made now."""
        return min(self.pace.calls, self._left + (now - self._at) * self.pace.calls / self.pace.per_s)

    def wait_s(self, path: str, now: float) -> float:
        """Return the seconds until this path may be called. If it is 0, `take` deducts the cost of the call."""
        pace = self.pace
        self._left, self._at = self.left(now), now
        lacking = min(pace.cost(path), pace.calls) - self._left
        return lacking * pace.per_s / pace.calls if lacking > 0 else 0.0

    def take(self, path: str) -> None:
        """Deduct the cost of a call."""
        self._left -= self.pace.cost(path)

    def give_back(self, path: str) -> None:
        """Refund a call that was not sent."""
        self._left += self.pace.cost(path)

    def standing(self, now: float) -> tuple[int, float, float]:
        """Return the calls that can be made now, and the rate: the number of calls, and its period in seconds."""
        return int(self.left(now)), self.pace.calls, self.pace.per_s

    def hold_name(self, _path: str) -> str:
        """Return the governor's key for calls that must wait, which is the whole source."""
        return WHOLE_SOURCE


def retry_after_s(headers: Headers) -> float | None:
    """Return the seconds in `Retry-After`, which may be a number or a date; None if it is unreadable or in the past."""
    text = headers.get("retry-after", "")
    if text.isdecimal():
        return float(text) or None
    return _until_s(_http_date(text), headers) if text else None


def until_reset_s(headers: Headers, name: str) -> float | None:
    """Return the seconds until the time in the header `name`, or None if it is unreadable or in the past.

    The header may contain seconds from now, Unix seconds or ISO text.
    """
    text = headers.get(name, "")
    if text.isdecimal():
        number = float(text)
        return _until_s(number, headers) if number >= _UNIX_FROM_S else number or None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return _until_s(at, headers)


def _until_midnight_s(headers: Headers) -> float | None:
    sent_at = _http_date(headers.get("date", ""))
    return None if sent_at is None else _DAY_S - sent_at % _DAY_S


def _until_s(at: float | None, headers: Headers) -> float | None:
    """Return the seconds from the answer's `Date` header until `at`, so that our clock does not matter."""
    sent_at = _http_date(headers.get("date", ""))
    return at - sent_at if at is not None and sent_at is not None and at > sent_at else None


def _http_date(date: str) -> float | None:
    """Return an HTTP date as Unix seconds, or None if the text is not an HTTP date."""
    try:
        parts = parsedate_tz(date)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):  # the day or year is invalid
        return None
