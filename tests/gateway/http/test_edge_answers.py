"""Responses of the HTTP edge: the error envelope with the HTTP status (spec 7.1)."""

from __future__ import annotations

import orjson
import pytest

from gateway.http.edge_answers import edge_answer_of, plain_edge_answer

STATUSES = {
    408: "REQUEST_TIMEOUT",
    413: "PAYLOAD_TOO_LARGE",
    414: "URI_TOO_LONG",
    417: "EXPECTATION_FAILED",
    426: "UPGRADE_REQUIRED",
    431: "HEADERS_TOO_LARGE",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    505: "HTTP_VERSION_NOT_SUPPORTED",
}


@pytest.mark.parametrize(("status", "code"), STATUSES.items())
def test_edge_response_is_an_error_without_cost(status: int, code: str) -> None:
    headers, body = edge_answer_of(lambda prefix: f"{prefix}1", "https://api.example.com")(status, 'No "such" thing.')
    assert headers == [(b"content-type", b"application/json"), (b"x-request-id", b"req_1")]
    details = {"details": {"reason": "invalid_param", "param": "request"}} if status == 400 else {}
    assert orjson.loads(body) == {
        "success": False,
        "error": {
            "type": code,
            "message": 'No "such" thing.',
            "status": status,
            "doc_url": f"https://api.example.com/docs/errors#{code}",
            **details,
        },
        "credits_used": 0,
        "credits_remaining": None,
        "request_id": "req_1",
    }


def test_malformed_request_returns_400_with_param_request() -> None:
    _, body = edge_answer_of(lambda prefix: f"{prefix}1", "")(400, "The Host header is missing.")
    error = orjson.loads(body)["error"]
    assert (error["type"], error["details"]) == ("INVALID_REQUEST", {"reason": "invalid_param", "param": "request"})


def test_every_edge_response_has_its_own_id() -> None:
    ids = iter(["req_1", "req_2"])
    answer = edge_answer_of(lambda _prefix: next(ids), "")
    answers = [answer(400, "Why.") for _ in range(2)]
    assert [orjson.loads(body)["request_id"] for _, body in answers] == ["req_1", "req_2"]
    assert [dict(headers)[b"x-request-id"] for headers, _ in answers] == [b"req_1", b"req_2"]


def test_plain_edge_response_is_one_line_of_text() -> None:
    headers, body = plain_edge_answer(414, "The target is too long.")
    assert headers == [(b"content-type", b"text/plain; charset=utf-8")]
    assert body == b"414 The target is too long.\n"
