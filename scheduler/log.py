"""The logging interface of the scheduler."""

from typing import Any, Protocol


class OperatorLog(Protocol):
    """The operator's log."""

    def event(self, level: str, event: str, **fields: Any) -> None:
        """Log one line."""
        ...

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """Log an exception with its traceback."""
        ...
