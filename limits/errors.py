"""The refusals of this floor: what was reached and how long to wait, in fields."""

from __future__ import annotations

from typing import NamedTuple


class WindowState(NamedTuple):
    """The state of one key's window: `reset_s` is the whole seconds until a slot frees, 0 when none is used."""

    limit: int
    remaining: int
    reset_s: int

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which a request is admitted if no other came: 0 while one would be admitted at once."""
        return 0 if self.remaining else self.reset_s


class LimitError(Exception):
    """Base of every refusal that a limit gives."""


class RateLimited(LimitError):
    """The key's window is full; `state` tells the limit and when a slot frees."""

    def __init__(self, state: WindowState) -> None:
        super().__init__(state)
        self.state = state

    def __str__(self) -> str:
        return f"{self.state.limit} requests are in the window; a slot frees in {self.state.retry_after_s} s"


class ConcurrencyReached(LimitError):
    """All `limit` leases of the key are held."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} requests are running")
        self.limit = limit


class LongReadsReached(LimitError):
    """The account has `limit` long answers under way, and none of them ended in time."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} long answers of this account are under way")
        self.limit = limit


class CircuitOpen(LimitError):
    """The source's breaker lets nothing through; it is worth asking again after `retry_after_s` whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the circuit is open for another {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Throttled(LimitError):
    """The upstream asked us to hold back for `retry_after_s` whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the upstream asked to wait {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ClaimRefused(LimitError):
    """Base of what an idempotency key is refused for."""


class ClaimInProgress(ClaimRefused):
    """The same request with the same key is still running."""

    def __init__(self) -> None:
        super().__init__("the request of this idempotency key is still running")


class ClaimConflict(ClaimRefused):
    """Another request, elsewhere in the API, is running under the key."""

    def __init__(self) -> None:
        super().__init__("another request is running under this idempotency key")


class ClaimMismatch(ClaimRefused):
    """The key stands for a request with other parameters."""

    def __init__(self) -> None:
        super().__init__("this idempotency key belongs to a request with other parameters")


class ReplayUnavailable(ClaimRefused):
    """The request under the key has finished, but its answer is not kept."""

    def __init__(self) -> None:
        super().__init__(
            "the request of this idempotency key has finished, but its answer was too long to be kept, "
            "or has made room for newer ones"
        )


class GenerationPassed(LimitError):
    """The key was changed since it was looked up: look it up again, and come back with this generation."""

    def __init__(self, generation: bytes) -> None:
        super().__init__("the key was changed since it was looked up")
        self.generation = generation
