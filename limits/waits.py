"""The state of a window, and waits in whole seconds, as `Retry-After` wants them."""

from typing import NamedTuple


def whole_seconds(now: float, until: float) -> int:
    """The fewest whole seconds after which a clock that shows `now` has reached `until`; 0 when it already has."""
    # `until` and the difference are rounded floats: a ceiling is at times one too few or too many.
    seconds = int(until - now) if until > now else 0
    while now + seconds < until:
        seconds += 1
    return seconds


class WindowState(NamedTuple):
    """The state of one key's window: `reset_s` is the whole seconds until a slot frees, 0 when none is used."""

    limit: int
    remaining: int
    reset_s: int

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which a request is admitted if no other came: 0 while one would be admitted at once."""
        return 0 if self.remaining else self.reset_s
