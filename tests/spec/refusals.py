"""The specification's rules for every error response (7.1, 7.2), as one check."""

from __future__ import annotations

from typing import Any

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode

ENVELOPE = {"success", "error", "credits_used", "credits_remaining", "request_id"}
ERROR = {"type", "message", "status", "doc_url"}


def assert_refused(answer: Answered, code: str, status: int) -> dict[str, Any]:
    """Check that the response is this error in the envelope of 7.1. Return its `details`; empty if there are none."""
    body = answer.json
    assert (body["error"]["type"], answer.status) == (code, status), body
    assert body.keys() == ENVELOPE
    assert body["success"] is False
    error = body["error"]
    assert ERROR <= error.keys() <= ERROR | {"details"}
    assert error["status"] == status
    assert error["message"]
    assert error["doc_url"].endswith(f"/docs/errors#{code}")
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["request_id"].startswith("req_")
    assert answer.headers["content-type"] == "application/json"
    details: dict[str, Any] = error.get("details", {})
    assert "details" not in error or details, "`details` is omitted if empty"
    assert not {"reason", "did_you_mean"} <= details.keys(), "an error has a reason or a suggestion, not both"
    assert status != 400 or details["param"], "every 400 names the field"
    return details


async def assert_free(node: OpenNode, answer: Answered, account: str = "") -> None:
    """Check that the request cost nothing, according to the response and to the statement."""
    body = answer.json
    assert body["credits_used"] == 0
    assert answer.headers.get("x-credits-used", "0") == "0"
    assert await node.net(body["request_id"], account) == 0
    assert (await node.money(account))[1] == 0
