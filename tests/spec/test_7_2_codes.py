"""Section 7.2: every row of the error table as data, and how each code occurs over a socket.

`test_7_2_retries.py` checks which codes are retryable.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.http.codes import CODES
from tests.fakes.calling import Answered
from tests.fakes.node import open_test_node
from tests.fakes.odd_platform import ODD
from tests.spec.asks import twice
from tests.spec.refusals import assert_refused
from tests.spec.scenes import SCENES, Scene

SPEC = {
    "MISSING_API_KEY": (401, False, "none"),
    "INVALID_API_KEY": (401, False, "none"),
    "INSUFFICIENT_CREDITS": (402, False, "none"),
    "KEY_BUDGET_EXCEEDED": (402, False, "none"),
    "INVALID_REQUEST": (400, False, "none"),
    "METHOD_NOT_ALLOWED": (405, False, "none"),
    "ENDPOINT_NOT_FOUND": (404, False, "none"),
    "RESOURCE_NOT_FOUND": (404, False, "refunded"),
    "PAYLOAD_TOO_LARGE": (413, False, "none"),
    "IDEMPOTENCY_KEY_CONFLICT": (409, False, "none"),
    "IDEMPOTENCY_IN_PROGRESS": (409, True, "none"),
    "IDEMPOTENCY_REPLAY_UNAVAILABLE": (409, False, "none"),
    "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH": (422, False, "none"),
    "COHORT_LIMIT_EXCEEDED": (400, False, "none"),
    "COHORT_MEMBER_LIMIT_EXCEEDED": (400, False, "none"),
    "COHORT_IDENTITY_PLATFORM_UNSUPPORTED": (400, False, "none"),
    "COHORT_IDENTITY_CONFLICT": (409, False, "none"),
    "COHORT_QUERY_NOT_CANCELLABLE": (409, False, "none"),
    "COHORT_QUERY_NOT_READY": (409, False, "none"),
    "COHORT_RESULT_TOO_LARGE": (413, False, "none"),
    "CURSOR_EXPIRED": (410, False, "none"),
    "RATE_LIMITED": (429, True, "none"),
    "CONCURRENCY_LIMIT": (429, True, "none"),
    "UPSTREAM_ERROR": (502, True, "refunded"),
    "SERVICE_UNAVAILABLE": (503, True, "refunded"),
    "INTERNAL_ERROR": (500, True, "refunded"),
}
OF_HTTP = {
    "REQUEST_TIMEOUT": 408,
    "URI_TOO_LONG": 414,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "EXPECTATION_FAILED": 417,
    "UPGRADE_REQUIRED": 426,
    "HEADERS_TOO_LARGE": 431,
    "NOT_IMPLEMENTED": 501,
    "HTTP_VERSION_NOT_SUPPORTED": 505,
}
"""Codes of HTTP errors, which are final and free. `test_7_2_http.py` has their scenes."""
OF_COHORTS = {name for name in SPEC if name.startswith("COHORT_")}
"""Codes that need a platform with posts. `tests/gateway/api/routes/test_cohorts.py` has their scenes."""


def test_every_specified_code_exists() -> None:
    known = {code.name: (code.status, code.retryable, code.charge) for code in CODES.values()}
    own = {name: (status, False, "none") for name, status in OF_HTTP.items()}
    assert known == SPEC | own


def test_every_code_has_a_scene() -> None:
    assert {scene.code for scene in SCENES.values()} == CODES.keys() - OF_HTTP.keys() - OF_COHORTS


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
async def test_code_is_returned_as_the_table_says(scene: Scene, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, credits=scene.credits, platforms=(ODD,), **scene.tables) as node:
        answer = await scene.ask(node)
        details = assert_refused(answer, scene.code, SPEC[scene.code][0])
        assert details == scene.details
        assert scene.says in answer.json["error"]["message"]
        assert {name: answer.headers.get(name) for name in scene.headers} == scene.headers
        assert_retry_after(answer, scene.retry_after)
        assert_money_told(answer, knows_balance=scene.knows_balance)
        assert ("x-ratelimit-limit" in answer.headers) == scene.windowed
        is_known = scene.windowed or scene.code == "CONCURRENCY_LIMIT"
        assert answer.headers.get("x-credits-used") == ("0" if is_known else None)
        assert ("x-sluice-overhead-ms" in answer.headers) == is_known
        assert ("x-concurrency-limit" in answer.headers) == (scene.code == "CONCURRENCY_LIMIT")
        assert ("allow" in answer.headers) == (scene.code == "METHOD_NOT_ALLOWED")
        entries = await node.entries(answer.json["request_id"])
        assert tuple(entry["type"] for entry in entries) == scene.entries
        assert sum(entry["amount"] for entry in entries) == 0
        await node.assert_sound()


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_only_refunded_codes_were_charged_first(scene: Scene) -> None:
    """A withdrawn endpoint and an unavailable store are rejected before the charge, as 7.2 says."""
    assert not scene.entries or SPEC[scene.code][2] == "refunded"


def assert_retry_after(answer: Answered, due: tuple[int, int] | None) -> None:
    sent = answer.headers.get("retry-after")
    assert (sent is None) == (due is None)
    if due is not None and sent is not None:
        assert due[0] <= int(sent) <= due[1]


def assert_money_told(answer: Answered, *, knows_balance: bool) -> None:
    body = answer.json
    assert body["credits_used"] == 0
    assert (body["credits_remaining"] is not None) == knows_balance
    sent = str(body["credits_remaining"]) if knows_balance else None
    assert answer.headers.get("x-credits-remaining") == sent


async def test_rate_limit_reset_is_the_next_window_slot(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits={"requests_per_minute": 1}) as node:
        answer = await twice(node)
        assert answer.headers["retry-after"] == answer.headers["x-ratelimit-reset"]


def test_guide_lists_retryable_errors() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    (sentence,) = re.findall(r"^Retry (`.*?)\. ", guide, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`([A-Z_]{3,})`", sentence)) == {name for name, row in SPEC.items() if row[1]}


@pytest.mark.parametrize("form", ["/docs/errors", "/docs/errors.md"])
async def test_doc_url_page_has_every_code(form: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        page = (await node.get(form, key=None)).body.decode()
        refusal = (await node.get("/v1/github/profile")).json["error"]["doc_url"]
        assert refusal == f"{node.url}/docs/errors#INVALID_REQUEST"
    for name, code in CODES.items():
        assert name in page
        assert f"| `{name}` | {code.status} | {'yes' if code.retryable else 'no'} |" in page or f'id="{name}"' in page
