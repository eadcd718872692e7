"""Structured logs: one JSON object a line on stderr, never with a key, a secret or a query string in it."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, BinaryIO

import orjson

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_TEXT_MAX = 4_000
KEY_SHAPE = re.compile(r"[A-Za-z0-9_-]{46,}")
"""Anything that looks like an API key, or may hold one: it is struck out of every text before it is written."""


class Log:
    """Writes events at or above a level; `access` says whether every answered request is one.

    Every line has the fields of `also`, such as the number of the worker that writes it.
    """

    def __init__(
        self,
        level: str,
        *,
        access: bool = True,
        stream: BinaryIO | None = None,
        also: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.level = LEVELS[level]
        self.access = access
        self._stream = stream or sys.stderr.buffer
        self._also = also

    def event(self, level: str, event: str, **fields: Any) -> None:
        """Write one line: `at`, `level`, `event`, and the fields."""
        if LEVELS[level] < self.level:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": level, "event": event, **self._also}
        line.update({name: _clean(value) for name, value in fields.items()})
        self._stream.write(orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE))
        self._stream.flush()

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """Write an exception with its traceback."""
        self.event("error", event, error="".join(traceback.format_exception(exc)), **fields)


def _clean(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if len(value) > 45:
        value = KEY_SHAPE.sub("[struck out]", value)
    return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}..."


class LogHandler(logging.Handler):
    """Carries what libraries log into the same lines."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its traceback when it has one."""
        fields = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        level = max(
            (name for name in LEVELS if LEVELS[name] <= record.levelno), key=LEVELS.__getitem__, default="debug"
        )
        self._log.event(level, "library", **fields)


def carry_library_logs(log: Log) -> None:
    """Send Python's own logging through `log`."""
    root = logging.getLogger()
    root.handlers = [LogHandler(log)]
    root.setLevel(logging.WARNING)
