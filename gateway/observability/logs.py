"""Structured logs: one JSON object per line on stderr, without keys, secrets or query strings.

Logging never blocks and never raises, even if stderr is blocked or closed.
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
"""Matches anything that looks like an API key, or may contain one. Matches are removed from events and paths."""


AccessLines = bool | Literal["errors"] | float
"""Which requests to log: all, none, only failed ones ("errors"), or a share of all."""


class LogSink(Protocol):
    """Receives the lines of a log. Its methods never block and never raise."""

    def write(self, line: bytes, /) -> object:
        """Accept a line. The sink may delay the line to write several together."""

    def flush(self) -> object:
        """Write the waiting lines now."""


class Log:
    """Writes events at or above a level, and lines for the requests that `access` selects.

    Every line also has the fields in `also`, such as the number of the worker that writes it.
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
        """Change the minimum level, and which requests are logged."""
        self.level, self.access = LEVELS[level], access

    def wants(self, status: int) -> bool:
        """Return whether to log a request with this status.

        A share of 1/n selects every n-th request, not random ones.
        """
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
        """Write one line immediately, with `at`, `level`, `event` and the given fields."""
        if LEVELS[level] >= self.level:
            self._stream.write(self._line(level, event, fields))
            self._stream.flush()

    def request(self, *, method: str, path: str, **own: Any) -> None:
        """Queue the line for a request. It is written together with the lines for other requests.

        `own` has the fields that contain no client data. They are not searched for secrets, which keeps the cost for
        each request low.
        """
        if LEVELS["info"] >= self.level:
            line = {"at": self._at(), "level": "info", "event": "request", **self._also}
            line |= own
            line["method"], line["path"] = _clean(method), _clean(path)
            self._stream.write(_encoded(line))

    def failure(self, event: str, exc: BaseException, **fields: Any) -> None:
        """Log an exception with its traceback."""
        self.event("error", event, error="".join(traceback.format_exception(exc)), **fields)

    def report_dropped(self, lines: int) -> None:
        """Log at any level how many lines were dropped before this one."""
        self._stream.write(self._line("error", "log_lines_dropped", {"lines": lines}))

    def _line(self, level: str, event: str, fields: Mapping[str, Any]) -> bytes:
        line = {"at": self._at(), "level": level, "event": event, **self._also}
        line.update({name: _clean(value) for name, value in fields.items()})
        return _encoded(line)

    def _at(self) -> str:
        """Return the current time in ISO 8601. The date and time up to the second are formatted once a second."""
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
    """Open this process's log on stderr. Library logs, and text that Python writes to stderr, become lines of this log.

    At the end, wait briefly until the remaining lines are written. If stderr does not accept them, discard all later
    output, because it could keep the process from ending.
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
    except TypeError:  # A value cannot be serialized, for example a file name that is not UTF-8.
        plain = {name: _plain(value) for name, value in line.items()}
        return orjson.dumps(plain, option=orjson.OPT_APPEND_NEWLINE)


def _plain(value: Any) -> str:
    """Return a value as text that can always be encoded."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ascii(value)


class _PythonErrors(io.TextIOBase):
    """Turns text that is written to Python's stderr, such as warnings, into events."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begun = ""

    def writable(self) -> bool:
        """Return True, because this is a writable text stream."""
        return True

    def write(self, text: str) -> int:
        """Log each line once it is complete, or too long to buffer."""
        *lines, self._begun = (self._begun + text).split("\n")
        if len(self._begun) > _TEXT_MAX:
            lines, self._begun = [*lines, self._begun], ""
        for line in filter(None, lines):
            self._log.event("error", "stderr", text=line)
        return len(text)


class LogHandler(logging.Handler):
    """Forwards the messages of Python's logging to a Log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, with the traceback if it has one."""
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
    except Exception:  # noqa: BLE001 - a library may log wrong arguments; that must not fail its caller
        return str(record.msg)


def carry_library_logs(log: Log) -> None:
    """Route the warnings and errors of Python's logging to `log`."""
    root = logging.getLogger()
    root.handlers = [LogHandler(log)]
    root.setLevel(logging.WARNING)
