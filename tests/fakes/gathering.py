"""Reports the failures of many cases together, instead of ending at the first one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class GatheredFailures:
    """The failures of cases so far, by the names of the cases."""

    def __init__(self) -> None:
        self._failed: dict[str, Exception] = {}

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Keep the failure of the block, so that the next case can run."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - raised by `report`
            self._failed[name] = exc

    def report(self) -> None:
        """Raise all failures as one group, if there are any."""
        if self._failed:
            raise ExceptionGroup(", ".join(self._failed), list(self._failed.values()))
