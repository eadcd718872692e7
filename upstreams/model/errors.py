"""Failures of an upstream, one class each. Nothing here depends on our own HTTP responses."""

from __future__ import annotations

from typing import Literal

from limits.errors import CircuitOpen, LimitError, Throttled

Blame = Literal["source", "request", "node"]
"""The cause of a failure. Either the source is unreachable, it failed on this request, or this node or the caller left
too little time."""

HELD_MAX_S = 86_400.0
"""The longest accepted wait. Quotas reset at least daily, so a longer value from an upstream is an error and is
ignored."""

THROTTLED_S = 30.0
"""Seconds to pause a source that throttles without naming a wait (spec 7.2)."""

BUSY_MAX_S = 60.0
"""The maximum Retry-After of `WorkersBusy`, in seconds."""

PAGE_TOO_COSTLY = "The page needs more time or memory than a page may use."
_TEXT_MAX = 500


def _quoted(text: str) -> str:
    """Return a text shortened to a readable length, with NUL replaced. An upstream may send megabytes."""
    return text[:_TEXT_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}")


class UpstreamError(Exception):
    """The base class of all upstream errors in this package."""


class NotFound(UpstreamError):
    """The upstream reports that the item does not exist, or answered without usable data (spec 7.2, 7.3).

    `reason` is one of the specification's reasons (`account_private`, `account_gone`, ...) or None. `by_status` is true
    if the status is the only evidence. A server also answers with that status if it does not have the path.
    """

    def __init__(
        self,
        message: str = "The upstream has no such record.",
        *,
        reason: str | None = None,
        by_status: bool = False,
    ) -> None:
        super().__init__(_quoted(message))
        self.reason = reason
        self.by_status = by_status
        self.spoke_json = True
        """False if the answer contained no JSON; set by the reader of the answer."""


class PageTooCostly(NotFound):
    """A page exceeded its time or memory limit and processing was stopped. The caller is charged.

    Raise this only if the page itself caused the cost, never for work of this node or of another page. All other
    failures are refunded (`billing.charges.refunds`).
    """

    def __init__(self, message: str = PAGE_TOO_COSTLY) -> None:
        super().__init__(message, reason="page_too_costly")


class UpstreamFailed(UpstreamError):
    """The upstream did not answer, answered with an error, or sent an unreadable answer.

    `passing` is true if another attempt may succeed: lost connections, timeouts, 5xx. `blame` determines how the
    failure affects the circuit breaker of the source.
    """

    def __init__(self, source: str, problem: str, *, passing: bool = False, blame: Blame = "request") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{source}: {self.problem}")
        self.source = source
        self.passing = passing
        self.blame = blame


class PartUnavailable(UpstreamFailed):
    """A part of a composite needs a platform that this node does not serve, or a credential that it does not have."""


class SourceUnusable(UpstreamError):
    """A source is unusable until the operator changes its configuration. Retrying does not help."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source


class NoJson(UpstreamFailed):
    """The upstream answered with a success status but without JSON, for example with a proxy's page."""


class UpstreamThrottled(UpstreamError):
    """The upstream asks us to slow down.

    `retry_after_s` is the wait that the upstream named, at most a day, or None if it named none. A wait of 0 counts as
    none, so that a throttling source is not called again immediately.
    """

    def __init__(self, source: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{source}: throttled")
        self.source = source
        self.retry_after_s = min(retry_after_s, HELD_MAX_S) if retry_after_s else None


class WorkersBusy(UpstreamThrottled):
    """This node has more queued worker tasks than it can finish in time; `retry_after_s` estimates when it has
    capacity."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__("node", min(max(ahead_s, 1.0), BUSY_MAX_S))


class InvalidArgument(UpstreamError):
    """A parameter has the right type but a value that this endpoint cannot use, detected before any call.

    `reason` is `capability_missing` if the value is valid but this node cannot support it.
    """

    def __init__(self, param: str, problem: str, *, reason: str = "invalid_param") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{param}: {self.problem}")
        self.param = param
        self.reason = reason


class OtherSoftware(InvalidArgument):
    """According to its own answer, a host that a caller named runs different software than its source requires."""


class InvalidCursor(UpstreamError):
    """A cursor token that is malformed, was changed, or belongs to another request (decisions 10)."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"cursor {problem}")
        self.problem = problem


class StaleCursor(UpstreamError):
    """A valid cursor of ours, for a position that the upstream no longer accepts (decisions 10)."""


class TargetRefused(UpstreamError):
    """A user's URL leads, or may lead, to an address that is not clearly public. The message is shown to the user.

    `reason` is one of: too_long, malformed, scheme, userinfo, port, host, address; or software, if the host's answer
    shows that it does not run the expected software.
    """

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class UnexpectedBody(UpstreamError):
    """A body without the documented structure; the fetch converts it to `UpstreamFailed`."""


class TooLarge(UnexpectedBody):
    """A body with more entries than any page of a platform has."""


UNREADABLE = (UnexpectedBody, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The exceptions that a platform's reader raises if a body has an unexpected structure."""


def unreadable(source: str, exc: Exception) -> UpstreamFailed:
    """Return the failure that one of the `UNREADABLE` exceptions means."""
    detail = f": {exc}" if isinstance(exc, UnexpectedBody) else ""  # of other exceptions, only the log has the details
    return UpstreamFailed(source, f"the body does not have the documented structure{detail}")


def failure_to_report(refusals: list[UpstreamError | LimitError]) -> UpstreamError | LimitError:
    """Return the failure to report: the first one, or the one with the shortest wait if the first only asks to wait."""
    return refusals[0] if isinstance(refusals[0], UpstreamFailed) else min(refusals, key=_wait_s)


def _wait_s(refusal: UpstreamError | LimitError) -> float:
    if isinstance(refusal, CircuitOpen | Throttled | UpstreamThrottled) and refusal.retry_after_s is not None:
        return refusal.retry_after_s
    return float("inf")
