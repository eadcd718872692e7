"""Hold-until times: what an upstream's throttling answer asked of us, per name (a source and a method or scope)."""

from collections.abc import Hashable


class Governor:
    """Remembers until when each name is held.

    At most `names_max` names are remembered: past that, the one that ends soonest is let go. No hold is obeyed for
    longer than `wait_s_max` from when it is first looked at, so one absurd answer cannot put a source away for good.
    Times are monotonic seconds.
    """

    def __init__(self, *, names_max: int = 1000, wait_s_max: float = 3600.0) -> None:
        self._names_max = names_max
        self._wait_s_max = wait_s_max
        self._until: dict[Hashable, float] = {}

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._until)

    def hold(self, name: Hashable, until: float) -> None:
        """Hold `name` until then; a hold that ends later stands."""
        if name not in self._until and len(self._until) >= self._names_max:
            del self._until[min(self._until, key=self._until.__getitem__)]
        self._until[name] = max(until, self._until.get(name, until))

    def wait_s(self, name: Hashable, now: float) -> float:
        """Seconds that a call of `name` has to wait; 0 when it is free."""
        if not self._until:
            return 0.0
        until = self._until.get(name)
        if until is None:
            return 0.0
        if until <= now:
            del self._until[name]
            return 0.0
        self._until[name] = until = min(until, now + self._wait_s_max)
        return until - now
