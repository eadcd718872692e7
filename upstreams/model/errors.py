"""The ways in which an upstream can fail, one exception class each. They do not depend on our HTTP responses."""

from __future__ import annotations

from typing import Final, Literal

from limits.errors import CircuitOpen, LimitError, Throttled

Blame = Literal["source", "request", "node"]
"""The cause of a failure. `source`: the source is unreachable. `request`: it failed on this request. `node`: this node
or the caller allowed too little time."""

PARTNER: Final = "partner"
"""The name under which customers see every supplier."""
PartnerReason = Literal["key_refused", "unpaid", "budget_used"]
"""Why a partner source refuses all calls: it rejects the key, has no credits left, or would exceed its daily budget."""

HELD_MAX_S = 86_400.0
"""The longest wait that is accepted from an upstream. Quotas reset at least daily, so a longer wait is an error and is
ignored."""

THROTTLED_S = 30.0
"""Seconds to pause a source that throttles without stating how long to wait (spec 7.2)."""

BUSY_MAX_S = 60.0
"""The maximum Retry-After of `WorkersBusy`, in seconds."""

PAGE_TOO_COSTLY = "The page needs more time or memory than a page may use."
_TEXT_MAX = 500


def _quoted(text: str) -> str:
    """Return a text with NUL replaced, shortened to a readable length, because an upstream may send megabytes."""
    return text[:_TEXT_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}")


class DeclarationError(Exception):
    """A platform's declaration is faulty. The message names the platform, the field, the problem and a valid value.

    It is neither an `UpstreamError` nor an error that unreadable content causes, such as TypeError, so that a faulty
    declaration never looks like a failure of the upstream.
    """


class UpstreamError(Exception):
    """The base class of all upstream errors in this package."""

    charged_units: int = 0
    """The cost of the answer at a supplier, in the supplier's units."""
    session_expired = False
    """Whether the answer may mean that the session of the call has expired; set by the reader of the answer."""


class NotFound(UpstreamError):
    """The upstream reports that the item does not exist, or its answer contains no usable data (spec 7.2, 7.3).

    `reason` is one of the specification's reasons (`account_private`, `account_gone`, ...) or None. `by_status` is true
    if nothing but the status says so. A server that does not know the path answers with the same status.
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
    """A page exceeded its time or memory limit, and its processing was stopped. The caller is charged.

    Raise it only if the page itself is too costly, never because of this node's other work or another page. All other
    failures are refunded (`billing.charges.refunds`).
    """

    def __init__(self, message: str = PAGE_TOO_COSTLY) -> None:
        super().__init__(message, reason="page_too_costly")


class UpstreamFailed(UpstreamError):
    """The upstream did not answer, answered with an error, or sent an unreadable answer.

    `passing` is true if another attempt may succeed, as after a lost connection, a timeout or a 5xx status. `blame`
    determines how the failure affects the circuit breaker of the source.
    """

    def __init__(self, source: str, problem: str, *, passing: bool = False, blame: Blame = "request") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{source}: {self.problem}")
        self.source = source
        self.passing = passing
        self.blame = blame


class PartUnavailable(UpstreamFailed):
    """A part of a composite needs a platform or a credential that this node does not have."""


class SourceUnusable(UpstreamError):
    """A source cannot be used until the operator changes its configuration. Retrying does not help."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source


class NoJson(UpstreamFailed):
    """The upstream answered with a success status, but not with JSON. The body may be a proxy's page, for example."""


class UpstreamThrottled(UpstreamError):
    """The upstream asked us to slow down.

    `retry_after_s` is the wait that the upstream stated, at most a day, or None if it stated none. A wait of 0 counts
    as none, because a throttling source must not be called again immediately.
    """

    def __init__(self, source: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{source}: throttled")
        self.source = source
        self.retry_after_s = min(retry_after_s, HELD_MAX_S) if retry_after_s else None


class PartnerUnavailable(UpstreamThrottled):
    """A partner source refuses all calls until its operator acts, or until its daily budget starts again."""

    def __init__(self, source: str, reason: PartnerReason, retry_after_s: float) -> None:
        super().__init__(source, retry_after_s)
        self.args = (f"{source}: temporarily unavailable",)
        self.reason = reason


class WorkersBusy(UpstreamThrottled):
    """More worker tasks are queued on this node than it can finish in time. `retry_after_s` estimates the wait."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__("node", min(max(ahead_s, 1.0), BUSY_MAX_S))


class InvalidArgument(UpstreamError):
    """A parameter has a value of the right type that this endpoint cannot use. Raised before any upstream is called.

    `reason` is `capability_missing` if the value is valid, but this node cannot support it.
    """

    def __init__(self, param: str, problem: str, *, reason: str = "invalid_param") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{param}: {self.problem}")
        self.param = param
        self.reason = reason


class OtherSoftware(InvalidArgument):
    """A host that the caller named does not run the software that its source requires, according to its own answer."""


class InvalidCursor(UpstreamError):
    """A cursor token that is malformed, was changed, or belongs to another request (decisions 10)."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"cursor {problem}")
        self.problem = problem


class StaleCursor(UpstreamError):
    """One of our own cursors is valid, but the upstream no longer accepts its position (decisions 10)."""


class TargetRefused(UpstreamError):
    """A user's URL leads, or may lead, to an address that is not clearly public. The message is shown to the user.

    `reason` is too_long, malformed, scheme, userinfo, port, host or address. It is software if the host's own answer
    shows that it does not run the expected software.
    """

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class UnexpectedBody(UpstreamError):
    """A body does not have the documented structure. The fetch converts this error to `UpstreamFailed`."""


class TooLarge(UnexpectedBody):
    """A body has more entries than any page of a platform."""


UNREADABLE = (UnexpectedBody, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The exceptions that reading a body can raise if its structure is unexpected."""


def unreadable(source: str, exc: Exception) -> UpstreamFailed:
    """Return the failure to report for one of the `UNREADABLE` exceptions."""
    detail = f": {exc}" if isinstance(exc, UnexpectedBody) else ""  # the details of any other exception are only logged
    return UpstreamFailed(source, f"the body does not have the documented structure{detail}")


def failure_to_report(refusals: list[UpstreamError | LimitError]) -> UpstreamError | LimitError:
    """Return the failure to report to the caller.

    This is the first failure, unless it only asks the caller to wait. In that case, it is the one with the shortest
    wait.
    """
    return refusals[0] if isinstance(refusals[0], UpstreamFailed) else min(refusals, key=_wait_s)


def _wait_s(refusal: UpstreamError | LimitError) -> float:
    if isinstance(refusal, CircuitOpen | Throttled | UpstreamThrottled) and refusal.retry_after_s is not None:
        return refusal.retry_after_s
    return float("inf")
