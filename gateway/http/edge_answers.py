"""Error responses of the HTTP edge, sent before any app is called: malformed, oversized and slow requests."""

from __future__ import annotations

from collections.abc import Callable

from gateway.http import envelope
from gateway.http.codes import OF_THE_EDGE
from gateway.http.errors import Refused
from gateway.http.request import Headers
from gateway.server.errors import EdgeAnswer


def edge_answer_of(make_id: Callable[[str], str], base_url: str) -> EdgeAnswer:
    """Return a function that formats edge errors as the API's error envelope with a request id (spec 7.1)."""

    def answer(status: int, sentence: str) -> tuple[Headers, bytes]:
        request_id = make_id("req_")
        details = {"reason": "invalid_param", "param": "request"} if status == 400 else None
        refused = Refused(OF_THE_EDGE.get(status, "INVALID_REQUEST"), sentence, details=details)
        body = envelope.failure(refused, request_id=request_id, credits_used=0, balance=None, base_url=base_url)
        return [(b"content-type", b"application/json"), (b"x-request-id", request_id.encode())], body

    return answer


def plain_edge_answer(status: int, sentence: str) -> tuple[Headers, bytes]:
    """Format edge errors as one line of text, for servers other than the API."""
    return [(b"content-type", b"text/plain; charset=utf-8")], f"{status} {sentence}\n".encode()
