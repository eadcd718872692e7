"""The failures of an upstream, one class each (no HTTP of ours in here)."""

from __future__ import annotations

from typing import Literal

from limits.errors import CircuitOpen, LimitError, Throttled

Blame = Literal["source", "request", "node"]
"""The cause of a failure: the source cannot be reached, it failed on this request, or this node or the caller left
too little time for it.
"""

HELD_MAX_S = 86_400.0
"""Quotas come back within a day; what an upstream says beyond that is a slip of its own and is told to nobody."""

THROTTLED_S = 30.0
"""The seconds that a throttling source is left alone when it names none itself (spec 7.2)."""

BUSY_MAX_S = 60.0
"""The most seconds after which who was refused by `WorkersBusy` is to ask again."""

PAGE_TOO_COSTLY = "The page takes more time or memory than a page may."
_TEXT_MAX = 500


def _quoted(text: str) -> str:
    """As much of a text as a reader needs: it may quote an upstream, who may send megabytes, and NUL."""
    return text[:_TEXT_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}")


class UpstreamError(Exception):
    """The base of all refusals of this package."""


class NotFound(UpstreamError):
    """The upstream says that there is no such thing, or answered without usable data (spec 7.2, 7.3).

    `reason` is one of the specification's: `account_private`, `account_gone`, ... or None. `by_status` is true where
    nothing but the status said so, which is also how a server answers that does not know the path.
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
        """False: the answer had no JSON in it; only whoever read it may say so."""


class PageTooCostly(NotFound):
    """A page used up the time or the memory that a page may take, so its work was ended; the caller pays for it.

    Raise it only where the page itself caused the cost, never for what this node or another page did. All other
    failures are refunded (`billing.charges.refunds`).
    """

    def __init__(self, message: str = PAGE_TOO_COSTLY) -> None:
        super().__init__(message, reason="page_too_costly")


class UpstreamFailed(UpstreamError):
    """The upstream did not answer, answered with an error, or answered with what cannot be read.

    `passing` is true if another attempt may succeed: lost connections, time-outs, 5xx. `blame` decides what the failure
    means to the source's circuit.
    """

    def __init__(self, source: str, problem: str, *, passing: bool = False, blame: Blame = "request") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{source}: {self.problem}")
        self.source = source
        self.passing = passing
        self.blame = blame


class PartUnavailable(UpstreamFailed):
    """A part of a composite is of a platform that this node does not serve, or lacks a credential for."""


class SourceUnusable(UpstreamError):
    """A source cannot be used until the operator changes how it is set up; another attempt does not help."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source


class NoJson(UpstreamFailed):
    """JSON was due, and something else came with a good status: a proxy's page, or other software's."""


class UpstreamThrottled(UpstreamError):
    """The upstream asks us to slow down; `retry_after_s` is what it said, a day at most, or None where it said nothing.

    A 0 counts as nothing: a source that throttles is not asked again at once.
    """

    def __init__(self, source: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{source}: throttled")
        self.source = source
        self.retry_after_s = min(retry_after_s, HELD_MAX_S) if retry_after_s else None


class WorkersBusy(UpstreamThrottled):
    """This node has more to read already than can be read in time; `retry_after_s` is when there may be room."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__("node", min(max(ahead_s, 1.0), BUSY_MAX_S))


class InvalidArgument(UpstreamError):
    """A parameter has the right type but a value that this endpoint cannot use, seen before any call.

    `reason` is `capability_missing` where the value is good, and this node lacks the means for it.
    """

    def __init__(self, param: str, problem: str, *, reason: str = "invalid_param") -> None:
        self.problem = _quoted(problem)
        super().__init__(f"{param}: {self.problem}")
        self.param = param
        self.reason = reason


class OtherSoftware(InvalidArgument):
    """The host that a caller names has shown by its own answer that it does not run the software of its source."""


class InvalidCursor(UpstreamError):
    """A cursor token that is malformed, tampered with, or made for another request (decisions 10)."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"cursor {problem}")
        self.problem = problem


class StaleCursor(UpstreamError):
    """A cursor of ours that was good, but that the upstream no longer takes (decisions 10)."""


class TargetRefused(UpstreamError):
    """A URL that a user named leads, or may lead, to what is not plainly public. The text is for the user.

    `reason` is one of: too_long, malformed, scheme, userinfo, port, host, address; or software, where it is a host's
    own answer that tells what it does not run.
    """

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class UnexpectedBody(UpstreamError):
    """A body without the shape that the platform documents; the fetch turns it into `UpstreamFailed`."""


class TooLarge(UnexpectedBody):
    """A body in which there is more than in any page of a platform."""


UNREADABLE = (UnexpectedBody, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The exceptions that a platform's reader raises on a body that it was not written for."""


def unreadable(source: str, exc: Exception) -> UpstreamFailed:
    """The failure that stands for one of `UNREADABLE`."""
    told = f": {exc}" if isinstance(exc, UnexpectedBody) else ""  # of the others only the log has more
    return UpstreamFailed(source, f"the body has another shape than documented{told}")


def most_useful(refusals: list[UpstreamError | LimitError]) -> UpstreamError | LimitError:
    """The failure to answer with: the endpoint's own; where that only asks for patience, of those that do the one that
    is back first.
    """
    return refusals[0] if isinstance(refusals[0], UpstreamFailed) else min(refusals, key=_wait_s)


def _wait_s(refusal: UpstreamError | LimitError) -> float:
    if isinstance(refusal, CircuitOpen | Throttled | UpstreamThrottled) and refusal.retry_after_s is not None:
        return refusal.retry_after_s
    return float("inf")
