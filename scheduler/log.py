"""The log of a node, as the scheduler writes to it."""

from typing import Any, Protocol


class OperatorLog(Protocol):
    """The operator's log, as the scheduler writes to it."""

    def event(self, level: str, event: str, **fields: Any) -> None:
        """One line."""
        ...

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """An exception with its traceback."""
        ...
