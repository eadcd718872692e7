"""A blocking HTTP client for tests that run outside the node: one connection per call, with bounded waits."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answered:
    """One response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return orjson.loads(self.body)

    @property
    def code(self) -> str | None:
        """Return the error's type, or None for a success."""
        body = self.json
        return None if body["success"] else str(body["error"]["type"])


def call(url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answered:
    """Make one call. A response with an error status is returned like any other."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    with closing(HTTPConnection(parts.netloc, timeout=TIMEOUT_S)) as connection:
        connection.request(method, target, body=body or None, headers=dict(headers or {}))
        answer = connection.getresponse()
        return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


def get(url: str, key: str | None = None, **headers: str) -> Answered:
    """Send a GET with an API key."""
    return call(url, headers={**headers, **({} if key is None else {"x-api-key": key})})
