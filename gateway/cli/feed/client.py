"""A client of a node's events feed: one connection that is kept, and another try for what may pass (spec 7.2)."""

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
    """There was no answer, or not a whole one."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request. `may_end`: the command may end while it is under way. `once`: its idempotency key."""

    method: str
    path: str
    body: bytes = b""
    may_end: bool = True
    once: str = ""


@dataclass(frozen=True, slots=True)
class FeedAnswer:
    """An answer of a node, or of a proxy before it; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def seconds(self, name: str) -> float | None:
        """A header that holds whole seconds; None without it."""
        text = self.headers.get(name, "")
        return float(min(int(text), _PAUSE_MAX_S)) if text.isascii() and text.isdecimal() and len(text) < 10 else None


class ErrorDetails(msgspec.Struct):
    """The details of a refusal beside its message; a 410 has `missed_*`."""

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
    """Asks a node with one key. `attempts` is how often in a row an answer may fail to come; 0 for no end."""

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
        """The answer, when it is none that may pass; else waits and asks again.

        Raises:
            Refusal: too many attempts have failed.
            Ended: the command is to end.
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
                raise Refusal(f"{problem}; this was attempt {failures}, the last")
            if pause_s is None:
                pause_s = self._rng.uniform(0, min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(failures - 1, 16)))
            complain(f"{problem}; trying again in {pause_s:.1f} s")
            self.pause(pause_s)

    def pause(self, seconds: float) -> None:
        """Wait. Raises Ended when the command is to end."""
        with self._endings.allowed():
            self._endings.wait(seconds)

    def _ask_once(self, question: Question) -> FeedAnswer:
        """One answer; a kept connection that was closed meanwhile is no failure."""
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
                raise TimeoutError(f"there was no answer within {_TIMEOUT_S:.0f} s")
            with connection.getresponse() as answer:
                return FeedAnswer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        except ssl.SSLCertVerificationError as exc:
            raise Refusal(f"the node's certificate does not hold: {exc.verify_message}") from exc
        except (HTTPException, OSError) as exc:
            connection.close()
            raise Lost(f"the connection to {connection.host}:{connection.port} failed: {_words(exc)}") from exc


def _words(exc: Exception) -> str:
    return (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__


def details_of(answer: FeedAnswer) -> ErrorDetails:
    """Return the details of an error's answer; empty ones when it is none of a node's."""
    refused = _refused(answer)
    return refused.error.details if refused else ErrorDetails()


def words_of(answer: FeedAnswer) -> str:
    """An error's answer in one line; also of what is none of a node's."""
    refused = _refused(answer)
    if refused is None:
        return f"{answer.status} was answered, and not by a Sluice node"
    error = refused.error
    return printable(f"{answer.status} {error.type}: {error.message} {error.details.next_step}".rstrip())


def printable(text: str) -> str:
    """Text as one line that does nothing to a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _refused(answer: FeedAnswer) -> _Refused | None:
    try:
        return msgspec.json.decode(answer.body, type=_Refused)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
