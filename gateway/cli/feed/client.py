"""A client for a node's API: one kept-alive connection, and retries for temporary failures (spec 7.2)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from random import Random
from urllib.parse import SplitResult

import msgspec

from gateway.cli.endings import Endings
from gateway.cli.run import Refusal, complain

WAIT_S = 25
_TIMEOUT_S = WAIT_S + 10.0
_CONNECT_S = 10.0
_RETRIED = frozenset({429, 500, 502, 503, 504})
_BACKOFF_S = 1.0
_BACKOFF_MAX_S = 30.0
_PAUSE_MAX_S = 3_600


class Lost(Exception):
    """There was no response, or only part of a response."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request. With `may_end`, a signal may end the command meanwhile. `once` is the idempotency key."""

    method: str
    path: str
    body: bytes = b""
    may_end: bool = True
    once: str = ""


@dataclass(frozen=True, slots=True)
class FeedAnswer:
    """A response from a node, or from a proxy in front of it. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def seconds(self, name: str) -> float | None:
        """Return a header that contains whole seconds; None if it is absent or invalid."""
        text = self.headers.get(name, "")
        return float(min(int(text), _PAUSE_MAX_S)) if text.isascii() and text.isdecimal() and len(text) < 10 else None


class ErrorDetails(msgspec.Struct):
    """The details of an error. Only a 410 has the `missed_*` fields."""

    next_step: str = ""
    missed_from: str | None = None
    missed_until: str | None = None


class _Error(msgspec.Struct):
    type: str
    message: str
    details: ErrorDetails = msgspec.field(default_factory=ErrorDetails)


class _Refused(msgspec.Struct):
    error: _Error


class FeedClient:
    """Sends requests to a node with one key. `attempts` limits consecutive failures; 0 for no limit."""

    def __init__(self, url: SplitResult, key: str, *, endings: Endings, attempts: int, rng: Random) -> None:
        assert url.hostname is not None
        is_tls = url.scheme == "https"
        port = url.port or (443 if is_tls else 80)
        make = HTTPSConnection if is_tls else HTTPConnection
        self._connection = make(url.hostname, port, timeout=_CONNECT_S)
        self._base = url.path.rstrip("/")
        self._headers = {"x-api-key": key, "accept": "application/json"}
        self._endings = endings
        self._attempts = attempts
        self._rng = rng

    def ask(self, question: Question) -> FeedAnswer:
        """Return the response. Temporary failures are retried after a pause.

        Raises:
            Refusal: too many attempts failed.
            CommandEnded: the command must end.
        """
        failures = 0
        while True:
            pause_s = None
            try:
                answer = self._ask_once(question)
                if answer.status not in _RETRIED:
                    return answer
                problem, pause_s = words_of(answer), answer.seconds("retry-after")
            except Lost as exc:
                problem = str(exc)
            failures += 1
            if failures == self._attempts:
                raise Refusal(f"{problem}; giving up after attempt {failures}")
            if pause_s is None:
                pause_s = self._rng.uniform(0, min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(failures - 1, 16)))
            complain(f"{problem}; retrying in {pause_s:.1f} s")
            self.pause(pause_s)

    def pause(self, seconds: float) -> None:
        """Wait. Raises CommandEnded when the command must end."""
        with self._endings.allowed():
            self._endings.wait(seconds)

    def _ask_once(self, question: Question) -> FeedAnswer:
        """Send a request. If the kept-alive connection was closed in the meantime, reconnect and send it again."""
        is_kept = self._connection.sock is not None
        with self._endings.allowed() if question.may_end else nullcontext():
            try:
                return self._exchange(question)
            except Lost:
                if not is_kept:
                    raise
                return self._exchange(question)

    def _connect(self) -> None:
        self._connection.connect()
        self._connection.sock.settimeout(_TIMEOUT_S)

    def _exchange(self, question: Question) -> FeedAnswer:
        connection = self._connection
        try:
            if connection.sock is None:
                self._connect()
            headers = self._headers | ({"content-type": "application/json"} if question.body else {})
            headers |= {"idempotency-key": question.once} if question.once else {}
            connection.request(question.method, self._base + question.path, body=question.body or None, headers=headers)
            if question.may_end and not self._endings.wait(_TIMEOUT_S, connection.sock):
                raise TimeoutError(f"there was no response within {_TIMEOUT_S:.0f} s")
            with connection.getresponse() as answer:
                return FeedAnswer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        except ssl.SSLCertVerificationError as exc:
            raise Refusal(f"the node's certificate is not valid: {exc.verify_message}") from exc
        except (HTTPException, OSError) as exc:
            connection.close()
            raise Lost(f"the connection to {connection.host}:{connection.port} failed: {_words(exc)}") from exc


def _words(exc: Exception) -> str:
    return (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__


def details_of(answer: FeedAnswer) -> ErrorDetails:
    """Return the details of an error response; empty if it is not from a node."""
    refused = _refused(answer)
    return refused.error.details if refused else ErrorDetails()


def words_of(answer: FeedAnswer) -> str:
    """Describe an error response in one line, even if it is not from a node."""
    refused = _refused(answer)
    if refused is None:
        return f"status {answer.status}, from a server that is not a Sluice node"
    error = refused.error
    return printable(f"{answer.status} {error.type}: {error.message} {error.details.next_step}".rstrip())


def printable(text: str) -> str:
    """Return text as one line without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _refused(answer: FeedAnswer) -> _Refused | None:
    try:
        return msgspec.json.decode(answer.body, type=_Refused)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
