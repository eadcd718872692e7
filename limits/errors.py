"""The errors of the limits. Their fields contain the limit that was reached and the time to wait."""

from __future__ import annotations

from typing import NamedTuple


class WindowState(NamedTuple):
    """The state of one key's window.

    `reset_s` is the number of whole seconds until the oldest request frees its slot, or 0 if no slot is in use.
    """

    limit: int
    remaining: int
    reset_s: int

    @property
    def retry_after_s(self) -> int:
        """Whole seconds until a request is admitted if no other arrives; 0 if one would be admitted now."""
        return 0 if self.remaining else self.reset_s


class LimitError(Exception):
    """The base of all refusals by a limit."""


class RateLimited(LimitError):
    """The key's window is full. `state` has the limit and the time until a slot is free."""

    def __init__(self, state: WindowState) -> None:
        super().__init__(state)
        self.state = state

    def __str__(self) -> str:
        return f"the window is full (limit {self.state.limit}); a slot becomes free in {self.state.retry_after_s} s"


class ConcurrencyReached(LimitError):
    """The key already has `limit` leases in use."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the key has reached its limit of concurrent requests ({limit})")
        self.limit = limit


class LongReadsReached(LimitError):
    """The account has `limit` long reads in progress, and none of them ended during the wait."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this account already has {limit} long reads in progress")
        self.limit = limit


class CircuitOpen(LimitError):
    """The source's breaker blocks the call. Retry after `retry_after_s` whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the circuit is open for another {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Throttled(LimitError):
    """The upstream requested a pause of `retry_after_s` whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the upstream requested a pause of {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ClaimRefused(LimitError):
    """The base of all refusals by an idempotency key."""


class ClaimInProgress(ClaimRefused):
    """The same request with the same key is still running."""

    def __init__(self) -> None:
        super().__init__("the request with this idempotency key is still running")


class ClaimConflict(ClaimRefused):
    """A different request is running with the same key."""

    def __init__(self) -> None:
        super().__init__("a different request is running with this idempotency key")


class ClaimMismatch(ClaimRefused):
    """The key was used for a request with other parameters."""

    def __init__(self) -> None:
        super().__init__("this idempotency key was used for a request with other parameters")


class ReplayUnavailable(ClaimRefused):
    """The request with the key has finished, but its answer is not stored."""

    def __init__(self) -> None:
        super().__init__(
            "the request with this idempotency key has finished, but its response was too long to keep "
            "or was removed to make room for newer ones"
        )


class GenerationPassed(LimitError):
    """The key has changed since it was looked up. Look it up again, and retry with this generation."""

    def __init__(self, generation: bytes) -> None:
        super().__init__("the key was changed since it was looked up")
        self.generation = generation
