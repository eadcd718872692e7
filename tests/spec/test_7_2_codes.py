"""Section 7.2: every row of the error table as data, and how each code occurs over a socket.

Final errors are repeated here: they stay the same and free. `test_7_2_retries.py` has the retryable ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import trio

from gateway.http.codes import CODES
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.spec.asks import twice
from tests.spec.refusals import assert_refused
from tests.spec.scenes import SCENES, Scene
from tests.spec.shared_node import check_cases

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


PAUSING = ("a throttling upstream", "a held source")
"""Scenes that pause a source, so that each needs a node of its own, like scenes with their own config."""
ALONE = tuple(name for name, scene in SCENES.items() if scene.tables or name in PAUSING)


async def test_code_is_returned_as_the_table_says(tmp_path: Path) -> None:
    for credits in {scene.credits for scene in SCENES.values()}:  # noqa: A001 - the specification's name
        cases = {name: scene for name, scene in SCENES.items() if scene.credits == credits and name not in ALONE}
        await check_cases(cases, _code_is_returned, tmp_path / str(credits), credits=credits, platforms=(ODD,))


@pytest.mark.parametrize("name", ALONE)
async def test_code_of_limits_and_sources_is_returned_as_the_table_says(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]
    await check_cases({name: scene}, _code_is_returned, tmp_path, platforms=(ODD,), **scene.tables)


async def _code_is_returned(node: OpenNode, scene: Scene) -> None:
    sent = recording(node.client)
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
    request = sent[-1] if sent else None
    entries = await node.entries(answer.json["request_id"])
    assert tuple(entry["type"] for entry in entries) == scene.entries
    assert sum(entry["amount"] for entry in entries) == 0
    if not scene.is_temporary:
        await assert_final(node, scene, answer, request)
    await node.assert_sound()


async def assert_final(node: OpenNode, scene: Scene, first: Answered, request: httpx.Request | None) -> None:
    """Check that a final error stays the same and free. A scene without a client request is run again."""
    before = await node.money()
    for _ in range(2):
        again = await scene.ask(node) if request is None else answered(await node.client.send(request))
        assert again.json["error"]["type"] == (scene.later or scene.code)
        assert scene.later or again.json["error"] == first.json["error"]
        assert again.json["request_id"] != first.json["request_id"]
        assert again.json["credits_used"] == 0
    assert await node.money() == before


def recording(client: httpx.AsyncClient) -> list[httpx.Request]:
    """Return a list to which the client adds its requests from now on."""
    sent: list[httpx.Request] = []

    async def remember(request: httpx.Request) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(request)

    client.event_hooks = {"request": [remember]}
    return sent


def answered(answer: httpx.Response) -> Answered:
    return Answered(answer.status_code, dict(answer.headers), answer.content)


def test_final_codes_match_the_table() -> None:
    """7.2: of the retryable codes, only a 503 without `Retry-After` is permanent, for a withdrawn endpoint."""
    final = {scene.code for scene in SCENES.values() if not scene.is_temporary}
    assert {code for code in final if CODES[code].retryable} == {"SERVICE_UNAVAILABLE"}
    assert all(CODES[scene.code].retryable for scene in SCENES.values() if scene.is_temporary)


def test_only_refunded_codes_were_charged_first() -> None:
    """A withdrawn endpoint and an unavailable store are rejected before the charge, as 7.2 says."""
    assert {SPEC[scene.code][2] for scene in SCENES.values() if scene.entries} == {"refunded"}


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


async def test_doc_url_page_has_every_code(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        pages = [(await node.get(form, key=None)).body.decode() for form in ("/docs/errors", "/docs/errors.md")]
        refusal = (await node.get("/v1/github/profile")).json["error"]["doc_url"]
        assert refusal == f"{node.url}/docs/errors#INVALID_REQUEST"
    for name, code in CODES.items():
        for page in pages:
            assert name in page
            assert (
                f"| `{name}` | {code.status} | {'yes' if code.retryable else 'no'} |" in page or f'id="{name}"' in page
            )
