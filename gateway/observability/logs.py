"""Structured logs: one JSON object a line on stderr, never with a key, a secret or a query string in it.

Logging never waits and never raises, whatever becomes of stderr.
"""

from __future__ import annotations

import io
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, Protocol

import orjson

from gateway.observability.log_writer import FLUSH_S, LogStatistics, LogWriter
from gateway.observability.standard_streams import STDERR, discard, wait_writable

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_TEXT_MAX = 4_000
KEY_SHAPE = re.compile(r"[A-Za-z0-9_-]{46,}")
"""Anything that looks like an API key, or may hold one: it is struck out of every text before it is written."""


AccessLines = bool | Literal["errors"] | float
"""The answered requests that have a line: all, none, those that ended with an error, or a share of them."""


class LogSink(Protocol):
    """Takes lines; neither call waits or raises."""

    def write(self, line: bytes, /) -> object:
        """Take a line, which may wait a moment for others."""

    def flush(self) -> object:
        """Let nothing wait."""


class Log:
    """Writes events at or above a level; `access` says which answered requests are events.

    Every line has the fields of `also`, such as the number of the worker that writes it.
    """

    def __init__(
        self, level: str, *, stream: LogSink, access: AccessLines = True, also: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.level = LEVELS[level]
        self.access: AccessLines = access
        self._owed = 0.0
        self.statistics: Callable[[], LogStatistics] = LogStatistics
        self._stream = stream
        self._also = also
        self._second = 0, ""

    def change(self, level: str, *, access: AccessLines) -> None:
        """Go on with another level, and with lines for other answered requests."""
        self.level, self.access = LEVELS[level], access

    def wants(self, status: int) -> bool:
        """Whether an answered request of this status has a line; of a share every so manieth has, not one by chance."""
        if isinstance(self.access, bool):
            return self.access
        if self.access == "errors":
            return status >= 400
        self._owed += self.access
        if self._owed < 1:
            return False
        self._owed -= 1
        return True

    def event(self, level: str, event: str, **fields: Any) -> None:
        """Write one line at once: `at`, `level`, `event`, and the fields."""
        if LEVELS[level] >= self.level:
            self._stream.write(self._line(level, event, fields))
            self._stream.flush()

    def request(self, *, method: str, path: str, **own: Any) -> None:
        """Write the line of an answered request, which goes out with those of others.

        `own` are the fields that hold nothing of the client's, so that what every request pays for is little.
        """
        if LEVELS["info"] >= self.level:
            line = {"at": self._at(), "level": "info", "event": "request", **self._also}
            line |= own
            line["method"], line["path"] = _clean(method), _clean(path)
            self._stream.write(_encoded(line))

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """Write an exception with its traceback."""
        self.event("error", event, error="".join(traceback.format_exception(exc)), **fields)

    def report_dropped(self, lines: int) -> None:
        """Write that lines are missing here, whatever the level."""
        self._stream.write(self._line("error", "log_lines_dropped", {"lines": lines}))

    def _line(self, level: str, event: str, fields: Mapping[str, Any]) -> bytes:
        line = {"at": self._at(), "level": level, "event": event, **self._also}
        line.update({name: _clean(value) for name, value in fields.items()})
        return _encoded(line)

    def _at(self) -> str:
        """The present instant in ISO 8601; what is the same for a second is written once in it."""
        now = time.time()
        second, text = self._second
        if second != int(now):
            second = int(now)
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = second, text
        return f"{text}.{int((now - second) * 1000):03d}Z"


@contextmanager
def open_log(
    level: str, *, access: AccessLines = True, also: Mapping[str, int] = MappingProxyType({}), descriptor: int = STDERR
) -> Iterator[Log]:
    """The log of this process on stderr, with what libraries log and what Python itself says there.

    At the end it waits a moment for what is not yet written. A stderr that does not take it then takes nothing any
    more, so that the process can end.
    """
    writer = LogWriter(descriptor)
    log = Log(level, stream=writer, access=access, also=also)
    log.statistics, writer.report_dropped = writer.statistics, log.report_dropped
    carry_library_logs(log)
    writer.start()
    try:
        with redirect_stderr(_PythonErrors(log)):
            yield log
    finally:
        if not (writer.close() and wait_writable(descriptor, FLUSH_S)):
            discard(descriptor)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > 45:
            value = KEY_SHAPE.sub("[struck out]", value)
        return value if len(value) <= _TEXT_MAX else f"{value[:_TEXT_MAX]}..."
    return [_clean(entry) for entry in value] if isinstance(value, list) else value


def _encoded(line: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # such as a file's name that is no UTF-8
        plain = {name: _plain(value) for name, value in line.items()}
        return orjson.dumps(plain, option=orjson.OPT_APPEND_NEWLINE)


def _plain(value: Any) -> str:
    """A value as text that can always be encoded."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ascii(value)


class _PythonErrors(io.TextIOBase):
    """Turns what is written to Python's own stderr, such as warnings, into events."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begun = ""

    def writable(self) -> bool:
        """As a text stream."""
        return True

    def write(self, text: str) -> int:
        """Log each line once it is whole, or too long to wait for."""
        *lines, self._begun = (self._begun + text).split("\n")
        if len(self._begun) > _TEXT_MAX:
            lines, self._begun = [*lines, self._begun], ""
        for line in filter(None, lines):
            self._log.event("error", "stderr", text=line)
        return len(text)


class LogHandler(logging.Handler):
    """Carries what libraries log into the same lines."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its traceback when it has one."""
        fields = {"logger": record.name, "message": _message(record)}
        if record.exc_info:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        level = max(
            (name for name in LEVELS if LEVELS[name] <= record.levelno), key=LEVELS.__getitem__, default="debug"
        )
        self._log.event(level, "library", **fields)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's mistake in what it logs; a caller must not fail by it
        return str(record.msg)


def carry_library_logs(log: Log) -> None:
    """Send Python's own logging through `log`."""
    root = logging.getLogger()
    root.handlers = [LogHandler(log)]
    root.setLevel(logging.WARNING)
